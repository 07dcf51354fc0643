"""Fixtures that start processes of torch.distributed, forked after importing gattn."""

import multiprocessing
import socket

import pytest
import torch

from tests.distributed import ranks


@pytest.fixture(scope="session")
def context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.distributed.ranks"])
    return context


@pytest.fixture
def launch(context, tmp_path):
    """Start processes that call ``target(rank, size, port, folder, *arguments)``; return the
    running processes and their output folder.
    """
    started = []

    def launch(size, target, *arguments):
        folder = tmp_path / f"processes-{len(started)}"
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = [
            context.Process(target=target, args=(rank, size, port, folder, *arguments))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        started.extend(processes)
        return processes, folder

    yield launch
    for process in started:
        process.kill()
        process.join()


@pytest.fixture
def start(launch):
    """Start processes that run a function; return the running processes and their output folder."""

    def start(size, work, *arguments, timeout=ranks.TIMEOUT):
        return launch(size, ranks.enter, timeout, work, arguments)

    return start


@pytest.fixture
def run(start):
    """Return the results of some work in each of the processes."""

    def run(size, work, *arguments):
        processes, folder = start(size, work, *arguments)
        for process in processes:
            process.join()
        errors = [path.read_text() for path in sorted(folder.glob("*.txt"))]
        assert not errors, "\n".join(errors)
        return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]

    return run
