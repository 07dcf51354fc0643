"""Parts of a measurement: graphs, the implementations that are compared, and cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class CannotRun(Exception):
    """Raised if an implementation cannot run a case; the message names the missing package, feature
    or kind of graph.
    """


@dataclass(frozen=True)
class Settings:
    """Settings of the duration and the size of the measurements."""

    seconds: float = 30.0
    """Time in seconds for which each case is repeated, after its check."""
    scale: float = 1.0
    """Size of the power-law graph relative to ogbn-arxiv; a trial run uses 0.01."""
    threads: int = 2
    memory: bool = True
    """If True, also measure peak memory, in one additional process per implementation."""
    largest: int = 10**8
    """Number of edges of the largest graph in the table of growing graphs."""


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
        """Number of edges of the graph."""
        return self.edge_index.shape[1]

    @property
    def device(self) -> torch.device:
        """Device that stores the edges."""
        return self.edge_index.device

    def sizes(self) -> dict[str, int]:
        """Fields of a record that describe the size of the graph."""
        return {"nodes": self.num_nodes, "edges": self.num_edges}


Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Contender:
    """Side of a case: a forward function, and the tensors whose gradients the backward pass
    computes.

    All implementations of a case use the same names of leaves, so that gradients can be compared.
    """

    forward: Callable[[], Tensor]
    leaves: Mapping[str, Tensor]

    @classmethod
    def of(cls, function: Function, inputs: Mapping[str, Tensor]) -> Contender:
        """Create a contender from a function of named inputs; its leaves are the inputs that
        require a gradient.
        """
        leaves = {name: tensor for name, tensor in inputs.items() if tensor.requires_grad}
        return cls(lambda: function(**inputs), leaves)

    def gradients(self, out: Tensor, weights: Tensor) -> dict[str, Tensor]:
        """Compute the gradients of an output with respect to the leaves that it depends on."""
        gradients = torch.autograd.grad(out, list(self.leaves.values()), weights, allow_unused=True)
        return {name: grad for name, grad in zip(self.leaves, gradients) if grad is not None}


class Case(Protocol):
    """Case of a benchmark, which checks the implementations and then measures them; a failed check
    raises CheckFailed.
    """

    def measure(self, settings: Settings) -> dict[str, Any]:
        """Return the fields of a record, without the name of the case and the environment."""
        ...
