"""Random sampling of neighbours for one hop: some or all edges into each destination are drawn.

The random number for edge e of a batch comes from a counter-based generator with the seed as key
and e as counter, so that the sample does not depend on the number of threads. Without replacement,
Floyd's algorithm draws k of d edges with k random numbers: Bentley, Floyd, "Programming pearls: a
sample of brilliance" (CACM 1987).

The C++ kernel and the PyTorch reference in this file give the same bits.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from gattn.kernels import cpu
from gattn.kernels.philox import philox
from gattn.layout import stats
from gattn.layout.layout import INT32_END, Layout, num_rows, owners, stable_argsort


class Draw(NamedTuple):
    """Settings for drawing the edges of a hop."""

    num_neighbors: int
    """Number of edges to draw for each destination; -1 for all edges."""
    replace: bool
    """True to draw with replacement."""
    seed: int
    """Key of the random generator; must be below 2**63."""
    edge_offset: int
    """Number of edges that were drawn in earlier hops of the same batch."""


class Hop(NamedTuple):
    """Sampled edges of one hop into f destinations, sorted by (destination, source)."""

    offsets: Tensor
    """For each destination, the index of its first edge, [f + 1] int64."""
    edge_index: Tensor
    """For each edge, its source and destination as positions in the batch, [2, e] int64."""
    source: Tensor
    """For each edge, its source as a position in the batch, [e] int32, which is the dtype of a
    layout.
    """
    edges: Tensor
    """For each edge, its index in the caller's order of edges, [e] int64."""
    nodes: Tensor
    """Sources that are new in the batch, in the order in which they were first drawn: [k] int64."""


def sample_hop(
    layout: Layout, nodes: Tensor, batch_index: Tensor, draw: Draw, batch_range: tuple[int, int]
) -> Hop:
    """Draw edges into given nodes, and assign positions in the batch to sources that are new.

    Args:
        layout: layout on a CPU; the by-source half is not read.
        nodes: [f] int64, the destinations.
        batch_index: [m] int32, position of each source in the batch, -1 for none; written in place
            for new sources.
        draw: settings of the draws.
        batch_range: batch position of the first destination (the others follow it), and number of
            sources in the batch.

    Returns:
        The drawn edges; without edges, all tensors except the offsets are empty.

    Raises:
        ValueError: if the batch has ``INT32_END`` edges (almost 2**31) or more.
    """
    hop = _cpu_hop if cpu.serves(nodes.device) else reference_hop
    return hop(layout, nodes, batch_index, draw, batch_range)


def reference_hop(
    layout: Layout, nodes: Tensor, batch_index: Tensor, draw: Draw, batch_range: tuple[int, int]
) -> Hop:
    """Return the edges of one hop, drawn in plain PyTorch by the seed of the draw; see
    :func:`sample_hop`. New sources are written to ``batch_index``. Raises ValueError if the batch
    has too many edges.
    """
    begin = layout.rowptr[nodes].long()
    degree = layout.rowptr[nodes + 1].long() - begin
    offsets = torch.cat([degree.new_zeros(1), _counts(degree, draw).cumsum(0)])
    total = _checked_total(offsets, draw)
    row = owners(offsets, total)
    position = begin[row] + _positions(degree, offsets, row, draw)
    source = layout.col[position].long()
    # These are the new sources; a source occurs once for each of its edges.
    discovered = source[batch_index[source] < 0]
    count = discovered.numel()
    first = discovered.new_full((num_rows(layout.colptr),), count)
    first.scatter_reduce_(0, discovered, torch.arange(count), "amin")
    new = discovered[first[discovered] == torch.arange(count)]
    first_dst, num_src = batch_range
    batch_index[new] = torch.arange(num_src, num_src + new.numel(), dtype=torch.int32)
    batch_source = batch_index[source]
    order = stable_argsort(batch_source)
    order = order[stable_argsort(row[order])]
    edge_index = torch.stack([batch_source[order].long(), row + first_dst])
    return Hop(offsets, edge_index, batch_source[order], layout.perm[position[order]].long(), new)


