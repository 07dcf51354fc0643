"""What a measurement is made of: a graph, a contender of each side, a case that measures them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class CannotRun(Exception):
    """Why a side has no time in a case: no package, a feature or a graph that it does not serve."""


@dataclass(frozen=True)
class Settings:
    """How long and how large to measure."""

    seconds: float = 30.0
    """Time to spend on the timings of each case, after its check."""
    scale: float = 1.0
    """Size of the power-law graph relative to ogbn-arxiv's; a trial runs at 0.01."""
    threads: int = 2
    memory: bool = True
    """Whether to measure peak memory, in one more process for each side."""
    largest: int = 10**8
    """Edges of the largest graph of the growth table."""


@dataclass(frozen=True)
class Topology:
    """Edges as pairs (source, destination), number of nodes, and for batches each node's graph."""

    edge_index: Tensor
    """[2, e], int64."""
    num_nodes: int
    batch: Tensor | None = None
    """[n], int64, ascending."""

    @property
    def num_edges(self) -> int:
        """e."""
        return self.edge_index.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the edges lie."""
        return self.edge_index.device

    def sizes(self) -> dict[str, int]:
        """What a record keeps of it."""
        return {"nodes": self.num_nodes, "edges": self.num_edges}


Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Contender:
    """One side of a case: a forward, and the leaves whose gradients its backward computes.

    The sides of a case name their leaves alike, so that gradients can be compared one by one.
    """

    forward: Callable[[], Tensor]
    leaves: Mapping[str, Tensor]

    @classmethod
    def of(cls, function: Function, inputs: Mapping[str, Tensor]) -> Contender:
        """A function of named inputs, of which those that ask for a gradient are leaves."""
        leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
        return cls(lambda: function(**inputs), leaves)

    def gradients(self, out: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """What backward gives of an output of forward, without the leaves that it does not use."""
        found = torch.autograd.grad(out, list(self.leaves.values()), weights, allow_unused=True)
        return {name: grad for name, grad in zip(self.leaves, found) if grad is not None}


class Case(Protocol):
    """Something that is checked and then measured; it raises CheckFailed and measures nothing."""

    def measure(self, settings: Settings) -> dict[str, Any]:
        """What a record keeps beside the case's name and the environment."""
        ...
