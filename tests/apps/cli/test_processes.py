"""Training in two processes under torchrun gives the metrics of training in one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.apps.cli.commands import run_command
from tests.pictures import leave_blank

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def numbers(table):
    """Return all numbers in nested tables, as a dictionary by dotted name."""
    if not isinstance(table, dict):
        return {"": table} if isinstance(table, int | float) else {}
    nested = {name: numbers(value) for name, value in table.items()}
    return {f"{name}.{end}": value for name, ends in nested.items() for end, value in ends.items()}


@pytest.mark.slow
def test_training_in_two_processes_gives_the_metrics_of_one_process(tmp_path, monkeypatch):
    leave_blank(monkeypatch)
    data = tmp_path / "data.csv"
    rows = (f"{'C' * n}{end},{0.5 * n + i}\n" for n in range(1, 41) for i, end in enumerate("ON"))
    data.write_text("smiles,y\n" + "".join(rows))
    # Of 64 molecules, the last batch has one, which two processes cannot share.
    command = [
        *("molecules", "train", str(data), "--target", "y", "--epochs", "4", "--width", "32"),
        *("--ensemble", "2", "--batch-size", "21", "--workers", "1", "--out"),
    ]
    assert run_command(monkeypatch, *command, tmp_path / "of-1") == 0
    started = subprocess.run(
        [sys.executable, *TORCHRUN, "-m", "gattn.apps.cli", *command, tmp_path / "of-2"],
        env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    one, two = (
        numbers(json.loads((tmp_path / name / "metrics.json").read_text()))
        for name in ("of-1", "of-2")
    )
    assert len(one) > 20
    assert two == pytest.approx(one, abs=1e-4)


@pytest.mark.parametrize("command", [("nodes", "train", "a"), ("links", "train", "a")])
def test_training_on_networks_under_torchrun_is_an_error(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_command(monkeypatch, *command, "--out", tmp_path / "out") == 2
    assert "runs in one process, but torchrun started 2" in capsys.readouterr().err
