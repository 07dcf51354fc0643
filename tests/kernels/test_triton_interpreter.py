"""Run the operator tests of backend triton in Triton's interpreter, on any machine.

They run in another process: triton reads TRITON_INTERPRET when it is imported, and other tests of
this process need Triton without it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
SUITE = Path(__file__).with_name("test_triton_ops.py")
PARTS = {"unusual_graphs or odd_widths": 100, "not (unusual_graphs or odd_widths)": 20}
"""Selections of tests that pytest workers run at the same time, with the least number of tests."""


# On a machine with other work, a part can take much longer than the usual limit of a test.
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chosen", PARTS)
def test_triton_operators_pass_their_tests_in_the_interpreter(chosen):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "GATTN_"))}
    environment |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(SUITE)]
    command += ["-k", chosen]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > PARTS[chosen]
