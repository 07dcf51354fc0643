"""Work shared by several processes, its results in order and its memory bounded.

PyTorch is imported where it is used: commands read their arguments before they need it.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from gattn.training.threads import one_thread, use_one_thread

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from joblib.externals.loky import ProcessPoolExecutor

__all__ = ["in_order", "is_first_process"]

Key = TypeVar("Key")
Task = TypeVar("Task")
Result = TypeVar("Result")

WINDOW = 8
"""Results a process that may wait for one before them; it is also the time others have to start."""
PAUSE = 0.5
"""Seconds after which a process asks again whether its parent lives."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Variables from which torch, NumPy and SciPy read the size of their pools of threads."""
HIDDEN_WARNING = "ignore:Sparse CSR tensor support is in beta"
"""What torch says of sparse rows that are sent to a process, before that could filter it."""


def is_first_process() -> bool:
    """Return True if this process writes the files: torchrun starts several and numbers them."""
    return os.environ.get("RANK", "0") == "0"


def in_order(
    work: Callable[[Task], Result],
    tasks: Iterable[tuple[Key, Task]],
    workers: int,
    *,
    ahead: int = 2,
) -> Iterator[tuple[Key, Result]]:
    """Do every task in one of several processes, of which this is one.

    The others take seconds to start, and this one does not wait for them. They are new ones, which
    neither share torch's threads nor import the user's script: the script needs no
    ``if __name__ == "__main__"``. While a process works, torch has one thread in it: more threads
    than processors wait for each other.

    Where this process fails or is interrupted, or no more results are requested, the others end at
    once, in the midst of a task. A signal to this process alone ends them, too: within a second of
    its end, however it ends.

    Args:
        work: a function of a module, or a method of an object: it is sent to each process once.
        tasks: pairs of a key, which stays in this process, and a task, which is sent; read as
            they are needed, at most ``8 * workers`` ahead of the results.
        workers: number of processes.
        ahead: number of unfinished tasks for each of the other processes. With 1 and as many tasks
            as processes, each process does one, and this one does the last.

    Yields:
        The key of each task with its result, in order.

    Raises:
        RuntimeError: a process died, as for want of memory.
    """
    # What scikit-learn runs its own jobs by; joblib.Parallel itself would not bound what waits.
    from joblib.externals.loky import ProcessPoolExecutor

    tasks, others = iter(tasks), workers - 1
    filters = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), HIDDEN_WARNING]))
    initargs, env = (work, os.getpid()), {"PYTHONWARNINGS": filters, **ONE_THREAD}
    with _deferred_signals():  # its locks start loky's resource tracker
        pool = ProcessPoolExecutor(others, initializer=_prepare, initargs=initargs, env=env)
        _OPEN[pool] = frozenset(multiprocessing.active_children())
    waiting: deque[tuple[Key, Future[Result]]] = deque()
    try:
        while True:
            room = WINDOW * workers - len(waiting)
            idle = ahead * others - sum(not future.done() for _, future in waiting)
            for key, task in islice(tasks, max(min(idle, room), 0)):
                with _deferred_signals():
                    waiting.append((key, pool.submit(_do, task)))
                room -= 1
                _stop_at_exit()
            if waiting and (waiting[0][1].done() or not room):
                key, future = waiting.popleft()
                yield key, future.result()
                continue
            for key, task in islice(tasks, 1):
                waiting.append((key, _run_here(work, task)))
                break
            else:
                break
        while waiting:
            key, future = waiting.popleft()
            yield key, future.result()
        pool.shutdown()
    except BaseException:  # this process failed or was interrupted, or nobody wants the rest
        _stop(pool)
        raise
    finally:
        _OPEN.pop(pool, None)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Delay an interrupt until a process has started.

    A process whose start is cut off prints a traceback on stdout. It inherits the blocked SIGINT:
    the interrupt of a terminal reaches all processes, and this one ends the others.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, frame: received.append(number))
        or signal.SIG_DFL
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in received[:1]:
            signal.raise_signal(number)


_OPEN: dict[ProcessPoolExecutor, frozenset[BaseProcess]] = {}
"""The pools that work, and the processes that this one had started before each."""


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes of a pool at once, in the midst of their tasks."""
    before = _OPEN.pop(pool, frozenset())
    queue = getattr(pool, "_call_queue", None)
    if queue is not None:
        # A task that no process takes any more stays in the pipe: to wait for it is to hang.
        queue.cancel_join_thread()
    # An interrupt may fall between the start of a process and its entry in the pool, which then
    # leaves it alone. It is killed before it can complain that its parent fell silent.
    _kill_strays(before, [pool, *_OPEN])
    pool.shutdown(kill_workers=True)
    _kill_strays(before, [*_OPEN])  # the interpreter would wait for them when it ends


def _kill_strays(before: frozenset[BaseProcess], pools: Iterable[ProcessPoolExecutor]) -> None:
    """Kill the processes that were started since, but those that are in a pool."""
    from joblib.externals.loky.backend.process import LokyProcess

    pooled = {one for pool in pools for one in (getattr(pool, "_processes", None) or {}).values()}
    for process in multiprocessing.active_children():
        if type(process) is LokyProcess and process not in before | pooled:
            if process.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)  # loky's processes have no kill
            process.join()


@functools.cache
def _stop_at_exit() -> None:
    """Have the pools stopped that an error left open, before loky waits for them to end.

    The frames of an error that nobody caught, or that ends the program, hold the iterator, which
    therefore is not closed. Hooks run in reverse order: this one is set after loky's own.
    """
    threading._register_atexit(_stop_all)  # pyright: ignore[reportAttributeAccessIssue]


def _stop_all() -> None:
    for pool in list(_OPEN):
        _stop(pool)


def _run_here(work: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Run a task in this process; return its result as those of other processes come."""
    future: Future[Result] = Future()
    with one_thread():
        future.set_result(work(task))
    return future


_WORK: list[Callable[[object], object]] = []
"""What another process was started for: it is sent once, and not with every task."""


def _prepare(work: Callable[[object], object], parent: int) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    use_one_thread()
    _WORK.append(work)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, however that ended: a signal reaches one of them."""
    while os.getppid() == parent:
        time.sleep(PAUSE)
    os._exit(1)


def _do(task: object) -> object:
    return _WORK[0](task)
