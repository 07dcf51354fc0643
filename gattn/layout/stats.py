"""Statistics of a layout, such as its maximum degree, as a few integers on the CPU.

Launchers use the statistics to choose a kernel and the number of programs. Reading them from a
device would be slow, so they are on the CPU. The layout of a Graph has SIZE statistics; each is
UNKNOWN until it is measured and written in place. Layouts that compiled code builds have no
statistics, because such code may later write another layout into the same tensors.

The last element stores ``data_ptr()`` of the tensor, so that a copy can be recognised and ignored:
a CUDA graph recorded by torch.compile copies its inputs once and later runs with other values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.layout.layout import Layout, num_rows

MAX_IN_DEGREE, MAX_OUT_DEGREE, BAND_AREA, ADDRESS = range(4)
"""Index of each statistic: maximum in-degree, maximum out-degree, band area, and address of the
statistics tensor.

The band area is 0 unless the sources of each destination, and the destinations of each source, are
consecutive nodes without repeats. Otherwise it is the number of (destination, source) pairs in the
rectangles that enclose the edges of every BAND_ROWS destinations."""
SIZE = 4
UNKNOWN = -1
BAND_ROWS = 64
"""Number of rows of each rectangle from which the band area is computed."""
MAX_GRAPH_NODES = 64
"""Maximum number of nodes in a graph that one Triton program can process as a whole."""
MIN_MEAN_DEGREE = 8
"""Minimum mean degree for which the band area of a layout is computed. Batches of small graphs
with a lower mean degree are treated as sparse.
"""


def with_stats(
    layout: Layout,
    max_in_degree: int = UNKNOWN,
    max_out_degree: int = UNKNOWN,
    band_area: int = UNKNOWN,
) -> Layout:
    """Return the layout with new statistics. In compiled code and for fake tensors, return it
    unchanged.
    """
    if torch.compiler.is_compiling() or isinstance(layout.rowptr, torch_internals.FakeTensor):
        return layout
    stats = torch.empty(SIZE, dtype=torch.int64, device="cpu")
    stats.numpy()[:] = max_in_degree, max_out_degree, band_area, stats.data_ptr()
    return layout._replace(stats=stats)


def inherit_stats(
    parent: Layout, layout: Layout, *, extra_edges: int = 0, transposed: bool = False
) -> Layout:
    """Return a layout with the degree statistics of the layout from which it was built.

    Args:
        parent: the layout with known statistics.
        layout: the layout built from it.
        extra_edges: maximum number of edges that were added to each node.
        transposed: whether all edges were reversed.
    """
    degrees = [get_stat(parent.stats, position) for position in (MAX_IN_DEGREE, MAX_OUT_DEGREE)]
    degrees = [UNKNOWN if degree is None else degree + extra_edges for degree in degrees]
    return with_stats(layout, *(reversed(degrees) if transposed else degrees))


def are_valid(stats: Tensor) -> bool:
    """Return True if the statistics belong to the layout of a Graph and are not a copy.

    Always False in compiled code, which would otherwise specialise on their values.
    """
    if torch.compiler.is_compiling() or stats.numel() != SIZE:
        return False
    return int(stats.numpy()[ADDRESS]) == stats.data_ptr()


def get_stat(stats: Tensor, position: int) -> int | None:
    """Return one statistic, or None if it is unknown."""
    value = int(stats.numpy()[position]) if are_valid(stats) else UNKNOWN
    return None if value == UNKNOWN else value


def set_stat(stats: Tensor, position: int, value: int) -> None:
    """Write a statistic in place, without incrementing torch's version counter."""
    if are_valid(stats):
        stats.numpy()[position] = value


