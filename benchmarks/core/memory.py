"""Peak memory of a block of code, on the CPU (of the process) and on a CUDA device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Peak:
    """Peak memory of a block above the memory at its start; the value is set at the end of the
    block.
    """

    bytes: int = 0
    baseline: int = 0


@contextlib.contextmanager
def peak(device: torch.device | str = "cpu") -> Iterator[Peak]:
    """Measure the peak memory of a block.

    On the CPU, free memory is first returned to the system, and the peak is measured relative to
    the memory that remains in use. On systems other than Linux the peak is that of the process
    since its start.
    """
    measured_peak = Peak()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        measured_peak.baseline = torch.cuda.memory_allocated()
        yield measured_peak
        torch.cuda.synchronize()
        measured_peak.bytes = torch.cuda.max_memory_allocated() - measured_peak.baseline
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    measured_peak.baseline = _resident()
    yield measured_peak
    measured_peak.bytes = highest() - measured_peak.baseline


def free(device: torch.device | str) -> None:
    """Free the cached memory of a device, and raise pending errors of its kernels."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    return _status("VmRSS") if sys.platform == "linux" else highest()


def highest() -> int:
    """Return the peak resident memory of this process since its start or the last reset."""
    if sys.platform == "linux":
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


class TreePeak(threading.Thread):
    """Sampler of the memory of this process and of its child processes, on Linux.

    The proportional set size (PSS) divides each page that several processes share, such as the
    pages of libraries, among these processes, so that the sum over processes counts the page once.
    The sum of the resident sizes (RSS) counts the page in each process.

    Attributes:
        pss: largest sum of the proportional set sizes, in bytes.
        rss: largest sum of the resident sizes, in bytes.
    """

    def __init__(self, seconds: float = 0.2) -> None:
        super().__init__(daemon=True)
        self.seconds, self.pss, self.rss = seconds, 0, 0
        self._end = threading.Event()

    def __enter__(self) -> TreePeak:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        """Sample until the block ends."""
        while not self._end.wait(self.seconds):
            sizes = [proportional_size(process) for process in tree(os.getpid())]
            self.pss = max(self.pss, sum(pss for pss, _ in sizes))
            self.rss = max(self.rss, sum(rss for _, rss in sizes))


def tree(process: int) -> list[int]:
    """Return the identifiers of a process and of its descendants, on Linux."""
    processes, pending = [], [process]
    while pending:
        number = pending.pop()
        processes.append(number)
        with contextlib.suppress(OSError):  # the process has ended
            for task in Path(f"/proc/{number}/task").iterdir():
                pending += map(int, (task / "children").read_text().split())
    return processes


def proportional_size(process: int) -> tuple[int, int]:
    """Return the proportional and the resident set size of a process in bytes; zeros if it has
    ended.
    """
    sizes = {"Pss": 0, "Rss": 0}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            name = line.split(":")[0]
            if name in sizes:
                sizes[name] = int(line.split()[1]) * 1024
    return sizes["Pss"], sizes["Rss"]
