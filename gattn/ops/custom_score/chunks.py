"""Chunks of sorted edges, and functions that gather and scatter the rows for a chunk.

The edges of a layout are sorted by destination or by source, and cut into chunks. The *row kind* of
a tensor says which index selects the rows of a chunk's edges: "source" and "destination" are nodes,
"edge" is the caller's edge order, "position" is the CSR order. Parameters of the user's function
have the row kind "function": they have no rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.graph import Graph
from gattn.graph.cache import cached
from gattn.kernels.gather import add_rows, can_add, can_gather, gather_rows
from gattn.layout.layout import Layout, num_rows, without_stats
from gattn.ops.edges import sum_laid_out
from gattn.ops.registration.backend import select

CHUNK = 16_384
"""Number of edges in a chunk. For about a hundred channels, its rows fit into the shared cache."""
CHUNK_BYTES = 2 << 20
"""Maximum number of bytes of a chunk in the backward pass. Rows, gradients and sums must fit into
the cache.

Smaller chunks would cost more Python calls."""
MIN_CHUNK = CHUNK // 4
"""Minimum number of edges in a chunk of the backward pass, for rows of any width."""
MAX_CHUNKS_AT_ONCE = 2
"""If there are at most this number of chunks, one call processes all edges (``eager.py``).

A batch of molecules has fewer edges than this."""
MIN_COMPILED_CHUNKS = 4
"""Minimum number of full chunks for which compilation saves time in total. Compilation takes
seconds.
"""
HUB_DEGREE = 2048
"""For a node of higher degree, rows are summed within each chunk before they are added to the
total.

A long fp32 sum would lose its last summands."""
MAX_HUBS = 1024
"""Maximum number of nodes with a separate sum. Each chunk sets all these sums to zero, so their
number is limited.
"""


@dataclass(eq=False)
class Chunk:
    """Chunk of b consecutive edges. The edges are sorted by destination or by source."""

    edges: _SortedEdges
    """All sorted edges; the chunk is a part of them."""
    edge_slice: slice
    """Range of positions of the chunk's edges among the sorted edges."""
    node_slice: slice
    """Range of the nodes by which the chunk's edges are sorted, which are their destinations or
    sources.
    """
    size: int
    """Number of edges in each chunk except the last."""
    derived: dict[Any, Any] = field(default_factory=dict)
    """Cache of tensors and layouts that are computed from the chunk."""

    @property
    def source(self) -> Tensor:
        """Source node of each edge, [b]."""
        return self.edges.source[self.edge_slice]

    @property
    def destination(self) -> Tensor:
        """Destination node of each edge, [b]."""
        return self.edges.destination[self.edge_slice]

    @property
    def position(self) -> Tensor:
        """Position of each edge in CSR order by destination, [b]."""
        return self.edges.position[self.edge_slice]

    @property
    def node_layout(self) -> Layout:
        """Layout with the chunk's edges as sources and the nodes of ``node_slice`` as
        destinations.
        """
        return cached(self, "node_layout", self._make_node_layout)

    def _make_node_layout(self) -> Layout:
        """Return the layout in which each node of the chunk has its edges of this chunk; edges are
        numbered from 0 in the chunk.
        """
        start, stop = self.edge_slice.start, self.edge_slice.stop
        first, number = self.node_slice.start, self.edges.arange[: stop - start + 1]
        ptr = _offsets(self.edges.layout, self.edges.by)
        offsets = ptr[first : self.node_slice.stop + 1].clamp(start, stop) - start
        node, edge = self.edges.node[self.edge_slice] - first, number[:-1]
        return without_stats(offsets, edge, edge, number, node, edge)

    @property
    def is_repeated(self) -> bool:
        """True if there are so many chunks of this size that compilation saves time."""
        is_full = self.edge_slice.stop - self.edge_slice.start == self.size
        return is_full and self.edges.node.numel() >= MIN_COMPILED_CHUNKS * CHUNK

    @property
    def edge(self) -> Tensor:
        """Index of each edge in the caller's order, [b]."""
        return self.edges.layout.perm.index_select(0, self.position)

    def rows(self, row_kinds: tuple[str, ...]) -> list[Tensor]:
        """For each kind of rows, return the row index of every edge of the chunk, [b]."""
        result = {row_kind: getattr(self, row_kind) for row_kind in set(row_kinds)}
        return [result[row_kind] for row_kind in row_kinds]

    def take(self, values: Tensor, row_kind: str) -> Tensor:
        """Gather the rows for the chunk's edges, [b, ...], from a tensor with a row for each
        node or edge.
        """
        if self.is_contiguous(row_kind):
            return values[self.edge_slice]
        return values.index_select(0, getattr(self, row_kind))

    def is_contiguous(self, row_kind: str) -> bool:
        """Return True if the chunk reads consecutive rows from a tensor with this kind of rows."""
        return row_kind == "position" and self.edges.by == "destination"


