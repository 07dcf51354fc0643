"""Case with two sides on one graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.core import isolate, memory, timing, verify
from benchmarks.core.case import Contender, Settings, Topology
from benchmarks.sides.layers import Maker
from benchmarks.suites.alone import Alone

CHECK_SCALE = 1 / 16


@dataclass(frozen=True)
class Comparison:
    """Comparison of gattn with a peer on one graph, which checks results, times both and
    measures memory.
    """

    name: str
    topology: Callable[[float], Topology]
    make: Maker
    sides: tuple[str, ...] = ("gattn", "pyg")
    dtype: torch.dtype = torch.float32
    large: bool = False

    def contenders(self, topology: Topology, dtype: torch.dtype) -> dict[str, Contender]:
        """Return all sides for a graph."""
        return {side: self.make(side, topology, dtype) for side in self.sides}

    def check(self, scale: float) -> dict[str, float]:
        """Raise :class:`benchmarks.core.verify.CheckFailed`, or return the measured errors.

        In float64, a large graph would not fit into memory. In this case, a smaller graph
        of the same kind is checked in float64, and the results at full size must agree with
        the peer.
        """
        small = self.topology(scale * CHECK_SCALE if self.large else scale)
        exact = self.contenders(small, torch.float64)
        errors = verify.against_float64(self.contenders(small, self.dtype), exact, self.dtype)
        sides = self.contenders(self.topology(scale), self.dtype)
        if "pyg" in sides:
            errors |= verify.against_peer(verify.step(sides["gattn"]), verify.step(sides["pyg"]))
        verify.repeatable(sides["gattn"])
        return errors

    def measure(self, settings: Settings) -> dict[str, Any]:
        """Check and time the sides and, on a large graph, measure their peak memory."""
        checked = self.check(settings.scale)
        topology = self.topology(settings.scale)
        sides = self.contenders(topology, self.dtype)
        times = {
            what: timing.alternate(
                {side: prepare(contender) for side, contender in sides.items()},
                settings.seconds / len(timing.PASSES),
            )
            for what, prepare in timing.PASSES.items()
        }
        peaks = {}
        if self.large and settings.memory:
            peaks = {side: self._peaks(side, settings) for side in self.sides}
        return {
            **topology.sizes(),
            "dtype": str(self.dtype).removeprefix("torch."),
            "check": checked,
            "seconds": times,
            "peak_bytes": peaks,
        }

    def inputs(self, scale: float) -> Topology:
        """Return the graph of the case."""
        return self.topology(scale)

    def alone(self, inputs: Topology) -> Alone:
        """Return gattn's side of the case."""
        contender = self.make("gattn", inputs, self.dtype)
        runs = {what: prepare(contender) for what, prepare in timing.PASSES.items()}
        return Alone(lambda: verify.step(contender), runs)

    def _peaks(self, side: str, settings: Settings) -> dict[str, int]:
        return {
            what: isolate.call(
                self.peak_bytes, side, what, settings.scale, threads=settings.threads
            )
            for what in timing.PASSES
        }

    def peak_bytes(self, side: str, what: str, scale: float) -> int:
        """Return the peak memory above the inputs during one run of a side, including the layout.

        The memory is measured in a new process, after a run on a small graph.
        """
        self._run_once(side, what, scale / 50)
        return self._run_once(side, what, scale)

    def _run_once(self, side: str, what: str, scale: float) -> int:
        contender = self.make(side, self.topology(scale), self.dtype)
        with memory.peak() as peak, torch.set_grad_enabled(what == "training"):
            out = contender.forward()
            if what == "training":
                contender.gradients(out, torch.ones_like(out))
        return peak.bytes
