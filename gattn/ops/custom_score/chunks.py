"""The edges of a layout in chunks, by destination or by source, with where their rows lie."""

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
"""Number of edges in a chunk: about a hundred channels of them fit into the shared cache."""
SHARE = 2 << 20
"""Bytes of a chunk's rows in backward: the rows, their gradients and the sums share the cache.
Smaller chunks would cost more calls from Python."""
LEAST = CHUNK // 4
"""Minimum number of edges in a chunk, for rows of any width."""
FEW = 2
"""Up to this many chunks, as in a batch of molecules, all edges run at once (``eager.py``)."""
WORTH = 4
"""Minimum number of full chunks worth the seconds of a compilation."""
HUB = 2048
"""A chunk's edges of a node with more of them are summed before they join the node's sum."""
HUBS = 1024
"""No more nodes than these: a room for each is cleared for every chunk."""


@dataclass(eq=False)
class Chunk:
    """Edges that follow one another when sorted by one of their ends."""

    edges: _Sorted
    """All of them."""
    part: slice
    """Of these, the chunk's b."""
    nodes: slice
    """Of the nodes at that end, those with an edge in the chunk, and perhaps others."""
    most: int
    """Edges of each chunk but the last."""
    derived: dict[Any, Any] = field(default_factory=dict)
    """What was made of these."""

    @property
    def source(self) -> Tensor:
        """[b], likewise the next two."""
        return self.edges.source[self.part]

    @property
    def destination(self) -> Tensor:
        """Of each edge."""
        return self.edges.destination[self.part]

    @property
    def position(self) -> Tensor:
        """In the layout's order."""
        return self.edges.position[self.part]

    @property
    def near(self) -> Layout:
        """From the chunk's edges to its nodes."""
        return cached(self, "near", self._near)

    def _near(self) -> Layout:
        start, stop = self.part.start, self.part.stop
        first, number = self.nodes.start, self.edges.number[: stop - start + 1]
        ptr = _offsets(self.edges.layout, self.edges.by)
        offsets = ptr[first : self.nodes.stop + 1].clamp(start, stop) - start
        local, each = self.edges.local[self.part] - first, number[:-1]
        return without_stats(offsets, each, each, number, local, each)

    @property
    def is_repeated(self) -> bool:
        """Whether there are many of this size, for which it pays to compile what is done."""
        whole = self.part.stop - self.part.start == self.most
        return whole and self.edges.local.numel() >= WORTH * CHUNK

    @property
    def edge(self) -> Tensor:
        """[b]: positions in the caller's order."""
        return self.edges.layout.perm.index_select(0, self.position)

    def rows(self, places: tuple[str, ...]) -> list[Tensor]:
        """Where the rows of tensors lie that belong to any of the four."""
        result = {place: getattr(self, place) for place in set(places)}
        return [result[place] for place in places]

    def take(self, values: Tensor, place: str) -> Tensor:
        """The rows of the chunk's edges, [b, ...], of those of all nodes or edges."""
        if self.are_one_run(place):
            return values[self.part]
        return values.index_select(0, getattr(self, place))

    def are_one_run(self, place: str) -> bool:
        """Whether the chunk's rows of that place follow one another."""
        return place == "position" and self.edges.by == "destination"


class Reader:
    """Reads rows for chunk after chunk, by a kernel into the same memory each time unless somebody
    kept what stands there."""

    def __init__(self, graph: Graph, tensors: Sequence[Tensor], places: tuple[str, ...]) -> None:
        self.tensors, self.places = list(tensors), places
        self._has_kernel = has_kernel(graph.device)
        self._most = min(CHUNK, graph.num_edges)
        self._room: dict[int, tuple[Tensor, int]] = {}
        self._current: list[Tensor] = []
        if self._has_kernel:
            plain = [tensor.resolve_conj().resolve_neg() for tensor in tensors[: len(places)]]
            self.tensors[: len(places)] = plain

    def read(self, chunk: Chunk, fuses: bool) -> tuple[list[Tensor], Sequence[Tensor | None]]:
        """The chunk's rows of the first tensors, and the others; of some perhaps the whole tensor,
        and where the rows stand that are still to be gathered: of all, without a kernel, where
        torch ``fuses`` that."""
        rows, others = chunk.rows(self.places), self.tensors[len(self.places) :]
        if not self._has_kernel and fuses:
            return self.tensors, rows
        self._current.clear()  # the caller's list: whose rows are used now, somebody else kept
        late: list[Tensor | None] = []
        for position, (place, row) in enumerate(zip(self.places, rows)):
            # Rows of the end that edges are sorted by repeat: they stay near, and need no copy.
            waits = self._has_kernel and place == chunk.edges.by
            late.append(row if waits else None)
            self._current.append(self.tensors[position] if waits else self._gathered(position, row))
        self._current += others
        return self._current, late

    def _gathered(self, position: int, rows: Tensor) -> Tensor:
        tensor = self.tensors[position]
        if not self._has_kernel or not can_gather(tensor):
            return tensor.index_select(0, rows)
        room, uses = self._room.get(position, (None, 0))
        if room is None or torch_internals.memory_uses(room) > uses:
            room = tensor.new_empty(self._most, *tensor.shape[1:])
            self._room[position] = room, torch_internals.memory_uses(room)
        return gather_rows(tensor, rows, room[: rows.shape[0]])


