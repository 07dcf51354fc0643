"""The edges of a layout in chunks, by destination or by source, with where their rows lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels.layout import Layout, bare
from gattn.ops.edge import aggregate

CHUNK = 8_192
"""Edges at once: some hundred channels of them fit the cache of a core."""
WORTH = 8
"""Fewer whole chunks than these are not worth the seconds of a compilation."""


class Chunk(NamedTuple):
    """Edges that follow one another when sorted by one of their ends."""

    nodes: slice
    """Of the nodes at that end, those with an edge in the chunk, and perhaps others."""
    graph: Graph
    """From the chunk's edges to these nodes."""
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
        flat = values.reshape(len(values), 1, -1).to(to.dtype)
        ones = flat.new_ones(len(values), 1)
        to[self.nodes] += aggregate(ones, flat, self.graph).reshape(-1, *values.shape[1:])


def chunks(layout: Layout, by: str) -> Iterator[Chunk]:
    """The edges in chunks, sorted by their ``"destination"`` or by their ``"source"``."""
    by_destination = by == "destination"
    ptr = layout.rowptr if by_destination else layout.colptr
    edges, device = layout.col.numel(), ptr.device
    starts = torch.arange(0, edges, CHUNK, device=device)
    ends = (starts + CHUNK).clamp(max=edges)
    first = torch.searchsorted(ptr, starts.to(ptr.dtype), right=True) - 1
    last = torch.searchsorted(ptr, ends.to(ptr.dtype))
    for start, end, low, high in torch.stack([starts, ends, first, last]).t().tolist():
        offsets = ptr[low : high + 1].clamp(start, end) - start
        number = torch.arange(end - start + 1, dtype=ptr.dtype, device=device)
        own = torch.arange(low, high, dtype=ptr.dtype, device=device)
        own = own.repeat_interleave(offsets.diff(), output_size=end - start)
        near = bare(offsets, number[:-1], number[:-1], number, own - low, number[:-1])
        graph = Graph.from_layout(near)
        if by_destination:
            source, destination, edge = layout.col[start:end], own, layout.perm[start:end]
        else:
            source, destination = own, layout.row[start:end]
            edge = layout.perm[layout.csr2csc[start:end].long()]
        is_repeated = end - start == CHUNK and edges >= WORTH * CHUNK
        yield Chunk(slice(low, high), graph, source, destination, edge, is_repeated)
