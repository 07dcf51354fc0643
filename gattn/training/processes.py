"""Work shared by several processes, its results in order and its memory bounded."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

import torch

__all__ = ["in_order"]

Task = TypeVar("Task")
Result = TypeVar("Result")

WINDOW = 8
"""Results a process that may wait for one before them; it is also the time others have to start."""
KEPT_BACK = "ignore:Sparse CSR tensor support is in beta"
"""What torch says of sparse rows that are sent to a process, before that could filter it."""


def in_order(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Iterator[Result]:
    """Do every task in one of several processes, of which this is one.

    The others take seconds to start, and this one does not wait for them. They are new ones, which
    neither share torch's threads nor import the user's script: the script needs no
    ``if __name__ == "__main__"``. While a process works, torch has one thread in it: more threads
    than processors wait for each other.

    Where this process fails or is interrupted, or no more results are asked for, the others end at
    once, in the midst of a task.

    Args:
        work: what a process can be sent: a function of a module, or a method of an object.
        tasks: taken as they are needed, at most ``8 * workers`` ahead of what is given.
        workers: how many processes.

    Yields:
        The results, in order.

    Raises:
        RuntimeError: a process died, as for want of memory.
    """
    # What scikit-learn runs its own jobs by; joblib.Parallel itself would not bound what waits.
    from joblib.externals.loky import ProcessPoolExecutor

    tasks, others = iter(tasks), workers - 1
    filters = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), KEPT_BACK]))
    with ProcessPoolExecutor(
        others, initializer=_prepare, initargs=(work,), env={"PYTHONWARNINGS": filters}
    ) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            while True:
                room = WINDOW * workers - len(waiting)
                idle = 2 * others - sum(not future.done() for future in waiting)
                for task in islice(tasks, max(min(idle, room), 0)):
                    waiting.append(pool.submit(_do, task))
                    room -= 1
                if waiting and (waiting[0].done() or not room):
                    yield waiting.popleft().result()
                    continue
                for task in islice(tasks, 1):
                    waiting.append(_done(work, task))
                    break
                else:
                    break
            while waiting:
                yield waiting.popleft().result()
        finally:
            if waiting:  # this one failed or was interrupted, or nobody wants the rest
                pool.shutdown(kill_workers=True)


def _done(work: Callable[[Task], Result], task: Task) -> Future[Result]:
    """What was done here, as what others do comes."""
    future: Future[Result] = Future()
    with _one_thread():
        future.set_result(work(task))
    return future


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_WORK: list[Callable[[object], object]] = []
"""What another process was started for: it is sent once, and not with every task."""


def _prepare(work: Callable[[object], object]) -> None:
    torch.set_num_threads(1)
    _WORK.append(work)


def _do(task: object) -> object:
    return _WORK[0](task)
