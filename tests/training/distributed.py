"""Train alone or under torchrun, and write what came out; a script of test_distributed.py.

python distributed.py OUT ITEMS
"""

import json
import os
import runpy
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from gattn.training.loop import LoopSettings, fit_network

TOYS = runpy.run_path(str(Path(__file__).with_name("conftest.py")))


def main(folder: Path, items: int, epochs: int, precision: str) -> None:
    torch.set_num_threads(1)
    train, validate = TOYS["Points"](items, 0), TOYS["Points"](41, 1)
    settings = LoopSettings(
        epochs=epochs, batch_size=32, learning_rate=0.03, average=0.5, precision=precision
    )
    processes = os.environ.get("WORLD_SIZE", "1")
    kept = folder / processes
    for _ in range(2):  # the second finds the checkpoint of the first
        network = TOYS["network"](dropout=0.0)
        history = fit_network(network, TOYS["squared"], train, validate, settings, folder=kept)
    with torch.no_grad():
        outputs = network(validate.x).tolist()
    if os.environ.get("RANK", "0") == "0":
        found = {"records": [asdict(record) for record in history.records], "outputs": outputs}
        (folder / f"{processes}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
