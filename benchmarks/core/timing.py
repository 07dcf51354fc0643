"""Time of functions that take turns, on the CPU and on a CUDA device."""

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
    """Times a function on one kind of device."""

    def seconds(self, function: Run, calls: int = 1) -> float:
        """Mean of so many calls in a row."""
        ...

    def cool(self) -> None:
        """Overwrite what the device's cache holds, where that can be done."""
        ...


class CpuClock:
    """The time on the wall."""

    def seconds(self, function: Run, calls: int = 1) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - start) / calls

    def cool(self) -> None:
        """Nothing: a core's caches are cold after the turn of another function."""


class CudaClock:
    """CUDA events on the current stream."""

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
    """The clock of a device."""
    return CudaClock() if torch.device(device).type == "cuda" else CPU


def alternate(functions: Mapping[str, Run], seconds: float, on: Clock = CPU) -> dict[str, Spread]:
    """Median, quartiles and count of each function's time, in seconds.

    A turn begins with a call that is not timed: on a virtual machine the host takes back what the
    other's turn has freed, and gives it again a page at a time. A function too short for the
    clock is called several times a turn.
    """
    calls = {name: calls_a_turn(function, on) for name, function in functions.items()}

    def sampler(name: str) -> Callable[[], float]:
        return lambda: sample(functions[name], calls[name], on)

    samples = take_turns({name: sampler(name) for name in functions}, seconds)
    return {name: summary(values) for name, values in samples.items()}


def take_turns(
    samplers: Mapping[str, Callable[[], float]], seconds: float, fewest: int = FEWEST
) -> dict[str, list[float]]:
    """Samples of each, at least the fewest, taken in turns until ``seconds`` are over.

    Each round goes in the reverse order of the one before: what else the machine does then falls
    on all of them.
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
    """One turn."""
    function()
    return on.seconds(function, calls)


def calls_a_turn(function: Run, on: Clock = CPU) -> int:
    """Warm up, then choose how many calls make one sample."""
    function()
    once = on.seconds(function)
    return max(1, min(MOST_CALLS, round(SAMPLE_SECONDS / once)))


def median(function: Run, runs: int, on: Clock = CPU, *, cold: bool = False) -> float:
    """Median seconds of so many runs in a row, each with the cache overwritten if cold."""
    samples = []
    for _ in range(runs):
        if cold:
            on.cool()
        samples.append(on.seconds(function))
    return statistics.median(samples)


def summary(values: list[float]) -> Spread:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "low": low, "high": high, "runs": len(values)}


def forward(contender: Contender) -> Callable[[], Tensor]:
    """The forward alone, with nothing kept for a backward."""

    def run() -> Tensor:
        with torch.no_grad():
            return contender.forward()

    return run


def training(contender: Contender) -> Run:
    """Forward and backward, with gradients of all leaves."""
    weights = torch.ones_like(forward(contender)())

    def run() -> object:
        return contender.gradients(contender.forward(), weights)

    return run


PASSES: dict[str, Callable[[Contender], Run]] = {"forward": forward, "training": training}


def captured(function: Run) -> torch.cuda.CUDAGraph:
    """A CUDA graph of a function."""
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
        torch.cuda.set_stream(current)  # what cannot be captured leaves the stream of the capture
    return graph