class Reader:
    """Object that gathers the rows for the chunks, one chunk after another.

    The kernel writes into the same buffers for every chunk, unless the user's function still refers
    to a buffer. The first tensors have the kinds ``row_kinds``; those after them have no rows.
    Creating it raises the errors of :func:`has_kernel`.
    """

    def __init__(self, graph: Graph, tensors: Sequence[Tensor], row_kinds: tuple[str, ...]) -> None:
        self.tensors, self.row_kinds = list(tensors), row_kinds
        self._has_kernel = has_kernel(graph.device)
        self._chunk_size = min(CHUNK, graph.num_edges)
        self._buffers: dict[int, tuple[Tensor, int]] = {}
        self._current: list[Tensor] = []
        if self._has_kernel:
            plain = [tensor.resolve_conj().resolve_neg() for tensor in tensors[: len(row_kinds)]]
            self.tensors[: len(row_kinds)] = plain

    def read(self, chunk: Chunk, fuses: bool) -> tuple[list[Tensor], Sequence[Tensor | None]]:
        """Gather the rows for a chunk; return them, followed by tensors without rows, such as
        parameters.

        A tensor may be returned whole, with the row index that the caller must still gather in the
        second list (None for a gathered tensor). This holds for all tensors if there is no kernel
        and torch ``fuses`` the gather with the function. The returned list and its buffers are
        overwritten by the next call.
        """
        rows, others = chunk.rows(self.row_kinds), self.tensors[len(self.row_kinds) :]
        if not self._has_kernel and fuses:
            return self.tensors, rows
        # The list of the previous chunk is emptied. If a buffer then still has another reference,
        # the user's function has stored the buffer, and it must not be overwritten.
        self._current.clear()
        pending: list[Tensor | None] = []
        for position, (row_kind, row) in enumerate(zip(self.row_kinds, rows)):
            # The edges are sorted by this node, so consecutive edges read the same row. The row
            # stays in the cache, and no copy is needed.
            is_deferred = self._has_kernel and row_kind == chunk.edges.by
            pending.append(row if is_deferred else None)
            tensor = self.tensors[position]
            self._current.append(tensor if is_deferred else self._gathered(position, row))
        self._current += others
        return self._current, pending

    def _gathered(self, position: int, rows: Tensor) -> Tensor:
        """Return the rows, with the indices ``rows`` [b], of the tensor at a position, in a buffer
        that later calls reuse unless the user's function has stored it.
        """
        tensor = self.tensors[position]
        if not self._has_kernel or not can_gather(tensor):
            return tensor.index_select(0, rows)
        buffer, uses = self._buffers.get(position, (None, 0))
        if buffer is None or torch_internals.memory_uses(buffer) > uses:
            buffer = tensor.new_empty(self._chunk_size, *tensor.shape[1:])
            self._buffers[position] = buffer, torch_internals.memory_uses(buffer)
        return gather_rows(tensor, rows, buffer[: rows.shape[0]])


class Writer:
    """Object that writes the rows of the chunks to a tensor, one chunk after another.

    Rows of edges are copied. Rows of nodes are added, in the order of the edges; without a kernel,
    this works only for the end by which the chunks are sorted. Gradients of parameters, which have
    the row kind "function", are added to the whole tensor.
    """

    def __init__(self, graph: Graph, row_kind: str, target: Tensor) -> None:
        self.row_kind, self.target = row_kind, target
        self._has_kernel = has_kernel(graph.device)
        self._hub_sums: Tensor | None = None

    def write(self, chunk: Chunk, values: Tensor) -> None:
        """Copy or add the rows of a chunk, [b, ...], to the target; for the row kind "function",
        add a value of the target's shape.
        """
        values, row_kind, target = values.to(self.target.dtype), self.row_kind, self.target
        if row_kind == "function":
            target += values
        elif chunk.is_contiguous(row_kind):
            target[chunk.edge_slice] = values
        elif row_kind in ("edge", "position"):
            target.index_copy_(0, getattr(chunk, row_kind).long(), values)
        elif not self._has_kernel:
            assert row_kind == chunk.edges.by
            target[chunk.node_slice] += sum_laid_out(values, chunk.node_layout)
        elif can_add(values, target):
            end = chunk.edges.end(row_kind)
            if self._hub_sums is None:
                self._hub_sums = target.new_zeros(end.hubs.shape[0], *target.shape[1:])
            rows, is_sorted = end.rows[chunk.edge_slice], row_kind == chunk.edges.by
            add_rows(values, rows, target, end.hubs, self._hub_sums, is_sorted=is_sorted)
        else:
            target.index_add_(0, getattr(chunk, row_kind).long(), values)


def has_kernel(device: torch.device) -> bool:
    """Return True if there is a C++ kernel that gathers rows and adds them in the order of the
    edges.

    Raises the errors and the warning of :func:`select`. The kernel is not used under a dispatch
    mode, which could not see the kernel's reads and writes.
    """
    return select(None, device) == "cpu" and not torch_internals.dispatch_mode_active()


def is_small(layout: Layout) -> bool:
    """Return True if a layout has so few edges that a single call can process all of them."""
    return layout.col.numel() <= MAX_CHUNKS_AT_ONCE * CHUNK


