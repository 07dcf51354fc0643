"""Neighbour sampling, one hop: of the edges into each destination some or all, uniformly.

Edge number e of a batch is drawn by the counter-based generator keyed on (seed, e), so that the
sample does not depend on the number of threads. Without replacement, k of d edges take k draws by
Floyd's algorithm: Bentley, Floyd, "Programming pearls: a sample of brilliance" (CACM 1987).

The C++ kernel and the plain one here give the same bits.
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
    """How the edges of a hop are drawn."""

    num_neighbors: int
    """Edges for each destination; -1 for all."""
    replace: bool
    """Whether an edge may be drawn again."""
    seed: int
    """The key of the generator, below 2**63."""
    edge_offset: int
    """Edges of the batch that were drawn before."""


class Hop(NamedTuple):
    """The edges that were drawn for f destinations, in the order of destination and source."""

    offsets: Tensor
    """[f + 1] int64: where the edges of each destination begin."""
    edge_index: Tensor
    """[2, e] int64: source and destination by their numbers in the batch."""
    source: Tensor
    """[e] int32: the sources once more."""
    edges: Tensor
    """[e] int64: the caller's position of each edge."""
    nodes: Tensor
    """[k] int64: sources that were met for the first time, in that order."""


def sample_hop(
    layout: Layout, nodes: Tensor, numbers: Tensor, draw: Draw, known: tuple[int, int]
) -> Hop:
    """Draw edges into nodes, and number the sources that are not yet in the batch.

    Args:
        layout: on a CPU; its columns are not read.
        nodes: [f] int64, the destinations.
        numbers: [m] int32, the number of each source in the batch, -1 for none; new ones are
            written.
        draw: how many, and by which generator.
        known: the number of the first destination in the batch, whose others follow, and how many
            sources have a number.

    Raises:
        ValueError: for a batch of 2**31 edges.
    """
    hop = _cpu_hop if cpu.serves(nodes.device) else reference_hop
    return hop(layout, nodes, numbers, draw, known)


def reference_hop(
    layout: Layout, nodes: Tensor, numbers: Tensor, draw: Draw, known: tuple[int, int]
) -> Hop:
    """:func:`sample_hop` in plain PyTorch."""
    begin = layout.rowptr[nodes].long()
    degree = layout.rowptr[nodes + 1].long() - begin
    offsets = torch.cat([degree.new_zeros(1), _counts(degree, draw).cumsum(0)])
    total = _checked_total(offsets, draw)
    row = owners(offsets, total)
    position = begin[row] + _places(degree, offsets, row, draw)
    source = layout.col[position].long()
    met = source[numbers[source] < 0]
    first = met.new_full((num_rows(layout.colptr),), met.numel())
    first.scatter_reduce_(0, met, torch.arange(met.numel()), "amin")
    new = met[first[met] == torch.arange(met.numel())]
    numbers[new] = torch.arange(known[1], known[1] + new.numel(), dtype=torch.int32)
    number = numbers[source]
    order = stable_argsort(number)
    order = order[stable_argsort(row[order])]
    edge_index = torch.stack([number[order].long(), row + known[0]])
    return Hop(offsets, edge_index, number[order], layout.perm[position[order]].long(), new)


def _counts(degree: Tensor, draw: Draw) -> Tensor:
    """Edges that are drawn for destinations of these degrees."""
    if draw.num_neighbors < 0:
        return degree
    if draw.replace:
        return (degree > 0) * draw.num_neighbors
    return degree.clamp(max=draw.num_neighbors)


def _places(degree: Tensor, offsets: Tensor, row: Tensor, draw: Draw) -> Tensor:
    """The place of each drawn edge among those of its destination, [e]."""
    edge = torch.arange(row.numel())
    place = edge - offsets[row]
    if draw.num_neighbors < 0:
        return place
    drawn = philox(torch.tensor(draw.seed), edge + draw.edge_offset)
    if draw.replace:
        return (drawn * degree[row]) >> 32
    some = (degree > draw.num_neighbors).nonzero().squeeze(1)
    chosen = degree.new_full((some.numel(), draw.num_neighbors), -1)
    for y in range(draw.num_neighbors):
        top = degree[some] - draw.num_neighbors + y
        found = (drawn[offsets[some] + y] * (top + 1)) >> 32
        taken = (chosen == found[:, None]).any(1)
        chosen[:, y] = torch.where(taken, top, found)
        place[offsets[some] + y] = chosen[:, y]
    return place


def _checked_total(offsets: Tensor, draw: Draw) -> int:
    total = int(offsets[-1])
    if draw.edge_offset + total >= INT32_END:
        raise ValueError(
            f"a batch must have fewer than {INT32_END} edges; got {draw.edge_offset + total}: "
            "sample fewer seeds or neighbours at once"
        )
    return total


@functools.cache
def _launcher(kernel: str) -> cpu.Launcher:
    absent = () if kernel == "sample_edges" else _FIELDS[9:]
    given = {name: at for at, name in enumerate(_FIELDS) if name not in absent}
    return cpu.Launcher(kernel, given, absent)


_FIELDS = (
    *(
        "nodes",
        "layout",
        "num_nodes",
        "num_neighbors",
        "replace",
        "max_degree",
        "seed",
        "edge_offset",
    ),
    *("offsets", "first_destination", "num_known", "numbers", "edge_index", "sources", "edges"),
    *("new_nodes", "num_new"),
)


def _cpu_hop(
    layout: Layout, nodes: Tensor, numbers: Tensor, draw: Draw, known: tuple[int, int]
) -> Hop:
    """:func:`sample_hop` by the C++ kernels."""
    count = nodes.numel()
    widest = stats.max_degree(layout) or 0
    offsets = torch.empty(count + 1, dtype=torch.int64)
    how = draw.num_neighbors, int(draw.replace), widest, draw.seed, draw.edge_offset
    values = [nodes.contiguous(), layout, count, *how, offsets]
    _launcher("sample_offsets")(values)
    total = _checked_total(offsets, draw)
    edge_index, edges = cpu.empty(offsets, 2, total), cpu.empty(offsets, total)
    source = cpu.empty(offsets, total, dtype=torch.int32)
    new = cpu.empty(offsets, total)
    num_new = torch.zeros((), dtype=torch.int64)
    values += [*known, numbers, edge_index, source, edges, new, num_new]
    _launcher("sample_edges")(values)
    return Hop(offsets, edge_index, source, edges, new[: int(num_new)])
