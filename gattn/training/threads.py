"""Number of threads inside one operator, chosen by the size of the operator.

OpenMP's threads meet at a barrier at the end of every operator. If operators take microseconds, a
second thread saves less time than the barrier costs; and if another program occupies its core, all
threads wait for it at each barrier. So small batches are computed by one thread, and the other
cores are left to other work.

PyTorch is imported where it is used: commands read their arguments before they need it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

__all__ = [
    "ELEMENTS",
    "Background",
    "Cancelled",
    "available_threads",
    "choose_threads",
    "limited_threads",
    "one_thread",
    "sleep_at_barriers",
    "use_one_thread",
]

Result = TypeVar("Result")

ELEMENTS = 1 << 20
"""Elements of a feature matrix, rows times channels, that occupy one thread. A second thread pays
for twice as many."""
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables by which a user chooses whether idle threads of OpenMP spin or sleep."""

_AVAILABLE: ContextVar[int] = ContextVar("available", default=0)
"""Number of torch's threads outside of all blocks of :func:`limited_threads`; 0 outside of them."""
_ONE: ContextVar[bool] = ContextVar("one", default=False)
"""True where several processes or Python threads share the cores, so that each has one thread."""


def choose_threads(elements: int, threads: int = 0) -> int:
    r"""Choose the number of threads inside an operator.

    .. math:: \min(\text{torch's threads}, \max(1, \lfloor \text{elements} / 2^{20} \rfloor))

    Args:
        elements: number of rows times number of channels of the features.
        threads: number that the user chose; 0 to choose by the elements.

    Returns:
        ``threads`` if it is not 0, else the number above, where torch's threads are those outside
        of all blocks of :func:`limited_threads`. In processes that work side by side it is 1.

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
    """Return the number of torch's threads outside of all blocks of :func:`limited_threads`.

    A block that uses fewer leaves cores to :class:`Background`; beside other processes it is 1.
    """
    import torch

    return 1 if _ONE.get() else _AVAILABLE.get() or torch.get_num_threads()


@contextmanager
def limited_threads(elements: int, threads: int = 0) -> Iterator[int]:
    """Compute a block with the threads of :func:`choose_threads`, then restore torch's number.

    The number is restored after an exception, too.

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
    """Compute a block with one thread, whatever :func:`limited_threads` inside it would choose."""
    token = _ONE.set(True)
    try:
        with limited_threads(0):
            yield
    finally:
        _ONE.reset(token)


def use_one_thread() -> None:
    """Have one thread in this Python thread from now on, as in a process beside others."""
    import torch

    _ONE.set(True)
    torch.set_num_threads(1)


def sleep_at_barriers(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let idle threads of OpenMP sleep instead of spin, unless the user chose.

    A spinning thread occupies a core for milliseconds after each operator. OpenMP reads the
    variable when its library is loaded, so call this before torch is imported. Processes that this
    one starts inherit the variable.

    Args:
        environment: the environment variables.

    Example:
        >>> variables = {}
        >>> sleep_at_barriers(variables)
        >>> variables
        {'OMP_WAIT_POLICY': 'passive'}
    """
    if not any(name in environment for name in WAITING):
        environment["OMP_WAIT_POLICY"] = "passive"


class Cancelled(BaseException):
    """The main thread does not need the result of a background computation any more."""


class Background(Generic[Result]):
    """A computation in another Python thread, with one thread inside its operators.

    As a context manager it ends the computation when the block ends: after an error in the block,
    at the next call of the function that the computation got.

    Args:
        work: computes the result. It gets a function, which it calls often: that raises
            :class:`Cancelled` once the result is not needed any more.

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
        """Wait for the result; an error of the computation is raised here."""
        self._thread.join()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def __exit__(self, *problem: Any) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
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
