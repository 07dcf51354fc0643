"""EdgeStructure: the part of a graph's interface that layers and operators may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gattn.graph.graph import Graph


@runtime_checkable
class EdgeStructure(Protocol):
    """Interface that :class:`gattn.Graph` and ``gattn.distributed.DistributedGraph`` share.

    A layer that uses only these members runs on both. Everything else, above all ``layout`` and
    ``edge_index``, exists only for a whole graph.
    """

    @property
    def num_src(self) -> int:
        """Number of sources whose rows a layer gets."""
        ...

    @property
    def num_dst(self) -> int:
        """Number of destinations."""
        ...

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of the edges."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """The pair (num_src, num_dst)."""
        ...

    @property
    def kept_edges(self) -> Tensor | None:
        """Positions of the edges that :meth:`with_self_loops` kept; None if it kept all."""
        ...

    def fetch_source_rows(self, *rows: Tensor) -> tuple[Graph, tuple[Tensor, ...]]:
        """Return the graph and the rows of all of its sources, which operators read."""
        ...

    def with_self_loops(self, first: int = 0) -> EdgeStructure:
        """Remove all self-loops, then append one for each node."""
        ...

    def incidence(self) -> Graph:
        """Return the bipartite graph from the edges to their destinations."""
        ...

    def in_degree(self) -> Tensor:
        """Return the number of edges into each destination: [n] int64."""
        ...