class Writer:
    """Puts rows of chunk after chunk where they belong among those of all edges, or adds them over
    the edges of each node, in their order, to those of all nodes: without a kernel only at the end
    that the chunks are sorted by. What belongs to the function is added as it is."""

    def __init__(self, graph: Graph, place: str, to: Tensor) -> None:
        self.place, self.to = place, to
        self._has_kernel = has_kernel(graph.device)
        self._apart: Tensor | None = None

    def write(self, chunk: Chunk, values: Tensor) -> None:
        """The chunk's [b, ...]."""
        values, place, to = values.to(self.to.dtype), self.place, self.to
        if place == "function":
            to += values
        elif chunk.are_one_run(place):
            to[chunk.part] = values
        elif place in ("edge", "position"):
            to.index_copy_(0, getattr(chunk, place).long(), values)
        elif not self._has_kernel:
            assert place == chunk.edges.by
            to[chunk.nodes] += sum_laid_out(values, chunk.near)
        elif can_add(values, to):
            end = chunk.edges.end(place)
            if self._apart is None:
                self._apart = to.new_zeros(end.hubs.shape[0], *to.shape[1:])
            rows, is_sorted = end.rows[chunk.part], place == chunk.edges.by
            add_rows(values, rows, to, end.hubs, self._apart, is_sorted=is_sorted)
        else:
            to.index_add_(0, getattr(chunk, place).long(), values)


def has_kernel(device: torch.device) -> bool:
    """Whether a kernel gathers rows and, in the order of edges, adds them at either end.

    Who intercepts torch's operators would not see it.
    """
    return select(None, device) == "cpu" and not torch_internals.dispatch_mode_active()


def is_small(layout: Layout) -> bool:
    """Whether all edges are taken at once."""
    return layout.col.numel() <= FEW * CHUNK


def chunks(graph: Graph, by: str, most: int | None = None) -> Iterator[Chunk]:
    """The edges in chunks of ``most``, CHUNK unless given, sorted by their ``"destination"`` or by
    their ``"source"``."""
    layout, most = graph.layout, most or CHUNK
    if layout.col.numel():
        ordered = cached(graph, ("edges", by, CHUNK), lambda: _Sorted.of(layout, by, CHUNK))
        yield from cached(graph, ("chunks", by, most, CHUNK), lambda: ordered.chunks(most))


def edges_at_once(tensors: Sequence[Tensor]) -> int:
    """How many, where rows of these are read by a kernel and gradients added to others."""
    width = max((math.prod(t.shape[1:]) * t.element_size() for t in tensors), default=0)
    most = CHUNK
    while most * width > SHARE and most >= 2 * LEAST:
        most //= 2
    return most


class _End(NamedTuple):
    """The nodes at one end of all edges, as :func:`gattn.kernels.gather.add_rows` takes them."""

    rows: Tensor
    """[e]; ~k for the k-th hub."""
    hubs: Tensor
    """Nodes of more edges than HUB, at most HUBS."""

    @classmethod
    def of(cls, nodes: Tensor, ptr: Tensor) -> _End:
        """From each edge's node, and where the edges of each node begin."""
        hubs = (ptr.diff() > max(HUB, nodes.shape[0] // HUBS)).nonzero().flatten()
        if not hubs.shape[0]:
            return cls(nodes, hubs.to(nodes.dtype))
        rows = torch.arange(num_rows(ptr), dtype=nodes.dtype, device=nodes.device)
        rows[hubs] = ~rows[: hubs.shape[0]]
        return cls(rows.index_select(0, nodes), hubs.to(nodes.dtype))


@dataclass(eq=False)
class _Sorted:
    """All edges, sorted by one of their ends."""

    layout: Layout
    by: str
    """That end: "destination" or "source"."""
    local: Tensor
    """[e]: that node, and so the next three."""
    source: Tensor
    destination: Tensor
    position: Tensor
    """In the layout's order."""
    number: Tensor
    """0, 1, ... up to the edges of a chunk, at least."""
    derived: dict[Any, Any] = field(default_factory=dict)
    """What was made of these."""

    @classmethod
    def of(cls, layout: Layout, end: str, most: int) -> _Sorted:
        """By their ``"destination"`` or by their ``"source"``, for chunks of at most so many."""
        ptr = _offsets(layout, end)
        edges = layout.col.numel()
        nodes = torch.arange(num_rows(ptr), dtype=ptr.dtype, device=ptr.device)
        local = nodes.repeat_interleave(ptr.diff(), output_size=edges)
        last = max(edges if end == "destination" else 0, most + 1)
        number = torch.arange(last, dtype=ptr.dtype, device=ptr.device)
        if end == "destination":
            return cls(layout, end, local, layout.col, local, number[:edges], number)
        return cls(layout, end, local, local, layout.row, layout.csr2csc, number)

    def end(self, place: str) -> _End:
        """The nodes at the "destination" or at the "source"."""
        nodes = self.destination if place == "destination" else self.source
        return cached(self, place, lambda: _End.of(nodes, _offsets(self.layout, place)))

    def chunks(self, most: int) -> tuple[Chunk, ...]:
        """In chunks of so many."""
        edges, ptr = self.local.numel(), _offsets(self.layout, self.by)
        starts = torch.arange(0, edges, most, device=ptr.device)
        ends = (starts + most).clamp(max=edges)
        first = torch.searchsorted(ptr, starts.to(ptr.dtype), right=True) - 1
        last = torch.searchsorted(ptr, ends.to(ptr.dtype))
        return tuple(
            Chunk(self, slice(start, end), slice(low, high), most)
            for start, end, low, high in torch.stack([starts, ends, first, last]).t().tolist()
        )


def _offsets(layout: Layout, end: str) -> Tensor:
    """[k + 1]: where the edges of each node at that end begin."""
    return layout.rowptr if end == "destination" else layout.colptr
