"""Interface of graphs: the members that layers and operators may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

if TYPE_CHECKING:
    from gattn.graph.graph import Graph


@runtime_checkable
class EdgeStructure(Protocol):
    """Interface that :class:`gattn.Graph` and ``gattn.distributed.DistributedGraph`` implement.

    A layer that uses only these members accepts both classes. All other members, above all
    ``layout`` and ``edge_index``, exist only for a ``Graph``.
    """

    @property
    def num_src(self) -> int:
        """Number of source nodes, which is the number of rows of source features."""
        ...

    @property
    def num_dst(self) -> int:
        """Number of destination nodes."""
        ...

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        ...

    @property
    def device(self) -> torch.device:
        """Device that stores the edges."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """The pair (num_src, num_dst)."""
        ...

    @property
    def kept_edges(self) -> Tensor | None:
        """Indices of the edges that :meth:`with_self_loops` kept; None if it removed no edge."""
        ...

    def fetch_source_rows(self, *rows: Tensor) -> tuple[Graph, tuple[Tensor, ...]]:
        """Return the graph on which operators run, and the rows of all its source nodes."""
        ...

    def with_self_loops(self, first: int = 0) -> EdgeStructure:
        """Return the graph in which all self-loops were removed and each node got one new
        self-loop.
        """
        ...

    def incidence(self) -> Graph:
        """Return the bipartite graph that connects each edge to its destination."""
        ...

    def in_degree(self) -> Tensor:
        """Return the number of edges into each destination: [n] int64."""
        ...
