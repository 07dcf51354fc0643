"""Heartbeats by which the processes detect that one of them has died."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

import torch.distributed as dist

BEAT = 1.0
"""Seconds between two heartbeats of a process."""
PATIENCE = 8.0
"""Number of seconds without a heartbeat after which a process is treated as dead."""
LEFT, FAILED = "left", "failed"
"""Prefixes of a process's final status: LEFT if it ended normally, FAILED if it failed."""


class Watch:
    """Sender of this process's heartbeats to the shared store, and reader of the other processes'
    heartbeats.

    For each rank the store has a counter that grows, or a final status: ``left``, or ``failed:
    ...`` with the error. The constructor starts a thread that sends the heartbeats until
    :meth:`end` is called.

    Args:
        store: a connection to the store of the processes that nothing else uses, because a
            connection serves one request at a time.
        rank: rank of this process.
        size: number of processes.
    """

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self.store = store
        self.rank, self.size = rank, size
        self.store.set(f"name{rank}", f"{socket.gethostname()}, process {os.getpid()}")
        self.store.set(f"status{rank}", "0")
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._send_heartbeats, name="gattn.distributed", daemon=True
        )
        self._thread.start()

    def _send_heartbeats(self) -> None:
        """Send a heartbeat every second until :meth:`end` is called or the store is closed."""
        beat = 0
        while not self._ended.wait(BEAT):
            beat += 1
            try:
                self.store.set(f"status{self.rank}", str(beat))
            # The error is ignored here, because find_failure reports that the store is not
            # reachable.
            except RuntimeError:
                return

    def end(self, status: str) -> None:
        """Stop the heartbeats, and write the final status of this process to the store."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(RuntimeError):
            # If the store is not reachable, no other process can read the status.
            self.store.set(f"status{self.rank}", status)

    def wait_for_others(self) -> None:
        """If this process hosts the store, wait up to PATIENCE seconds until all others have ended.

        The other processes still need the store to read which process failed first. Raises
        RuntimeError if the store cannot be reached.
        """
        end = time.monotonic() + PATIENCE
        while self._store_host == f"rank {self.rank}" and time.monotonic() < end:
            if all(text.startswith((LEFT, FAILED)) for text in self._statuses().values()):
                return
            time.sleep(BEAT / 10)

    def find_failure(self) -> str:
        """Describe the first process that failed or died, or the host of the store if the store is
        no longer reachable; return "" if there is none.

        Waits up to PATIENCE seconds for heartbeats. The first failure is stored, so later callers
        report the root cause and not the processes that failed because of it.
        """
        if not self._others:
            return ""
        try:
            first = self._statuses()
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and not self._stored_failure():
                time.sleep(BEAT / 10)
                if failure := self._reported_failure():
                    return self._store_failure(failure)
            if failure := self._stored_failure():
                return failure
            last = self._statuses()
            silent = [rank for rank in last if first[rank] == last[rank] != LEFT]
            return self._store_failure(self._describe_deaths(silent)) if silent else ""
        except RuntimeError as error:
            return (
                f"{self._store_host}, which hosts the key-value store of the processes, is no "
                f"longer reachable: {error}"
            )

    @property
    def _store_host(self) -> str:
        """Name of the process that hosts the store: torchrun or rank 0."""
        by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return "torchrun" if by_torchrun else "rank 0"

    @property
    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _statuses(self) -> dict[int, str]:
        """Return a dictionary from the rank of each other process to its last heartbeat or final
        status; "" before the first. Raises RuntimeError if the store cannot be reached.
        """
        return {rank: self._read(f"status{rank}") for rank in self._others}

    def _reported_failure(self) -> str:
        """Return the name and the final status of a process that failed; "" if none failed. Raises
        RuntimeError if the store cannot be reached.
        """
        for rank, status in self._statuses().items():
            if status.startswith(FAILED):
                return f"{self._name(rank)} {status}"
        return ""

    def _describe_deaths(self, ranks: list[int]) -> str:
        names = " and ".join(map(self._name, ranks))
        return f"{names} died: it sent no heartbeat for {PATIENCE:.0f} seconds"

    def _name(self, rank: int) -> str:
        return f"rank {rank} of {self.size} ({self._read(f'name{rank}') or 'never seen'})"

    def _stored_failure(self) -> str:
        """Return the first failure that was written to the store; "" if there is none. Raises
        RuntimeError if the store cannot be reached.
        """
        return self._read("failure")

    def _read(self, key: str) -> str:
        """Return a value from the store without waiting; "" if the key does not exist. Raises
        RuntimeError if the store cannot be reached.
        """
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def _store_failure(self, failure: str) -> str:
        """Write a failure to the store unless it already contains one; return the failure in the
        store. Raises RuntimeError if it cannot be reached.
        """
        return self.store.compare_set("failure", "", failure).decode()
