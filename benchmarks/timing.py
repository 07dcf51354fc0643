"""Wall-clock time of functions that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.contenders import Contender

SAMPLE_SECONDS = 0.02
FEWEST, MOST = 3, 200


def alternate(
    functions: dict[str, Callable[[], object]], seconds: float
) -> dict[str, dict[str, float]]:
    """Median, quartiles and count of each function's time, in seconds.

    The functions take turns, each round in the reverse order of the one before, until ``seconds``
    are over: what else the machine does then falls on all of them. A turn begins with a call that
    is not timed: on a virtual machine the host takes back what the other's turn has freed, and
    gives it again a page at a time. A function too short for the
    clock is called several times a turn.
    """
    calls = {name: _calls(function) for name, function in functions.items()}
    samples: dict[str, list[float]] = {name: [] for name in functions}
    order = list(functions)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < FEWEST or (time.perf_counter() < end and rounds < MOST):
        for name in order:
            functions[name]()
            samples[name].append(_time(functions[name], calls[name]))
        order.reverse()
        rounds += 1
    return {name: summary(values) for name, values in samples.items()}


def summary(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high, "runs": len(values)}


def _calls(function: Callable[[], object]) -> int:
    """Warm up, then choose how many calls make one sample."""
    function()
    once = _time(function, 1)
    return max(1, min(1000, round(SAMPLE_SECONDS / once)))


def _time(function: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def forward(contender: Contender) -> Callable[[], object]:
    """The forward alone, with nothing kept for a backward."""

    def run() -> object:
        with torch.no_grad():
            return contender.forward()

    return run


def training(contender: Contender) -> Callable[[], object]:
    """Forward and backward."""
    leaves = list(contender.leaves.values())
    weights = torch.ones_like(forward(contender)())  # type: ignore[arg-type]

    def run() -> object:
        for tensor in leaves:
            tensor.grad = None
        contender.forward().backward(weights)
        return None

    return run
