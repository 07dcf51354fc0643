"""Kernels compile ahead of time for an H100, without one, and spill no register.

A sample of the shape classes; ``python benchmarks/aot.py`` compiles them all.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_sample_compiles_without_spills(tmp_path):
    command = [sys.executable, "-m", "benchmarks.aot", "--quick", "--out", str(tmp_path / "aot")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len((tmp_path / "aot").read_text().splitlines()) > 25
