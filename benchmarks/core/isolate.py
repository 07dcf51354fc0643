"""Processes of their own, which may have so much memory and time, or another gattn."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
"""The tree that the benchmarks stand in."""


class Stopped(Exception):
    """A process needed more than it may have."""


class Failed(RuntimeError):
    """A process could not do what was asked: the traceback there, or how the process ended."""


def call(
    function: Callable[..., Any],
    *arguments: Any,
    threads: int,
    gigabytes: float | None = None,
    seconds: float | None = None,
) -> Any:
    """What a function of a module returns in a new process.

    Args:
        function: of a module, or a method.
        arguments: its arguments.
        threads: of torch.
        gigabytes: address space that the process may have.
        seconds: time that the process may take.

    Raises:
        Stopped: if it asks for more.
        Failed: if it fails otherwise.
    """
    with Process(threads=threads, gigabytes=gigabytes) as process:
        return process.call(function, *arguments, seconds=seconds)


class Process:
    """A Python process that makes one call after another, and waits in between.

    Args:
        threads: of torch.
        gigabytes: address space that the process may have.
        gattn: folder whose package ``gattn`` the process imports, in place of the one here.
    """

    def __init__(
        self, *, threads: int, gigabytes: float | None = None, gattn: Path | None = None
    ) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        self._gigabytes = gigabytes
        asked = {"threads": threads, "gigabytes": gigabytes, "gattn": str(gattn) if gattn else None}
        command = [sys.executable, "-m", __name__, str(theirs.fileno()), json.dumps(asked)]
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()

    def call(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> Any:
        """What a function returns there; see :func:`call`."""
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(seconds):
                raise Stopped(f"over {seconds:.0f} s")
            problem, found = self._connection.recv()
        except (EOFError, ConnectionError) as ended:
            code = self._process.wait()
            raise Failed(f"{function.__qualname__}: its process ended ({code})") from ended
        if not problem:
            return found
        if "can't allocate memory" in problem or "MemoryError" in problem:
            raise Stopped(f"over {self._gigabytes:.0f} GB" if self._gigabytes else "out of memory")
        raise Failed(f"{function.__qualname__}{arguments} failed:\n{problem}")

    def close(self) -> None:
        """End the process, whatever it does."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class OnlyFrom:
    """Finds a package in one folder, and nowhere else."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package, self.folder = package, folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of the package and what is in it; an installation's own finder never gets to see it."""
        if name.partition(".")[0] != self.package:
            return None
        spec = PathFinder.find_spec(name, [str(self.folder)] if path is None else path, target)
        if spec is None:
            raise ModuleNotFoundError(f"no {name} in {self.folder}", name=name)
        return spec


def _serve(connection: Connection, threads: int, gigabytes: float | None, gattn: str | None):
    torch.set_num_threads(threads)
    if gigabytes:
        limit = int(gigabytes * 1e9)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if gattn:
        sys.meta_path.insert(0, OnlyFrom("gattn", Path(gattn)))
    while True:
        try:
            function, arguments = connection.recv()  # imports the module of the function
            answer = "", function(*arguments)
        except EOFError:
            return
        except BaseException:
            answer = traceback.format_exc(), None
        connection.send(answer)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])), **json.loads(sys.argv[2]))
