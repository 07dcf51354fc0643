"""Work shared by several processes, its results in order and its memory bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

__all__ = ["in_order"]

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int
) -> Iterator[Result]:
    """Do every task in one of several processes.

    The first task is done here, while the others start: that takes seconds. The processes are new
    ones, which neither share torch's threads nor import the user's script: the script needs no
    ``if __name__ == "__main__"``.

    Args:
        work: a function of a module.
        tasks: taken as they are needed, ``workers + 1`` ahead of what is given.
        workers: how many processes.

    Yields:
        The results, in order.
    """
    # What scikit-learn runs its own jobs by; joblib.Parallel itself would not bound what waits.
    from joblib.externals.loky import ProcessPoolExecutor

    tasks = iter(tasks)
    first = list(islice(tasks, 1))
    with ProcessPoolExecutor(max_workers=workers) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            waiting += (pool.submit(work, task) for task in islice(tasks, workers + 1))
            yield from map(work, first)
            while waiting:
                waiting += (pool.submit(work, task) for task in islice(tasks, 1))
                yield waiting.popleft().result()
        finally:  # also where nobody wants the rest
            for future in waiting:
                future.cancel()
