"""Engines that execute the tasks of a screening, in local processes or on a Ray cluster.

Ray was chosen rather than Dask or Spark because a task with a trained model is a plain function
for it: the model is sent once to each process, tasks of lost machines are repeated, and nothing
has to be installed beside the Python package. Without a cluster, ``--shard`` divides the work
among independent jobs on any machines that share a disk.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from gattn.apps.runtime.processes import in_order
from gattn.apps.runtime.threads import one_thread, use_one_thread

Key = TypeVar("Key")
Task = TypeVar("Task")
Result = TypeVar("Result")

WINDOW = 4
"""Number of tasks per processor that are submitted to a Ray cluster before a result is awaited."""


def run_locally(
    work: Callable[[Task], Result], tasks: Iterable[tuple[Key, Task]], workers: int
) -> Iterator[tuple[Key, Result]]:
    """Execute tasks in ``workers`` processes with one thread each; yield the results in order.

    A single process also uses one thread, so that results do not depend on the number of processes.
    """
    if workers > 1:
        yield from in_order(work, tasks, workers)
        return
    for key, task in tasks:
        with one_thread():
            result = work(task)
        yield key, result


def run_on_ray(
    work: Callable[[Task], Result], tasks: Iterable[tuple[Key, Task]], workers: int
) -> Iterator[tuple[Key, Result]]:
    """Execute tasks on a Ray cluster; yield the results in order.

    The cluster is that of the environment variable ``RAY_ADDRESS``, or the one that ``ray start``
    started on this machine. If there is none, Ray is started on this machine with ``workers``
    processes, and stopped at the end. A task is repeated if its machine is lost.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        RuntimeError: the cluster cannot be reached, or a task failed.
    """
    with _cluster(workers) as ray:
        reference = ray.put(work)
        execute = ray.remote(num_cpus=1, max_retries=3)(_execute)
        window = max(WINDOW * int(ray.cluster_resources().get("CPU", 1)), 1)
        remaining, waiting = iter(tasks), deque[tuple[Key, Any]]()
        while True:
            for key, task in islice(remaining, window - len(waiting)):
                # The reference is inside a list, because Ray would otherwise send its content to
                # every task.
                waiting.append((key, execute.remote(reference.hex(), [reference], task)))
            if not waiting:
                return
            key, future = waiting.popleft()
            try:
                result = ray.get(future)
            except ray.exceptions.RayError as error:
                raise RuntimeError(f"a task of the Ray cluster failed: {error}") from error
            yield key, result


_WORK: dict[str, Callable[[Any], Any]] = {}
"""Name of the work function in a process of the cluster; the process applies it to its tasks."""


def _execute(key: str, references: list[Any], task: Any) -> Any:
    """Apply the work function of a screening to a task, in a process of the cluster."""
    if key not in _WORK:
        import ray

        use_one_thread()
        _WORK.clear()
        _WORK[key] = ray.get(references[0])
    return _WORK[key](task)


@contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine, and yield the module ``ray``."""
    # By default, Ray sends usage statistics to its authors.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Without this variable, Ray warns that its default will change.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    already = ray.is_initialized()
    if not already:
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError:
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
    try:
        yield ray
    finally:
        if not already:
            ray.shutdown()
