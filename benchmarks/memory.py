"""Peak memory of one contender, in a process of its own.

``python -m benchmarks.memory CASE CONTENDER PASS`` prints the bytes above the inputs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import resource
import subprocess
import sys
from pathlib import Path

PASSES = ("forward", "training")


def measure(case: str, contender: str, what: str, scale: float, threads: int) -> int:
    """Peak bytes above the inputs while a contender runs once, layout-building included."""
    command = ["-m", "benchmarks.memory", case, contender, what]
    command += ["--scale", str(scale), "--threads", str(threads)]
    return run_apart(command)["bytes"]


def run_apart(arguments: list[str]) -> dict[str, float]:
    """Run Python on these arguments and read the JSON object in the last line it prints."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def reset_peak() -> None:
    """Give free memory back to the system, then let the peak begin at what is left.

    Where the system cannot (not Linux), the peak is that of the process since its start.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")


def resident() -> int:
    """Bytes of this process in memory now."""
    return _status("VmRSS") if sys.platform == "linux" else peak()


def peak() -> int:
    """Most bytes of this process in memory since :func:`reset_peak`."""
    if sys.platform == "linux":
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def main() -> None:
    """Warm up on a small graph, then run a contender once and print its peak."""
    import torch

    from benchmarks.cases import comparisons

    parser = argparse.ArgumentParser(description=measure.__doc__)
    parser.add_argument("case")
    parser.add_argument("contender")
    parser.add_argument("what", choices=PASSES)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    case = comparisons()[options.case]

    def run(scale: float) -> int:
        contender = case.pair(scale)[options.contender]
        reset_peak()
        before = resident()
        with torch.set_grad_enabled(options.what == "training"):
            out = contender.forward()
        if options.what == "training":
            out.backward(torch.ones_like(out))
        return peak() - before

    run(options.scale / 50)
    print(json.dumps({"bytes": run(options.scale)}))


if __name__ == "__main__":
    main()
