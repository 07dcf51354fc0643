"""Screen a folder again and again in child processes that are killed, and compare the results.

    python tests/apps/molecules/screening/killed.py RUN INPUT FOLDER

The test runs this in a process of its own, which imports everything once and then forks.
"""

import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import torch

from gattn.apps.molecules.screening.screen import screen
from gattn.apps.molecules.screening.settings import ScreenSettings
from gattn.apps.molecules.settings import TableReading

SETTINGS = ScreenSettings(top=40, where="prediction > 1", rows_per_shard=50)
KILLS = 8
FAILED = 7
"""Exit code of a child process whose disk was full."""


def in_child(run, inputs, out, prepare=lambda: None):
    """Screen in a forked process; return its process id."""
    if child := os.fork():
        return child
    try:
        prepare()
        screen(run, [inputs], out, SETTINGS, reading=TableReading(workers=1))
    except OSError as error:
        print(error.filename, error.strerror, sep=": ")
        sys.stdout.flush()
        os._exit(FAILED)
    os._exit(0)


def ended(child):
    """Wait for a child process; return its exit code, or minus the number of its signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files(folder):
    """Return the content of every file below a folder."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def killed_at_flush(number):
    """Return a function that kills this process at a flush of a file to the disk."""

    def prepare():
        flush, count = os.fsync, iter(range(number))

        def flush_or_die(descriptor):
            if next(count, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            flush(descriptor)

        os.fsync = flush_or_die

    return prepare


def main(run, inputs, folder):
    """Compare the folders after kills and after a full disk with an uninterrupted one."""
    torch.set_num_threads(1)
    folder = Path(folder)
    start = time.monotonic()
    assert ended(in_child(run, inputs, folder / "whole")) == 0
    seconds = time.monotonic() - start
    whole = files(folder / "whole")
    assert Path("top.csv") in whole
    assert Path("summary.json") in whole
    rng, unfinished = random.Random(0), 0
    for number in range(KILLS):
        out = folder / f"killed{number}"
        child = in_child(run, inputs, out)
        time.sleep(rng.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        ended(child)
        unfinished += not (out / "summary.json").exists()
        assert ended(in_child(run, inputs, out)) == 0
        assert files(out) == whole, f"kill {number}"
    out, flush = folder / "flushes", 0
    # Each process is killed one flush later than the previous one, so that every step of a write is
    # interrupted.
    while ended(in_child(run, inputs, out, killed_at_flush(flush))) == -signal.SIGKILL:
        flush += 1
    assert files(out) == whole
    out = folder / "full"
    limit = len(whole[Path("shards/000000.csv")]) - 1

    def limited():
        # No file can become larger than this, as if the disk were full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    assert ended(in_child(run, inputs, out, limited)) == FAILED
    assert not list(out.rglob("*.partial"))
    assert not (out / "summary.json").exists()
    assert ended(in_child(run, inputs, out)) == 0
    assert files(out) == whole
    print(f"{unfinished} of {KILLS} kills and {flush} flushes interrupted")


if __name__ == "__main__":
    main(*sys.argv[1:])
