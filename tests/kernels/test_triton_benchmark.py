"""Tests that the complete GPU benchmark runs on small inputs without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from benchmarks.core import record
from benchmarks.gpu import main, parse
from benchmarks.suites import gpu

ROOT = Path(__file__).parents[2]
BENCHMARK = """
import sys
from benchmarks.gpu import main
from tests.kernels import interpreter

interpreter.patch_once()
sys.exit(main(sys.argv[1:]))
"""


def benchmark(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BENCHMARK, *arguments], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
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
        assert {"gattn", "gattn_general", "pyg", "padded_sdpa"} <= sides.keys()
        assert sides["gattn"]["both"]["warm"] > 0
    assert "molecules-1024/dot_product" in benchmark("--table", "--out", str(out))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Return a benchmark with tiny cases and one measurement."""

    def make(*arguments, case=lambda ground, shape: {"sides": {}}, ground=lambda name: None):
        out = str(tmp_path / "gpu.jsonl")
        command = "--dry-run", "--graphs", "hub", "--operators", "gatv2", "--out", out, *arguments
        runner = gpu.Bench(parse(command), record.environment("benchmarks.gpu", command))
        monkeypatch.setattr(runner, "case", case)
        monkeypatch.setattr(runner, "ground", ground)
        return runner

    return make


def names(bench):
    return [json.loads(line)["case"] for line in bench.options.out.read_text().splitlines()]


def test_resuming_measures_what_failed_or_was_asked_otherwise(bench):
    def fail_once(ground, shape):
        if shape.dtype == torch.float16:
            raise torch.OutOfMemoryError("no room")
        return {"sides": {}}

    first = bench(case=fail_once)
    first.graph("hub")
    assert first.failed == 1
    assert names(first) == ["hub/gatv2/2x4/float32", "hub/gatv2/2x4/float16"]
    assert record.newest(first.options.out)[names(first)[1]]["raised"].endswith("no room")
    second = bench("--resume")
    second.graph("hub")
    assert names(second)[2:] == ["hub/gatv2/2x4/float16"]
    bench("--resume", ground=lambda name: pytest.fail("nothing is left")).graph("hub")
    other = bench("--resume", "--peers", "pyg")
    other.graph("hub")
    assert len(names(other)) == 5


def test_without_a_card_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 1
    assert "no CUDA device here" in capsys.readouterr().out
