"""Times of commands that run alone, with each other, or beside other programs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.core.isolate import Failed, Stopped

LOOP = "while True: pass"


@dataclass(frozen=True)
class Usage:
    """Wall time and processor time of a command.

    Attributes:
        seconds: wall time from its start to its end.
        processor_seconds: processor time of the command and of the child processes for which it
            waited.
    """

    seconds: float
    processor_seconds: float


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Run endless loops in other processes during a block."""
    loops = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def commands_in_turn(commands: Iterator[Sequence[str]], folder: Path) -> Iterator[None]:
    """Run commands one after the other in another process during a block.

    Args:
        commands: the words of each command; the command that runs at the end of the block is
            killed.
        folder: folder in which they run.

    Raises:
        Failed: a command fails before the block ends; the message is the end of its errors.
    """
    ended = threading.Event()
    errors: list[str] = []
    running: list[subprocess.Popen[bytes]] = []

    def run() -> None:
        for words in commands:
            with tempfile.TemporaryFile() as output:
                process = subprocess.Popen(
                    list(words), cwd=folder, stdout=subprocess.DEVNULL, stderr=output,
                    start_new_session=True,
                )  # fmt: skip
                running[:] = [process]
                code = process.wait()
                if ended.is_set():
                    return
                if code:
                    errors.append(_failure(words, code, output))
                    return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # A command may start while the block ends, and may have started processes, which belong to
        # its session.
        while thread.is_alive():
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            thread.join(0.1)
    if errors:
        raise Failed(errors[0])


def run_together(commands: Sequence[Sequence[str]], folder: Path, limit: float) -> list[Usage]:
    """Start commands at the same time and wait for all of them.

    Args:
        commands: the words of each command.
        folder: folder in which they run.
        limit: seconds after which all are killed.

    Returns:
        The usage of each command.

    Raises:
        Stopped: a command exceeds the limit.
        Failed: a command fails; the message is the end of its output.
    """
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        usages, codes = _wait_for_all(commands, outputs, folder, limit)
        for words, output, code in zip(commands, outputs, codes):
            if code:
                raise Failed(_failure(words, code, output))
    return usages


def _failure(words: Sequence[str], code: int, output: IO[bytes]) -> str:
    """Return the message about a failed command, with the end of its output."""
    output.seek(0)
    text = output.read()[-2000:].decode()
    return f"{' '.join(words)}: exit code {code}\n{text}"


def _wait_for_all(
    commands: Sequence[Sequence[str]], outputs: Sequence[IO[bytes]], folder: Path, limit: float
) -> tuple[list[Usage], list[int]]:
    """Run commands at the same time, and return the usage and the exit code of each."""
    began = time.perf_counter()
    processes = [
        subprocess.Popen(list(words), cwd=folder, stdout=output, stderr=output)
        for words, output in zip(commands, outputs)
    ]
    late = threading.Event()

    def kill_all() -> None:
        late.set()
        for process in processes:
            if process.returncode is None:
                process.kill()

    usages, codes = [Usage(0.0, 0.0)] * len(processes), [0] * len(processes)

    def wait(number: int) -> None:
        _, status, used = os.wait4(processes[number].pid, 0)
        seconds = time.perf_counter() - began
        processes[number].returncode = codes[number] = os.waitstatus_to_exitcode(status)
        usages[number] = Usage(seconds, used.ru_utime + used.ru_stime)

    timer = threading.Timer(limit, kill_all)
    waits = [threading.Thread(target=wait, args=(number,)) for number in range(len(processes))]
    timer.start()
    for one in waits:
        one.start()
    for one in waits:
        one.join()
    timer.cancel()
    if late.is_set():
        raise Stopped(f"over {limit:.0f} s")
    return usages, codes