def max_degree(layout: Layout, transposed: bool = False) -> int | None:
    """Return an upper bound of the in-degrees, or of the out-degrees if ``transposed`` is true.

    The result is None if the bound is unknown and measuring it would wait for a device.
    """
    position = MAX_OUT_DEGREE if transposed else MAX_IN_DEGREE
    bound = get_stat(layout.stats, position)
    offsets = layout.colptr if transposed else layout.rowptr
    if bound is None and offsets.is_cpu and are_valid(layout.stats):
        bound = int(max_row_size(offsets))
        set_stat(layout.stats, position, bound)
    return bound


def max_row_size(offsets: Tensor) -> Tensor:
    """Return the maximum number of edges in a row, as a scalar tensor; it is 0 if there are no
    rows.
    """
    return torch.nn.functional.pad(offsets.diff(), (0, 1)).amax()


def band_density(layout: Layout) -> float | None:
    """Return the density of a band: the fraction of the (destination, source) pairs in its
    rectangles that are edges.

    The result is None unless the sources of each destination, and the destinations of each source,
    are consecutive nodes. The first call for the layout of a Graph measures the density and waits
    for the device up to four times. While a CUDA graph is captured, waiting is impossible and the
    result is None.
    """
    if not are_valid(layout.stats) or layout.graph_ptr.numel():
        return None
    area = get_stat(layout.stats, BAND_AREA)
    if area is None:
        if layout.rowptr.is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        area = band_area(layout)
        set_stat(layout.stats, BAND_AREA, area)
    return layout.col.numel() / area if area else None


def band_area(layout: Layout) -> int:
    """Compute the band area of a layout; see ``BAND_AREA``."""
    if layout.col.numel() == 0:
        return 0
    if not _spans_fit(layout.rowptr, layout.col) or not _spans_fit(layout.colptr, layout.row):
        return 0
    same_source = layout.col[1:] == layout.col[:-1]
    starts = torch.zeros(layout.col.numel() + 1, dtype=torch.bool, device=layout.col.device)
    starts[layout.rowptr.long()] = True
    return 0 if bool((same_source & ~starts[1:-1]).any()) else _area(layout)


def graph_ptr(layout: Layout, bounds: Sequence[int]) -> Tensor:
    """Return the node offsets of a batch if all of its graphs are small, otherwise an empty tensor.

    Graphs are small if each has at most MAX_GRAPH_NODES nodes and the mean degree is below
    MIN_MEAN_DEGREE, so that one program can process a graph.

    Graph b has the nodes bounds[b] to bounds[b + 1] - 1; no edge leaves it.
    """
    largest_graph = max((stop - start for start, stop in itertools.pairwise(bounds)), default=0)
    sparse = layout.col.numel() < MIN_MEAN_DEGREE * num_rows(layout.rowptr)
    offsets = list(bounds) if 0 < largest_graph <= MAX_GRAPH_NODES and sparse else []
    return torch.tensor(offsets, dtype=layout.rowptr.dtype, device=layout.rowptr.device)


def _spans_fit(offsets: Tensor, index: Tensor) -> bool:
    """Return True if the sources of every row are consecutive nodes without repeats."""
    first, last, degree = _spans(offsets, index)
    return bool(((last - first == degree) | (degree == 0)).all())


def _spans(offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each row its first source, the node after its last source, and its degree."""
    start, stop = offsets[:-1].long(), offsets[1:].long()
    highest = index.numel() - 1
    return index[start.clamp(max=highest)], index[(stop - 1).clamp(min=0)] + 1, stop - start


def _area(layout: Layout) -> int:
    """Compute the band area: the number of (destination, source) pairs in rectangles that cover
    the edges.
    """
    first, last, degree = _spans(layout.rowptr, layout.col)
    empty = degree == 0
    first, last = first.long().masked_fill(empty, 2**62), last.long().masked_fill(empty, 0)
    padding = -first.numel() % BAND_ROWS
    low = torch.nn.functional.pad(first, (0, padding), value=2**62).view(-1, BAND_ROWS).amin(1)
    high = torch.nn.functional.pad(last, (0, padding)).view(-1, BAND_ROWS).amax(1)
    return BAND_ROWS * int((high - low).clamp(min=0).sum())
