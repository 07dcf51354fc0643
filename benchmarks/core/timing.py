"""Time functions in alternation, on the CPU and on a CUDA device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from benchmarks.core.case import Contender

SAMPLE_SECONDS = 0.02
FEWEST, MOST = 3, 200
MOST_CALLS = 1000

Spread = dict[str, float]
Run = Callable[[], object]


class Clock(Protocol):
    """Clock that measures the time of a function on one kind of device."""

    def seconds(self, function: Run, calls: int = 1) -> float:
        """Return the mean time of several consecutive calls."""
        ...

    def cool(self) -> None:
        """Overwrite the cache of the device if this is possible."""
        ...


class CpuClock:
    """Clock of the CPU, which measures wall time, or the time of ``now``."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now

    def seconds(self, function: Run, calls: int = 1) -> float:
        start = self.now()
        for _ in range(calls):
            function()
        return (self.now() - start) / calls

    def cool(self) -> None:
        """Do nothing, because another function has already overwritten the caches of the CPU."""


class CudaClock:
    """Clock of CUDA devices, which measures the time between events on the current stream."""

    def __init__(self) -> None:
        self.scratch = torch.empty(2**26, dtype=torch.int32, device="cuda")

    def seconds(self, function: Run, calls: int = 1) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000 / calls

    def cool(self) -> None:
        """Overwrite the L2 cache."""
        self.scratch.zero_()


CPU = CpuClock()


def clock(device: torch.device | str) -> Clock:
    """Return the clock of a device."""
    return CudaClock() if torch.device(device).type == "cuda" else CPU


def alternate(functions: Mapping[str, Run], seconds: float, on: Clock = CPU) -> dict[str, Spread]:
    """Return the median, the quartiles and the number of runs of each function, in seconds.

    A turn begins with an untimed call, because on a virtual machine the host reclaims the memory
    that the other function freed and returns it page by page. Short functions are called several
    times per turn.
    """
    calls = {name: calls_a_turn(function, on) for name, function in functions.items()}

    def sampler(name: str) -> Callable[[], float]:
        return lambda: sample(functions[name], calls[name], on)

    samples = take_turns({name: sampler(name) for name in functions}, seconds)
    return {name: summary(values) for name, values in samples.items()}


def take_turns(
    samplers: Mapping[str, Callable[[], float]], seconds: float, fewest: int = FEWEST
) -> dict[str, list[float]]:
    """Return samples of the time of each function, which run alternately for at least ``seconds``.

    The order is reversed in every round, so that other load on the machine affects all functions.
    """
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    order = list(samplers)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < fewest or (time.perf_counter() < end and rounds < MOST):
        for name in order:
            samples[name].append(samplers[name]())
        order.reverse()
        rounds += 1
    return samples


def sample(function: Run, calls: int, on: Clock = CPU) -> float:
    """Run a function once in its turn, and return its time."""
    function()
    return on.seconds(function, calls)


def calls_a_turn(function: Run, on: Clock = CPU) -> int:
    """Run a function to warm up, and return the number of calls per sample."""
    function()
    once = on.seconds(function)
    return max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / once)))


def median(function: Run, runs: int, on: Clock = CPU, *, cold: bool = False) -> float:
    """Return the median of several runs in seconds; ``cold`` overwrites the cache before each."""
    samples = []
    for _ in range(runs):
        if cold:
            on.cool()
        samples.append(on.seconds(function))
    return statistics.median(samples)


def summary(values: list[float]) -> Spread:
    """Return the median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "low": low, "high": high, "runs": len(values)}


def forward(contender: Contender) -> Callable[[], Tensor]:
    """Return a function that runs the forward pass without saving tensors for backward."""

    def run() -> Tensor:
        with torch.no_grad():
            return contender.forward()

    return run


def training(contender: Contender) -> Run:
    """Return a function that runs the forward and backward pass, with gradients of all leaves."""
    weights = torch.ones_like(forward(contender)())

    def run() -> object:
        return contender.gradients(contender.forward(), weights)

    return run


PASSES: dict[str, Callable[[Contender], Run]] = {"forward": forward, "training": training}


def captured(function: Run) -> torch.cuda.CUDAGraph:
    """Return a CUDA graph of a function."""
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        function()
    current.wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            function()
    finally:
        # Restore the caller's stream if the capture of the CUDA graph fails.
        torch.cuda.set_stream(current)
    return graph
