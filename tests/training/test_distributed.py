"""Two processes under torchrun train what one process trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("distributed.py")
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run(*arguments: object) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "epochs", "precision", "apart"),
    [
        (150, 10, "32", 1e-4),
        (97, 10, "32", 1e-4),  # the last batch of 32 has one item for both processes
        (97, 100, "64", 1e-9),
    ],
)
def test_two_processes_train_what_one_trains(tmp_path, items, epochs, precision, apart) -> None:
    arguments = [SCRIPT, tmp_path, items, epochs, precision]
    run(*arguments)
    run(*TORCHRUN, *arguments)
    one, two = (json.loads((tmp_path / f"{n}.json").read_text()) for n in (1, 2))
    assert len(one["records"]) == len(two["records"])
    for a, b in zip(one["records"], two["records"]):
        assert b["train_loss"] == pytest.approx(a["train_loss"], abs=apart)
        assert b["validation_loss"] == pytest.approx(a["validation_loss"], abs=apart)
    for a, b in zip(one["outputs"], two["outputs"]):
        # The outputs are of float32 weights, which the float64 ones are rounded to.
        assert b == pytest.approx(a, abs=max(apart, 1e-5))
