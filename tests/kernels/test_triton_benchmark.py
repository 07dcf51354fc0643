"""The GPU benchmark runs from end to end, without a GPU, at toy size."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]


def benchmark(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.gpu", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_dry_run(tmp_path):
    out = tmp_path / "gpu.jsonl"
    few = "--graphs", "molecules-1024", "--operators", "dot_product", "--out", str(out)
    benchmark("--dry-run", *few)
    roofs, *cases = [json.loads(line) for line in out.read_text().splitlines()]
    assert roofs["bytes_per_second"]["copy"] > 0
    assert len(cases) == 2
    for case in cases:
        assert case["check"]["passed"]
        sides = case["sides"]
        assert {"gattn", "gattn_general", "pyg", "padded_sdpa", "anemoi"} <= sides.keys()
        assert sides["gattn"]["both"]["warm"] > 0
    assert "molecules-1024/dot_product" in benchmark("--table", "--out", str(out))


def test_without_a_card_it_says_so():
    command = [sys.executable, "-m", "benchmarks.gpu"]
    environment = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 1
    assert "no CUDA device here" in done.stdout
