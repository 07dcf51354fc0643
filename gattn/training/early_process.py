"""Child process that is started early, so that it has imported its packages when it is needed.

This module imports nothing heavy, so a command can start the process before it imports PyTorch.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gattn.training.processes import (
    ONE_THREAD,
    deferred_signals,
    end_with_parent,
    process_count,
    processor_count,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = [
    "EarlyProcess",
    "EarlyProcessError",
    "has_early_process",
    "run_in_early_process",
    "start_early_process",
    "stop_early_process",
]

Result = TypeVar("Result")

INTERVAL = 0.1
"""Interval in seconds at which the parent checks whether the result is still needed."""


class EarlyProcessError(RuntimeError):
    """Raised if the process ended before it sent its result."""


class EarlyProcess:
    """Child process that imports modules and then executes one function.

    The process ends when its parent ends, whatever the reason. It has one thread and ignores
    interrupts of the terminal, which the parent handles.

    Args:
        modules: names of the modules to import while the parent does other work.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        # A daemon is ended by the parent's exit hook.
        self._process = context.Process(
            target=_serve, args=(other, tuple(modules), os.getpid()), daemon=True
        )
        # Without the safe path, a file types.py in the working folder would replace the module of
        # the standard library while the interpreter of the process starts.
        variables = {**ONE_THREAD, "PYTHONSAFEPATH": "1"}
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            with deferred_signals():
                self._process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        other.close()

    def run(self, function: Callable[..., Result], *args: Any, check: Callable[[], None]) -> Result:
        """Execute a function in the process, return its result, and end the process.

        Args:
            function: a function of a module. It is called with an argument ``check`` that does
                nothing.
            args: its other arguments, which are sent to the process.
            check: called ten times per second; an error that it raises ends the process.

        Raises:
            EarlyProcessError: the process ended before it sent the result.
        """
        try:
            self._connection.send((function, args))
            while not self._connection.poll(INTERVAL):
                check()
            result, error = self._connection.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            raise EarlyProcessError(
                f"the process for {function.__name__} ended with exit code {self._process.exitcode}"
            ) from None
        finally:
            self.close()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()


_STARTED: list[EarlyProcess] = []
"""The process that was started and has not been used yet."""


def start_early_process(*modules: str) -> None:
    """Start a process that imports modules, if there is a second processor for it.

    Nothing is started under torchrun, whose processes use the other processors.

    The main module is imported in the process, so a script that calls this function needs
    ``if __name__ == "__main__"``. The command ``gattn`` calls it.

    Args:
        modules: names of the modules.
    """
    if processor_count() > 1 and process_count() == 1 and not _STARTED:
        _STARTED.append(EarlyProcess(modules))


def has_early_process() -> bool:
    """Return True if :func:`start_early_process` started a process that has not been used yet."""
    return bool(_STARTED)


def stop_early_process() -> None:
    """End the process of :func:`start_early_process`, if there is one, without using it."""
    while _STARTED:
        _STARTED.pop().close()


def run_in_early_process(
    function: Callable[..., Result], *args: Any, check: Callable[[], None]
) -> Result:
    """Execute a function in the process of :func:`start_early_process`, or here if there is none.

    If the process ended early, for example because the main script has no
    ``if __name__ == "__main__"``, a warning says so and the function is executed here.

    Args:
        function: a function of a module, whose result does not depend on the process. Its argument
            ``check`` is a function that it calls often; an error of this function ends it.
        args: its other arguments.
        check: the argument ``check``. If another process executes the function, it is called in
            this process, ten times per second.

    Returns:
        The result of the function.
    """
    if _STARTED:
        try:
            return _STARTED.pop().run(function, *args, check=check)
        except EarlyProcessError as error:
            warnings.warn(f"{error}: this process executes the function", stacklevel=2)
    return function(*args, check=check)


def _serve(connection: Connection, modules: Sequence[str], parent: int) -> None:
    """Import modules, execute one function that the parent sends, and send its result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    for module in modules:
        importlib.import_module(module)
    try:
        function, args = connection.recv()
    except EOFError:
        return
    try:
        answer = function(*args, check=lambda: None), None
    except Exception as error:
        answer = None, error
    connection.send(answer)
