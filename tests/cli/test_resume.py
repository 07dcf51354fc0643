"""A run that is killed and started again ends with the numbers of one that was not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def command(data, out):
    return [
        *(sys.executable, "-m", "gattn.cli", "molecules", "train", str(data), "--target", "y"),
        *("--out", str(out), "--epochs", "30", "--width", "32", "--ensemble", "2"),
        *("--dropout", "0.1", "--workers", "1"),
    ]


@pytest.mark.slow
def test_killed_in_the_middle(tmp_path):
    data = tmp_path / "data.csv"
    rows = (f"{'C' * n}{end},{0.5 * n + i}\n" for n in range(1, 41) for i, end in enumerate("ON"))
    data.write_text("smiles,y\n" + "".join(rows))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(command(data, whole), env=ENVIRONMENT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr

    process = subprocess.Popen(
        command(data, killed), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not list(killed.rglob("*.safetensors")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL  # it was not whole before
    assert not (killed / "metrics.json").exists()

    again = subprocess.run(command(data, killed), env=ENVIRONMENT, capture_output=True, check=False)
    assert again.returncode == 0, again.stderr
    for name in ("metrics.json", "predictions.csv", "weights.safetensors", "splits.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert not (killed / "checkpoints").exists()
