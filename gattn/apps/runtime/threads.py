"""Choice of the number of threads of an operator, based on the size of its input.

OpenMP's threads wait for each other at a barrier at the end of every operator. If operators take
microseconds, a second thread saves less time than the barrier costs, and if another program
occupies a thread's core, all threads wait for this thread at each barrier. Small batches are
therefore computed by one thread, and the other cores are left to other work.

PyTorch is imported inside the functions that use it, so that a command can parse its arguments
without waiting for the import.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

ELEMENTS = 1 << 20
"""Number of elements of a feature matrix (rows times channels) per thread. A second thread saves
time if the matrix has at least twice this number.
"""
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that define whether idle OpenMP threads spin or sleep."""

_AVAILABLE: ContextVar[int] = ContextVar("available", default=0)
"""Number of torch's threads before the first ``with`` block of :func:`limited_threads`; 0
outside of such blocks.
"""
_ONE: ContextVar[bool] = ContextVar("one", default=False)
"""True if several processes or Python threads share the cores, so that each should use one
thread.
"""


def choose_threads(elements: int, threads: int = 0) -> int:
    r"""Choose the number of threads of an operator.

    .. math:: \min(\text{torch's threads}, \max(1, \lfloor \text{elements} / 2^{20} \rfloor))

    Args:
        elements: number of rows times number of channels of the features.
        threads: number that the user chose; 0 to choose by the elements.

    Returns:
        ``threads`` if it is not 0, otherwise the number above, where torch's threads are the number
        outside of all blocks of :func:`limited_threads`. In processes that work in parallel with
        others, the result is 1.

    Raises:
        ValueError: a number is negative.

    Example:
        >>> choose_threads(64 * 25 * 128)  # a batch of 64 molecules, 128 channels
        1
        >>> choose_threads(100, threads=2)
        2
    """
    for name, value in (("elements", elements), ("threads", threads)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0; got {value}")
    if _ONE.get():
        return 1
    return threads or min(available_threads(), max(1, elements // ELEMENTS))


def available_threads() -> int:
    """Return torch's number of threads outside of all blocks of :func:`limited_threads`.

    A block that uses fewer threads leaves cores to :class:`Background`. In processes that work in
    parallel with others, the result is 1.
    """
    import torch

    return 1 if _ONE.get() else _AVAILABLE.get() or torch.get_num_threads()


def share_threads(threads: int = 0) -> int:
    """Choose the number of threads of a kernel that starts its own threads to divide its work.

    Such threads wait for each other once, at the end of the kernel, and end with it. Therefore they
    save time also for small batches, for which :func:`choose_threads` returns 1.

    Args:
        threads: number that the user chose; 0 for torch's number of threads.

    Returns:
        ``threads`` if it is not 0, otherwise the result of :func:`available_threads`. In processes
        that work in parallel with others, the result is 1.

    Example:
        >>> with one_thread():
        ...     share_threads(4)
        1
    """
    return 1 if _ONE.get() else threads or available_threads()


@contextmanager
def limited_threads(elements: int, threads: int = 0) -> Iterator[int]:
    """Set torch's number of threads to the result of :func:`choose_threads` inside a ``with``
    block.

    The previous number is restored at the end, also after an exception.

    Args:
        elements: number of rows times number of channels of the features.
        threads: number that the user chose; 0 to choose by the elements.

    Yields:
        The number of threads of the block.

    Raises:
        ValueError: a number is negative.

    Example:
        >>> import torch
        >>> before = torch.get_num_threads()
        >>> with limited_threads(1000) as threads:
        ...     threads == torch.get_num_threads() == 1
        True
        >>> torch.get_num_threads() == before
        True
    """
    import torch

    before, chosen = torch.get_num_threads(), choose_threads(elements, threads)
    token = _AVAILABLE.set(_AVAILABLE.get() or before)
    try:
        if chosen != before:
            torch.set_num_threads(chosen)
        yield chosen
    finally:
        _AVAILABLE.reset(token)
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Set torch's number of threads to 1 inside a ``with`` block, and inside nested blocks."""
    token = _ONE.set(True)
    try:
        with limited_threads(0):
            yield
    finally:
        _ONE.reset(token)


def use_one_thread() -> None:
    """Set torch's number of threads to 1 for the rest of this Python thread or process."""
    import torch

    _ONE.set(True)
    torch.set_num_threads(1)


def sleep_at_barriers(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let idle OpenMP threads sleep instead of spin, unless the user has set an environment
    variable for this.

    A spinning thread occupies a core for milliseconds after each operator. OpenMP reads the
    variable when its library is loaded, so call this function before torch is imported. Child
    processes inherit the variable.

    Args:
        environment: the environment variables, to which ``OMP_WAIT_POLICY`` is added; by default
            those of this process.

    Example:
        >>> variables = {}
        >>> sleep_at_barriers(variables)
        >>> variables
        {'OMP_WAIT_POLICY': 'passive'}
    """
    if not any(name in environment for name in WAITING):
        environment["OMP_WAIT_POLICY"] = "passive"


class Cancelled(BaseException):
    """Raised in a background computation if its result is no longer needed."""


class Background(Generic[Result]):
    """Computation in another Python thread, whose operators use one thread each.

    It is a context manager, which waits for the computation at the end of the block. If the block
    ends early, for example by an error, the computation is cancelled at its next call of ``check``.
    Only :meth:`result` raises an error of the computation; without this call, the error is lost.

    Args:
        work: a function that computes the result. Its argument ``check`` is a function that it
            should call often and that raises :class:`Cancelled` if the result is no longer needed.

    Example:
        >>> with Background(lambda check: sum(range(10))) as background:
        ...     background.result()
        45
    """

    def __init__(self, work: Callable[[Callable[[], None]], Result]) -> None:
        self._work, self._stopped = work, threading.Event()
        self._results: list[Result] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="gattn-background", daemon=True)

    def __enter__(self) -> Background[Result]:
        self._thread.start()
        return self

    def result(self) -> Result:
        """Wait until the computation ends; return its result or raise its error. Call this method
        inside the block, because a cancelled computation has no result.
        """
        self._thread.join()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def __exit__(self, *problem: Any) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        """Run the work and store its result or its exception; store neither if it was cancelled."""
        try:
            use_one_thread()
            self._results.append(self._work(self._check))
        except Cancelled:
            return
        except BaseException as error:
            self._errors.append(error)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise Cancelled
