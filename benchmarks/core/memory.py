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
    """Peak memory of a block above the memory at its start; the value is set at the end of the
    block.
    """

    bytes: int = 0
    baseline: int = 0


@contextlib.contextmanager
def peak(device: torch.device | str = "cpu") -> Iterator[Peak]:
    """Measure the peak memory of a block.

    On the CPU free memory is first returned to the system, and the peak counts from the rest. On
    systems other than Linux the peak is that of the process since its start.
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
