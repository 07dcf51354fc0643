"""Parts of a measurement: graphs, contenders and cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class CannotRun(Exception):
    """Reason why a side cannot run a case: missing package, unsupported feature or graph."""


@dataclass(frozen=True)
class Settings:
    """Duration and size of the measurements."""

    seconds: float = 30.0
    """Seconds for timing each case, after its check."""
    scale: float = 1.0
    """Size of the power-law graph relative to ogbn-arxiv's; a trial runs at 0.01."""
    threads: int = 2
    memory: bool = True
    """If True, also measure peak memory, in one additional process per side."""
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
        """Number of edges."""
        return self.edge_index.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the edges."""
        return self.edge_index.device

    def sizes(self) -> dict[str, int]:
        """Fields of a record that describe the graph."""
        return {"nodes": self.num_nodes, "edges": self.num_edges}


Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Contender:
    """One side of a case: a forward, and the leaves whose gradients its backward computes.

    All sides of a case use the same names of leaves, so that gradients can be compared.
    """

    forward: Callable[[], Tensor]
    leaves: Mapping[str, Tensor]

    @classmethod
    def of(cls, function: Function, inputs: Mapping[str, Tensor]) -> Contender:
        """Contender for a function of named inputs. Inputs that require a gradient are leaves."""
        leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
        return cls(lambda: function(**inputs), leaves)

    def gradients(self, out: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Gradients of an output with respect to the leaves that it uses."""
        gradients = torch.autograd.grad(out, list(self.leaves.values()), weights, allow_unused=True)
        return {name: grad for name, grad in zip(self.leaves, gradients) if grad is not None}


class Case(Protocol):
    """A case checks its sides and then measures them. If a check fails, it raises CheckFailed."""

    def measure(self, settings: Settings) -> dict[str, Any]:
        """Return the fields of a record other than the case's name and the environment."""
        ...
