"""Bounded queue that combines the rows of concurrent requests into batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from gattn.apps.serve.errors import RequestError

Key = TypeVar("Key", bound=Hashable)
Row = TypeVar("Row")
Result = TypeVar("Result")

BATCH = 256
"""Maximum number of rows in a batch. A batch of this size takes a quarter of a second, which is
the longest time that a small request waits for a large one.
"""


@dataclass(eq=False)
class _Job(Generic[Key, Row]):
    """Rows of one request, which are computed together."""

    key: Key
    rows: Sequence[Row]
    result: asyncio.Future[list[Any]]


class BatchQueue(Generic[Key, Row, Result]):
    """Queue that combines rows of several requests into one call, and limits the number of open
    requests.

    A request is divided into jobs of at most ``batch`` rows. The next call takes the oldest job and
    further ones with the same key, as long as they fit into a batch. The queue does not wait for
    further requests: it combines the rows that arrive while the workers are busy.

    Args:
        work: computes one result for each row; rows of one call have the same key.
        workers: number of calls at the same time.
        capacity: maximum number of open requests.
        batch: maximum number of rows of a call.
    """

    def __init__(
        self,
        work: Callable[[Key, list[Row]], Awaitable[list[Result]]],
        *,
        workers: int,
        capacity: int,
        batch: int = BATCH,
    ) -> None:
        self.work, self.workers, self.capacity, self.batch = work, workers, capacity, batch
        self.open = 0
        self._jobs: list[_Job[Key, Row]] = []
        self._free = asyncio.Semaphore(workers)
        self._calls: set[asyncio.Task[None]] = set()

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request as open inside the ``with`` block; raise an error if the queue is full.

        Raises:
            RequestError: the queue is full (429).
        """
        if self.open >= self.capacity:
            raise RequestError(
                429,
                f"the queue is full with {self.capacity} requests: repeat the request later",
                {"retry-after": "1"},
            )
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    async def compute(self, key: Key, rows: Sequence[Row]) -> list[Result]:
        """Return one result for each row of a request, in order.

        A request has at most as many jobs in the queue as there are workers, so that a large
        request does not block small ones.

        Args:
            key: rows with different keys, such as the names of models, are not combined.
            rows: n rows.

        Returns:
            n results.

        Raises:
            RequestError: the queue is full (429). An error of ``work`` is raised, too.
        """
        results: list[Result] = []
        with self.admitted():
            parts = [rows[i : i + self.batch] for i in range(0, len(rows), self.batch)]
            for begin in range(0, len(parts), self.workers):
                jobs = [self._submit(key, part) for part in parts[begin : begin + self.workers]]
                for part in await asyncio.gather(*jobs):
                    results += part
        return results

    def _submit(self, key: Key, rows: Sequence[Row]) -> asyncio.Future[list[Result]]:
        """Add rows to the queue, start a task that processes it, and return a future."""
        result: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._jobs.append(_Job(key, rows, result))
        # The event loop has weak references to tasks only.
        call = asyncio.create_task(self._call())
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return result

    async def _call(self) -> None:
        """Wait for a free worker, compute the next batch, and set the results of its jobs. An error
        of ``work`` becomes the result of every job in the batch.
        """
        async with self._free:
            jobs = self._take()
            if not jobs:
                return
            try:
                results = iter(await self.work(jobs[0].key, [r for job in jobs for r in job.rows]))
            except Exception as error:
                # Each request of the batch raises this error.
                for job in jobs:
                    if not job.result.done():
                        job.result.set_exception(error)
                return
            for job in jobs:
                of_job = list(islice(results, len(job.rows)))
                if not job.result.done():
                    job.result.set_result(of_job)

    def _take(self) -> list[_Job[Key, Row]]:
        """Remove the jobs of the next batch from the queue, and discard jobs whose request was
        cancelled.
        """
        waiting = [job for job in self._jobs if not job.result.done()]
        jobs: list[_Job[Key, Row]] = []
        count = 0
        for job in waiting:
            if not jobs or (job.key == jobs[0].key and count + len(job.rows) <= self.batch):
                jobs.append(job)
                count += len(job.rows)
        self._jobs = [job for job in waiting if job not in jobs]
        return jobs
