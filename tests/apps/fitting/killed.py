"""Script of test_resume.py, which trains in a child process that kills itself in the middle of an
epoch.

    python killed.py FOLDER BATCH

reads BATCH batches and then sends SIGKILL to itself. If the child process is not killed, its last
line of output is "finished".
"""

import os
import runpy
import signal
import sys
from pathlib import Path

import torch

from gattn.apps.fitting import loop
from gattn.apps.fitting.loop import LoopSettings, fit_network

TOYS = runpy.run_path(str(Path(__file__).with_name("conftest.py")))
SETTINGS = LoopSettings(epochs=5, batch_size=32, learning_rate=0.03, average=0.5, seed=3)


class Deadly(TOYS["Points"]):
    """Data set that kills the process after a number of batches."""

    def __init__(self, batches: int) -> None:
        super().__init__(150, 0)
        self.left = batches

    def batch(self, positions):
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(positions)


def main(folder: Path, batches: int) -> None:
    torch.set_num_threads(1)
    loop.CHECKPOINT_INTERVAL = 0.0
    network, validate = TOYS["network"](), TOYS["Points"](40, 1)
    fit_network(network, TOYS["squared"], Deadly(batches), validate, SETTINGS, folder=folder)
    print("finished")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
