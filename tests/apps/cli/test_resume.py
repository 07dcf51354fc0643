"""A run that is killed and resumed ends with the metrics of an uninterrupted run."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.apps.cli.commands import run_command
from tests.pictures import leave_blank

ROOT = Path(__file__).parents[3]


def training(data, out):
    return [
        *("molecules", "train", str(data), "--target", "y", "--out", str(out)),
        *("--epochs", "30", "--width", "32", "--ensemble", "2"),
        *("--workers", "1", "--config", str(data.with_name("dropout.toml"))),
    ]


@pytest.mark.slow
def test_training_resumed_after_kill_writes_the_same_files_as_uninterrupted_training(
    tmp_path, monkeypatch
):
    leave_blank(monkeypatch)
    data = tmp_path / "data.csv"
    rows = (f"{'C' * n}{end},{0.5 * n + i}\n" for n in range(1, 41) for i, end in enumerate("ON"))
    data.write_text("smiles,y\n" + "".join(rows))
    (tmp_path / "dropout.toml").write_text("[model]\ndropout = 0.1\n")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_command(monkeypatch, *training(data, whole)) == 0

    threads = str(torch.get_num_threads())
    process = subprocess.Popen(
        [sys.executable, "-m", "gattn.apps.cli", *training(data, killed)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": threads},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while process.poll() is None and not list(killed.rglob("checkpoint.pt")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # the process was killed before the run was complete
    assert not (killed / "metrics.json").exists()

    assert run_command(monkeypatch, *training(data, killed)) == 0
    for name in ("metrics.json", "predictions.csv", "weights.safetensors", "splits.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert not (killed / "checkpoints").exists()
