"""Real processes of torch.distributed, each a fork of a clean one that has imported gattn."""

import multiprocessing
import socket

import pytest
import torch

from tests.distributed import ranks


@pytest.fixture(scope="session")
def context():
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["tests.distributed.ranks"])
    return found


@pytest.fixture
def start(context, tmp_path):
    """Start processes that do this work; give them, unfinished, and the folder they write to."""
    started = []

    def start(size, work, *arguments, timeout=ranks.TIMEOUT):
        folder = tmp_path / str(len(started))
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        own = [
            context.Process(
                target=ranks.enter, args=(rank, size, port, folder, timeout, work, arguments)
            )
            for rank in range(size)
        ]
        for process in own:
            process.start()
        started.extend(own)
        return own, folder

    yield start
    for process in started:
        process.kill()
        process.join()


@pytest.fixture
def run(start):
    """What this work returns in each of the processes."""

    def run(size, work, *arguments):
        processes, folder = start(size, work, *arguments)
        for process in processes:
            process.join()
        told = [path.read_text() for path in sorted(folder.glob("*.txt"))]
        assert not told, "\n".join(told)
        return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]

    return run
