"""The edges of a layout in chunks, by destination or by source, with where their rows lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gattn.cache import cached
from gattn.graph import Graph
from gattn.kernels.layout import Layout, bare
from gattn.ops.edge import sum_sources

CHUNK = 8_192
"""Edges at once: some hundred channels of them fit the cache of a core."""
FEW = 4
"""So many chunks, as of a batch of molecules, are taken at once, and kept until backward."""
WORTH = 8
"""Fewer whole chunks than these are not worth the seconds of a compilation."""


class Chunk(NamedTuple):
    """Edges that follow one another when sorted by one of their ends."""

    nodes: slice
    """Of the nodes at that end, those with an edge in the chunk, and perhaps others."""
    graph: Graph
    """From the chunk's edges to these nodes."""
    by_source: Graph | None
    """From the chunk's edges to all sources, where it holds all edges, sorted by destination."""
    source: Tensor
    """[b], likewise the next two."""
    destination: Tensor
    edge: Tensor
    """Positions in the caller's order."""
    is_repeated: bool
    """Whether there are many of this size, for which it pays to compile what is done with it."""

    def rows(self, places: tuple[str, ...]) -> list[Tensor]:
        """Where the rows of tensors lie that belong to sources, destinations or edges."""
        return [getattr(self, place) for place in places]

    def put(self, values: Tensor, into: Tensor) -> None:
        """Put the chunk's [b, ...] where they belong among all edges' [e, ...]."""
        into.index_copy_(0, self.edge.long(), values.to(into.dtype))

    def add(self, values: Tensor, to: Tensor) -> None:
        """Add [b, ...] over the edges of each node, in their order, to all nodes' [n, ...]."""
        to[self.nodes] += self.sum(values, to.dtype)

    def in_order(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """Those of all edges, [e, ...], in the caller's order. The chunk holds all edges."""
        out = values.new_empty(values.shape, dtype=dtype)
        self.put(values, out)
        return out

    def sum(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """Sum of the [b, ...] over the edges of each of the nodes, in their order."""
        return _sum(values, self.graph, dtype)

    def sum_by_source(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """Sum of all edges' [e, ...] over those out of each source, [m, ...], in their order."""
        assert self.by_source is not None
        return _sum(values, self.by_source, dtype)


def is_few(layout: Layout) -> bool:
    """Whether all edges are one chunk."""
    return layout.col.numel() <= FEW * CHUNK


def _sum(values: Tensor, graph: Graph, dtype: torch.dtype) -> Tensor:
    """Sum of the [b, ...] of the edges of each node, [n, ...]."""
    flat = values.reshape(len(values), -1).to(dtype)
    return sum_sources(flat, graph).reshape(-1, *values.shape[1:])


def chunks(graph: Graph, by: str) -> Iterator[Chunk]:
    """The edges in chunks, sorted by their ``"destination"`` or by their ``"source"``."""
    layout = graph.layout
    edges, device = layout.col.numel(), layout.col.device
    if is_few(layout):
        yield from [cached(graph, "all edges", lambda: _all_edges(layout))] if edges else []
        return
    ptr = layout.rowptr if by == "destination" else layout.colptr
    starts = torch.arange(0, edges, CHUNK, device=device)
    ends = (starts + CHUNK).clamp(max=edges)
    first = torch.searchsorted(ptr, starts.to(ptr.dtype), right=True) - 1
    last = torch.searchsorted(ptr, ends.to(ptr.dtype))
    for start, end, low, high in torch.stack([starts, ends, first, last]).t().tolist():
        yield _chunk(layout, by, slice(start, end), slice(low, high))


def _chunk(layout: Layout, by: str, part: slice, nodes: slice) -> Chunk:
    """The edges of some nodes at the end by which all are sorted, or a part of theirs."""
    ptr = layout.rowptr if by == "destination" else layout.colptr
    count, edges, device = part.stop - part.start, layout.col.numel(), ptr.device
    offsets = ptr[nodes.start : nodes.stop + 1].clamp(part.start, part.stop) - part.start
    number = torch.arange(count + 1, dtype=ptr.dtype, device=device)
    own = torch.arange(nodes.start, nodes.stop, dtype=ptr.dtype, device=device)
    own = own.repeat_interleave(offsets.diff(), output_size=count)
    near = bare(offsets, number[:-1], number[:-1], number, own - nodes.start, number[:-1])
    graph = Graph.from_layout(near)
    is_repeated = count == CHUNK and edges >= WORTH * CHUNK
    if by == "destination":
        return Chunk(nodes, graph, None, layout.col[part], own, layout.perm[part], is_repeated)
    edge = layout.perm[layout.csr2csc[part].long()]
    return Chunk(nodes, graph, None, own, layout.row[part], edge, is_repeated)


def _all_edges(layout: Layout) -> Chunk:
    """All edges by their destination, with the way to their sources."""
    edges, nodes = layout.col.numel(), layout.rowptr.numel() - 1
    chunk = _chunk(layout, "destination", slice(0, edges), slice(0, nodes))
    number = chunk.graph.layout.colptr
    rows = layout.colptr, layout.csr2csc, number[:-1], number, layout.row, number[:-1]
    return chunk._replace(by_source=Graph.from_layout(bare(*rows)))
