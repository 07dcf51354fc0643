"""Execution of tasks in several processes, with results in order and bounded memory.

PyTorch is imported inside the functions that use it, so that a command can parse its arguments
without waiting for the import.
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
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, TypeVar

from gattn.apps.runtime.threads import one_thread, use_one_thread

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from joblib.externals.loky import ProcessPoolExecutor

Key = TypeVar("Key")
Task = TypeVar("Task")
Result = TypeVar("Result")

WINDOW = 8
"""Maximum number of tasks per process that may be finished before the next result in order is
finished.

While child processes start, this process computes up to this number of results for each of them.
"""
PAUSE = 0.5
"""Interval in seconds at which a child process checks that its parent process exists."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Environment variables that limit torch, NumPy and SciPy to one thread."""
HIDDEN_WARNING = "ignore:Sparse CSR tensor support is in beta"
"""Filter for torch's warning about sparse tensors. It is passed to a child process in an
environment variable, because torch issues the warning before code in the process can set a
filter.
"""


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def in_order(
    work: Callable[[Task], Result],
    tasks: Iterable[tuple[Key, Task]],
    workers: int,
    *,
    ahead: int = 2,
) -> Iterator[tuple[Key, Result]]:
    """Execute tasks in this process and in ``workers - 1`` child processes; yield the results in
    order.

    Child processes take seconds to start; until then, this process executes the tasks. They are new
    processes that do not import the user's script, so the script needs no
    ``if __name__ == "__main__"``. While a process executes tasks, torch uses one thread in it,
    because several processes with several threads each would have to wait for cores. The
    environment of the child processes is that of this one, with one thread and one more warning
    filter in ``PYTHONWARNINGS``.

    If this process fails or is interrupted, or if the iterator is closed, the child processes are
    killed immediately. If this process is killed by a signal, they exit within a second.

    Args:
        work: a function of a module, or a method of an object; it is sent to each process once.
        tasks: pairs of a key, which stays in this process, and a task, which is sent to a process.
            The pairs are read when they are needed, at most ``8 * workers`` pairs ahead of the
            results.
        workers: number of processes, including this one; at least 2.
        ahead: number of unfinished tasks of each child process. With 1, and with as many tasks as
            processes, each process executes one task, and this process the last one.

    Yields:
        The key and the result of each task, in order.

    Raises:
        RuntimeError: a process was killed, for example because memory was exhausted.
        Exception: any error of ``work``, at the position of its task, or of the iterable ``tasks``.
    """
    # The pool is that of loky, which joblib also uses. joblib.Parallel is not used, because it does
    # not limit the number of results that wait to be read.
    from joblib.externals.loky import ProcessPoolExecutor

    tasks, others = iter(tasks), workers - 1
    filters = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), HIDDEN_WARNING]))
    initargs, env = (work, os.getpid()), {"PYTHONWARNINGS": filters, **_ONE_THREAD}
    # Creating the pool may start an additional process, loky's resource tracker, which the locks of
    # the pool need.
    with _deferred_signals():
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
    except BaseException:
        # This also catches GeneratorExit, which is raised when the caller closes the iterator.
        _stop(pool)
        raise
    finally:
        _OPEN.pop(pool, None)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of a ``with`` block that starts child processes. In
    another thread than the main one, the block has no effect.

    A child process that is interrupted while it starts would print a traceback. Child processes
    inherit the blocked SIGINT, because an interrupt in a terminal is sent to all processes, and
    this process ends its child processes itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Starting the resource tracker, which the first child process needs, would unblock the signals.
    resource_tracker.ensure_running()
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
"""Open process pools, each with the child processes that existed before its creation."""


def _stop(pool: ProcessPoolExecutor) -> None:
    """Kill the processes of a pool without waiting for their tasks, and remove it from ``_OPEN``.
    Processes of loky that belong to no open pool are killed, too, except those that existed before
    this pool.
    """
    before = _OPEN.pop(pool, frozenset())
    queue = getattr(pool, "_call_queue", None)
    if queue is not None:
        # Processes that were killed do not read the remaining tasks, so waiting for the thread that
        # sends tasks would never end.
        queue.cancel_join_thread()
    # If an interrupt comes between the start of a process and its registration in the pool, the
    # pool does not kill that process. It is killed before the pool is shut down, because it would
    # print an error when its connection closes.
    _kill_strays(before, [pool, *_OPEN])
    pool.shutdown(kill_workers=True)
    # All remaining processes are killed, because the interpreter would wait for them at exit.
    _kill_strays(before, [*_OPEN])


def _kill_strays(before: frozenset[BaseProcess], pools: Iterable[ProcessPoolExecutor]) -> None:
    """Kill the child processes of the library loky that neither existed before (``before``) nor
    belong to one of the open pools (``pools``), and wait for their end.
    """
    from joblib.externals.loky.backend.process import LokyProcess

    pooled = {one for pool in pools for one in (getattr(pool, "_processes", None) or {}).values()}
    for process in multiprocessing.active_children():
        if type(process) is LokyProcess and process not in before | pooled:
            if process.pid is not None:
                with suppress(ProcessLookupError):
                    # The process is killed by os.kill, because loky's process class has no method
                    # kill.
                    os.kill(process.pid, signal.SIGKILL)
            process.join()


@functools.cache
def _stop_at_exit() -> None:
    """Register an exit hook that stops open pools, before loky's hook waits for their tasks.

    An uncaught error keeps a reference to the iterator of :func:`in_order` in its frames, so the
    iterator is not closed and its pool stays open. Exit hooks run in reverse order, and this hook
    is registered after loky's.
    """
    threading._register_atexit(_stop_all)  # pyright: ignore[reportAttributeAccessIssue]


def _stop_all() -> None:
    for pool in list(_OPEN):
        _stop(pool)


def _run_here(work: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Execute a task in this process with one thread; return its result as a finished future, as a
    pool does. An error of the task is raised immediately, and not stored in the future.
    """
    future: Future[Result] = Future()
    with one_thread():
        future.set_result(work(task))
    return future


_WORK: list[Callable[[object], object]] = []
"""Function that a child process applies to its tasks. The child receives it once, when it
starts.
"""


def prepare_process(parent: int) -> None:
    """Prepare a child process: limit it to one thread, and let it exit as soon as its parent
    process does not exist any more.

    The parent cannot end its child processes itself if it is killed by a signal.

    Args:
        parent: the identifier of the parent process.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    use_one_thread()


def _prepare(work: Callable[[object], object], parent: int) -> None:
    prepare_process(parent)
    _WORK.append(work)


def _watch(parent: int) -> None:
    """Wait until the parent process does not exist any more, and exit from this process."""
    while os.getppid() == parent:
        time.sleep(PAUSE)
    os._exit(1)


def _do(task: object) -> object:
    return _WORK[0](task)
