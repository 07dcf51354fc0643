"""Tests that the kernels can be compiled for an H100 on a machine without a GPU, and that they
spill no registers.

The tests compile a sample of the shape classes; ``python -m benchmarks.aot`` compiles all of them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.sides.families import FAMILIES

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_sample_compiles_without_spills(tmp_path):
    command = [sys.executable, "-m", "benchmarks.aot", "--quick", "--out", str(tmp_path / "aot")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len((tmp_path / "aot").read_text().splitlines()) > 25


@pytest.mark.slow
def test_what_an_operator_launches(tmp_path):
    out = tmp_path / "launches"
    command = [sys.executable, "-m", "benchmarks.launches", "--seconds", "0", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    results = {line["case"]: line for line in map(json.loads, out.read_text().splitlines())}
    for operator in FAMILIES:
        assert results[f"{operator}/whole graphs"]["launches"] == {
            "forward": 1, "forward+backward": 2
        }  # fmt: skip
        # In this graph no row is long enough to be split, so no kernel merges the parts of a row.
        assert results[f"{operator}/rows and splits"]["launches"]["forward"] == 1
