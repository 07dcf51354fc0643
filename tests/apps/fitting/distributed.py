"""Script of test_distributed.py, which trains in one process or under torchrun and writes the
results.

python distributed.py OUT
"""

import json
import os
import runpy
import sys
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch

from gattn.apps.fitting.loop import LoopSettings, fit_network

TOYS = runpy.run_path(str(Path(__file__).with_name("conftest.py")))


class Case(NamedTuple):
    """Number of training points, number of epochs, and precision of a training."""

    items: int
    epochs: int
    precision: str


CASES = {
    "whole": Case(150, 10, "32"),
    # The last batch has 1 item (97 = 3 * 32 + 1), which two processes cannot share.
    "ragged": Case(97, 10, "32"),
    "long": Case(97, 100, "64"),
}


def train(case: Case, folder: Path) -> dict[str, object]:
    """Train, then resume the finished training; return its records and outputs."""
    points, validate = TOYS["Points"](case.items, 0), TOYS["Points"](41, 1)
    settings = LoopSettings(
        epochs=case.epochs, batch_size=32, learning_rate=0.03, average=0.5, precision=case.precision
    )
    for _ in range(2):  # The second training continues from the checkpoint of the first one.
        network = TOYS["network"](dropout=0.0)
        history = fit_network(network, TOYS["squared"], points, validate, settings, folder=folder)
    with torch.no_grad():
        outputs = network(validate.x).tolist()
    return {"records": [asdict(record) for record in history.records], "outputs": outputs}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    processes = os.environ.get("WORLD_SIZE", "1")
    for name, case in CASES.items():
        results = train(case, folder / processes / name)
        if os.environ.get("RANK", "0") == "0":
            (folder / f"{name}-of-{processes}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