def _counts(degree: Tensor, draw: Draw) -> Tensor:
    """Return the number of edges to draw for each destination, given its degree: [f]."""
    if draw.num_neighbors < 0:
        return degree
    if draw.replace:
        return (degree > 0) * draw.num_neighbors
    return degree.clamp(max=draw.num_neighbors)


def _positions(degree: Tensor, offsets: Tensor, row: Tensor, draw: Draw) -> Tensor:
    """Draw edges; return the index of each edge among all edges into its destination: [e].
    ``degree`` [f] is that of the destinations, ``offsets`` [f + 1] the index of the first edge that
    is drawn for each, and ``row`` [e] the destination of each edge that is drawn, from 0 to f - 1.
    """
    edge = torch.arange(row.numel())
    position = edge - offsets[row]
    if draw.num_neighbors < 0:
        return position
    drawn = philox(torch.tensor(draw.seed), edge + draw.edge_offset)
    if draw.replace:
        return (drawn * degree[row]) >> 32
    # Floyd's algorithm draws without replacement. It is needed only for destinations that have more
    # edges than are drawn.
    sampled = (degree > draw.num_neighbors).nonzero().squeeze(1)
    chosen = degree.new_full((sampled.numel(), draw.num_neighbors), -1)
    for y in range(draw.num_neighbors):
        top = degree[sampled] - draw.num_neighbors + y
        candidate = (drawn[offsets[sampled] + y] * (top + 1)) >> 32
        repeated = (chosen == candidate[:, None]).any(1)
        chosen[:, y] = torch.where(repeated, top, candidate)
        position[offsets[sampled] + y] = chosen[:, y]
    return position


def _checked_total(offsets: Tensor, draw: Draw) -> int:
    """Return the number of sampled edges, the last of the offsets [f + 1]. Raises ValueError if the
    edges of the batch cannot be numbered in int32.
    """
    total = int(offsets[-1])
    if draw.edge_offset + total >= INT32_END:
        raise ValueError(
            f"a batch must have fewer than {INT32_END} edges; got {draw.edge_offset + total}: "
            "sample fewer seeds or neighbours at once"
        )
    return total


@functools.cache
def _launcher(kernel: str) -> cpu.Launcher:
    """Return the launcher of a kernel that samples; the kernels have different fields."""
    absent = () if kernel == "sample_edges" else _FIELDS[9:]
    positions = {name: i for i, name in enumerate(_FIELDS) if name not in absent}
    return cpu.Launcher(kernel, positions, absent)


_FIELDS = (
    "nodes", "layout", "num_nodes", "num_neighbors", "replace", "max_degree", "seed", "edge_offset",
    "offsets", "first_destination", "num_sources", "batch_index", "edge_index", "sources", "edges",
    "new_nodes", "num_new",
)  # fmt: skip


def _cpu_hop(
    layout: Layout, nodes: Tensor, batch_index: Tensor, draw: Draw, batch_range: tuple[int, int]
) -> Hop:
    """Return the edges of one hop, drawn with the C++ kernels by the seed of the draw; see
    :func:`sample_hop`. New sources are written to ``batch_index``, and an unknown maximum degree to
    the statistics of the layout. Raises ValueError if the batch has too many edges.
    """
    count = nodes.numel()
    max_degree = stats.max_degree(layout) or 0
    offsets = torch.empty(count + 1, dtype=torch.int64)
    settings = draw.num_neighbors, int(draw.replace), max_degree, draw.seed, draw.edge_offset
    values = [nodes.contiguous(), layout, count, *settings, offsets]
    _launcher("sample_offsets")(values)
    total = _checked_total(offsets, draw)
    edge_index, edges = cpu.empty(offsets, 2, total), cpu.empty(offsets, total)
    source = cpu.empty(offsets, total, dtype=torch.int32)
    new = cpu.empty(offsets, total)
    num_new = torch.zeros((), dtype=torch.int64)
    values += [*batch_range, batch_index, edge_index, source, edges, new, num_new]
    _launcher("sample_edges")(values)
    return Hop(offsets, edge_index, source, edges, new[: int(num_new)])
