"""Separate processes with limits of memory and time, or with another version of gattn."""

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
"""Root of the source tree with the benchmarks."""


class Stopped(Exception):
    """Raised if a process exceeds its limit of memory or time."""


class Failed(RuntimeError):
    """Raised if a call in a process fails; the message is the traceback or the exit status."""


def call(
    function: Callable[..., Any],
    *arguments: Any,
    threads: int,
    gigabytes: float | None = None,
    seconds: float | None = None,
) -> Any:
    """Call a function in a new process and return its result.

    Args:
        function: a function of a module, or a method.
        arguments: the arguments of the function.
        threads: of torch.
        gigabytes: address space that the process may have.
        seconds: time that the process may take.

    Raises:
        Stopped: the process exceeds a limit.
        Failed: the process fails for another reason.
    """
    with Process(threads=threads, gigabytes=gigabytes) as process:
        return process.call(function, *arguments, seconds=seconds)


class Process:
    """Python process that executes calls one after another.

    Args:
        threads: of torch.
        gigabytes: address space that the process may have.
        gattn: folder from which the process imports the package ``gattn``; None for the package of
            this tree.
    """

    def __init__(
        self, *, threads: int, gigabytes: float | None = None, gattn: Path | None = None
    ) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        self._gigabytes = gigabytes
        package = str(gattn) if gattn else None
        limits = {"threads": threads, "gigabytes": gigabytes, "gattn": package}
        command = [sys.executable, "-m", __name__, str(theirs.fileno()), json.dumps(limits)]
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
        theirs.close()

    def call(
        self, function: Callable[..., Any], *arguments: Any, seconds: float | None = None
    ) -> Any:
        """Call a function in the process and return its result; see :func:`call`."""
        try:
            self._connection.send((function, arguments))
            if not self._connection.poll(seconds):
                raise Stopped(f"over {seconds:.0f} s")
            problem, result = self._connection.recv()
        except (EOFError, ConnectionError) as ended:
            code = self._process.wait()
            raise Failed(f"{function.__qualname__}: its process ended ({code})") from ended
        if not problem:
            return result
        if "can't allocate memory" in problem or "MemoryError" in problem:
            raise Stopped(f"over {self._gigabytes:.0f} GB" if self._gigabytes else "out of memory")
        raise Failed(f"{function.__qualname__}{arguments} failed:\n{problem}")

    def close(self) -> None:
        """Kill the process."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


class OnlyFrom:
    """Import finder that searches a package in only one folder."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package, self.folder = package, folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the package or of a module in it, before other finders are asked."""
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
            function, arguments = connection.recv()  # Unpickling a function imports its module.
            answer = "", function(*arguments)
        except EOFError:
            return
        except BaseException:
            answer = traceback.format_exc(), None
        connection.send(answer)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])), **json.loads(sys.argv[2]))