def chunks(graph: Graph, by: str, size: int | None = None) -> Iterator[Chunk]:
    """Yield chunks of ``size`` edges; by default, ``CHUNK`` edges.

    The edges are sorted by their end ``by``: ``"destination"`` or ``"source"``. The chunks are
    cached in the graph; without edges there are none.
    """
    layout, size = graph.layout, size or CHUNK
    if layout.col.numel():
        ordered = cached(graph, ("edges", by, CHUNK), lambda: _SortedEdges.of(layout, by, CHUNK))
        yield from cached(graph, ("chunks", by, size, CHUNK), lambda: ordered.chunks(size))


def edges_at_once(tensors: Sequence[Tensor]) -> int:
    """Return the number of edges in a chunk of the backward pass, given these arguments.

    The chunk's rows of the widest tensor take at most ``CHUNK_BYTES``, unless this would be fewer
    than ``MIN_CHUNK`` edges. There may be no tensors.
    """
    width = max((math.prod(t.shape[1:]) * t.element_size() for t in tensors), default=0)
    size = CHUNK
    while size * width > CHUNK_BYTES and size >= 2 * MIN_CHUNK:
        size //= 2
    return size


class _EndNodes(NamedTuple):
    """Nodes at one end of all edges, in the form that :func:`gattn.kernels.gather.add_rows`
    expects.
    """

    rows: Tensor
    """Node of each edge, [e]. The value ~k (bitwise complement) stands for the node ``hubs[k]``."""
    hubs: Tensor
    """Nodes with more than HUB_DEGREE edges, [k]; at most MAX_HUBS."""

    @classmethod
    def of(cls, nodes: Tensor, ptr: Tensor) -> _EndNodes:
        """Find the nodes of high degree, given the node of each edge, [e], and the offsets ``ptr``
        [n + 1] of the edges sorted by these nodes.
        """
        hubs = (ptr.diff() > max(HUB_DEGREE, nodes.shape[0] // MAX_HUBS)).nonzero().flatten()
        if not hubs.shape[0]:
            return cls(nodes, hubs.to(nodes.dtype))
        rows = torch.arange(num_rows(ptr), dtype=nodes.dtype, device=nodes.device)
        rows[hubs] = ~rows[: hubs.shape[0]]
        return cls(rows.index_select(0, nodes), hubs.to(nodes.dtype))


@dataclass(eq=False)
class _SortedEdges:
    """All edges, sorted by destination or by source."""

    layout: Layout
    by: str
    """Name of the end by which the edges are sorted: "destination" or "source"."""
    node: Tensor
    """For each edge, its node at the end by which the edges are sorted, [e]."""
    source: Tensor
    """Source of each edge, [e], in sorted order."""
    destination: Tensor
    """Destination of each edge, [e], in sorted order."""
    position: Tensor
    """Position of each edge in CSR order by destination, [e], in sorted order."""
    arange: Tensor
    """The integers 0, 1, 2, and so on. There are more of them than edges in a chunk."""
    derived: dict[Any, Any] = field(default_factory=dict)
    """Cache of tensors that are computed from the sorted edges."""

    @classmethod
    def of(cls, layout: Layout, end: str, size: int) -> _SortedEdges:
        """Sort the edges of a layout by one end, for chunks of at most ``size`` edges."""
        ptr = _offsets(layout, end)
        edges = layout.col.numel()
        nodes = torch.arange(num_rows(ptr), dtype=ptr.dtype, device=ptr.device)
        node = nodes.repeat_interleave(ptr.diff(), output_size=edges)
        count = max(edges if end == "destination" else 0, size + 1)
        numbers = torch.arange(count, dtype=ptr.dtype, device=ptr.device)
        if end == "destination":
            return cls(layout, end, node, layout.col, node, numbers[:edges], numbers)
        return cls(layout, end, node, node, layout.row, layout.csr2csc, numbers)

    def end(self, row_kind: str) -> _EndNodes:
        """Return the nodes at one end of the edges: ``"destination"`` or ``"source"``."""
        nodes = self.destination if row_kind == "destination" else self.source
        return cached(self, row_kind, lambda: _EndNodes.of(nodes, _offsets(self.layout, row_kind)))

    def chunks(self, size: int) -> tuple[Chunk, ...]:
        """Divide the edges into chunks of ``size`` edges; the last chunk may be smaller."""
        edges, ptr = self.node.numel(), _offsets(self.layout, self.by)
        starts = torch.arange(0, edges, size, device=ptr.device)
        ends = (starts + size).clamp(max=edges)
        first = torch.searchsorted(ptr, starts.to(ptr.dtype), right=True) - 1
        last = torch.searchsorted(ptr, ends.to(ptr.dtype))
        return tuple(
            Chunk(self, slice(start, end), slice(low, high), size)
            for start, end, low, high in torch.stack([starts, ends, first, last]).t().tolist()
        )


def _offsets(layout: Layout, end: str) -> Tensor:
    """Return the offset of the first edge of each node, [n + 1] for destinations or [m + 1] for
    sources.
    """
    return layout.rowptr if end == "destination" else layout.colptr
