"""Training in two processes under torchrun gives the result of training in one."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("distributed.py")
MODULE = runpy.run_path(str(SCRIPT))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
APART = {"32": 1e-4, "64": 1e-9}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the results of every case, trained in this process and in two processes."""
    folder, threads = tmp_path_factory.mktemp("distributed"), torch.get_num_threads()
    try:
        MODULE["main"](folder)
    finally:
        torch.set_num_threads(threads)
    done = subprocess.run(
        [sys.executable, *TORCHRUN, str(SCRIPT), str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", MODULE["CASES"])
def test_two_processes_train_what_one_trains(folder, case) -> None:
    one, two = (json.loads((folder / f"{case}-of-{n}.json").read_text()) for n in (1, 2))
    apart = APART[MODULE["CASES"][case].precision]
    assert len(one["records"]) == len(two["records"])
    for a, b in zip(one["records"], two["records"], strict=True):
        assert b["train_loss"] == pytest.approx(a["train_loss"], abs=apart)
        assert b["validation_loss"] == pytest.approx(a["validation_loss"], abs=apart)
    for a, b in zip(one["outputs"], two["outputs"], strict=True):
        # The outputs are computed with float32 weights, to which the float64 weights are rounded.
        assert b == pytest.approx(a, abs=max(apart, 1e-5))
