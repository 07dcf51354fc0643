"""Signs of life of the processes, by which the others name one that is gone."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

import torch.distributed as dist

BEAT = 1.0
"""Seconds between two signs of life."""
PATIENCE = 8.0
"""Seconds without one after which a process counts as dead."""
LEFT, FAILED = "left", "failed"
"""How the last words of a process begin."""


class Watch:
    """Writes this process's signs of life into the store, and reads those of the others.

    Under each rank the store holds a count that grows; ``left`` or ``failed: ...`` are the last
    words of a process that could still speak.

    Args:
        store: where the processes meet, by a connection that nothing else uses: while one waits
            for an answer no other gets one.
        rank: this process.
        size: processes.
    """

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self.store = store
        self.rank, self.size = rank, size
        self.store.set(f"name{rank}", f"{socket.gethostname()}, process {os.getpid()}")
        self.store.set(f"sign{rank}", "0")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._live, name="gattn.distributed", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        """Give a sign of life every second until the end, or until the store is gone."""
        beat = 0
        while not self._ended.wait(BEAT):
            beat += 1
            try:
                self.store.set(f"sign{self.rank}", str(beat))
            except RuntimeError:  # who asks for the dead finds the store gone, too, and says so
                return

    def end(self, word: str) -> None:
        """Stop, with a last word for the others."""
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(RuntimeError):  # with the store gone nobody can be told
            self.store.set(f"sign{self.rank}", word)

    def outlast(self) -> None:
        """Where this process keeps the store: wait a while for the last words of the others.

        They read in it why they end.
        """
        end = time.monotonic() + PATIENCE
        while self._keeper == f"rank {self.rank}" and time.monotonic() < end:
            if all(sign.startswith((LEFT, FAILED)) for sign in self._signs().values()):
                return
            time.sleep(BEAT / 10)

    def find_dead(self) -> str:
        """What became of another process, in words; empty where all are alive or left in order.

        It takes some seconds, in which a process that lives gives a sign. What is found is left in
        the store, so that those who ask later are told of the first that died and not of those
        that it took along.
        """
        if not self._others:
            return ""
        try:
            first = self._signs()
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and not self._verdict():
                time.sleep(BEAT / 10)
                if found := self._failed():
                    return self._publish(found)
            if found := self._verdict():
                return found
            last = self._signs()
            silent = [rank for rank in last if first[rank] == last[rank] != LEFT]
            return self._publish(self._died(silent)) if silent else ""
        except RuntimeError as error:
            return f"{self._keeper} is gone, who kept the store of the processes: {error}"

    @property
    def _keeper(self) -> str:
        """Who keeps the store."""
        by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return "torchrun" if by_torchrun else "rank 0"

    @property
    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _signs(self) -> dict[int, str]:
        """The last sign of each of the others."""
        return {rank: self._read(f"sign{rank}") for rank in self._others}

    def _failed(self) -> str:
        """The last words of a process that failed."""
        for rank, sign in self._signs().items():
            if sign.startswith(FAILED):
                return f"{self._name(rank)} {sign}"
        return ""

    def _died(self, ranks: list[int]) -> str:
        names = " and ".join(map(self._name, ranks))
        return f"{names} died: no sign of life for {PATIENCE:.0f} seconds"

    def _name(self, rank: int) -> str:
        return f"rank {rank} of {self.size} ({self._read(f'name{rank}') or 'never seen'})"

    def _verdict(self) -> str:
        """What another process has found out."""
        return self._read("verdict")

    def _read(self, key: str) -> str:
        """What stands in the store; empty where nothing does, for which ``get`` would wait."""
        return self.store.get(key).decode() if self.store.check([key]) else ""

    def _publish(self, found: str) -> str:
        """The first that is found counts."""
        return self.store.compare_set("verdict", "", found).decode()
