"""Peak memory of a block of code, on the CPU (of the process) and on a CUDA device."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Peak:
    """Most bytes above what was held as the block began, known when it has ended."""

    bytes: int = 0
    held: int = 0


@contextlib.contextmanager
def peak(device: torch.device | str = "cpu") -> Iterator[Peak]:
    """Measure a block.

    On the CPU free memory is first given back to the system, and the peak begins at what is left.
    Where the system cannot tell (not Linux), the peak is that of the process since its start.
    """
    found = Peak()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        found.held = torch.cuda.memory_allocated()
        yield found
        torch.cuda.synchronize()
        found.bytes = torch.cuda.max_memory_allocated() - found.held
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    found.held = _resident()
    yield found
    found.bytes = highest() - found.held


def free(device: torch.device | str) -> None:
    """Give a device's cached memory back; raise what a kernel has left to be raised."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def _resident() -> int:
    """Bytes of this process in memory now."""
    return _status("VmRSS") if sys.platform == "linux" else highest()


def highest() -> int:
    """Most bytes of this process in memory since it began, or since the count was set back."""
    if sys.platform == "linux":
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")
