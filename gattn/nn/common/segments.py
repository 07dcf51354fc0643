"""Graphs that connect rows, such as the nodes of a batch, to the set (segment) to which they
belong.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.aggr import Aggregation

from gattn import graphs
from gattn.graph import Graph
from gattn.graph.cache import cached, outside_transforms
from gattn.graph.edge_input import check_count, check_created_outside, check_not_traced
from gattn.layout import layout as reference
from gattn.layout.layout import Layout, index_dtype, offsets, owners, stable_argsort, without_stats
from gattn.nn.common.checks import check_tensor
from gattn.nn.common.composite import CompositeModule


class Readout(CompositeModule, Aggregation):
    """Base class of readouts, which reduce each set of rows to one row."""

    def __call__(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        **options: Any,
    ) -> Tensor:
        """Check the inputs, and reduce each set of rows. See :func:`segment_graph` for the
        arguments.

        PyG's own ``__call__`` is skipped: it would create a missing index, and read its size from
        the device. Raises TypeError for arguments that are no tensors, and ValueError for shapes
        that do not fit.
        """
        _check_tensors(x, index, ptr)
        segments = {"index": index, "ptr": ptr, "dim_size": dim_size, "dim": dim}
        return Module.__call__(self, x, **segments, **options)


def _check_tensors(x: Any, index: Any, ptr: Any) -> None:
    """Raise TypeError unless x, index and ptr are tensors (index and ptr may be None), and
    ValueError unless ptr is a vector with at least one entry.
    """
    check_tensor("x", x)
    for name, value in (("index", index), ("ptr", ptr)):
        if value is not None:
            check_tensor(name, value)
    if ptr is not None and (ptr.dim() != 1 or ptr.shape[0] == 0):
        raise ValueError(f"ptr must have shape (g + 1,); got {tuple(ptr.shape)}")


def segment_graph(
    x: Tensor,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
    dim: int = -2,
) -> Graph:
    """Return the graph with one edge from every row of x to its segment.

    Edge j belongs to row j, so that per-edge tensors are per-row tensors. The graph is cached for
    the tensor index or ptr, as :func:`gattn.graph.as_graph` caches the graphs of edge tensors.

    Args:
        x: [n, d], the rows; only its shape and device are read.
        index: [n] integers in [0, dim_size): the segment of each row, in any order. If index and
            ptr are None, all rows are in the first segment, by default the only one.
        ptr: [dim_size + 1] integers: segment i contains the rows ptr[i] to ptr[i + 1] - 1. If ptr
            is passed, index is ignored.
        dim_size: number of segments; None reads ``index.max() + 1`` from the device.
        dim: the dimension of the rows, 0 or -2.

    Returns:
        A graph from n sources to dim_size destinations.

    Raises:
        TypeError: for inputs that are not tensors, or an index or ptr that is not int32 or int64.
        ValueError: for a wrong shape or dimension, or an index or ptr out of range.
        RuntimeError: under torch.jit.trace.

    Example:
        >>> import torch
        >>> segment_graph(torch.randn(4, 8), torch.tensor([1, 0, 1, 1]), dim_size=3)
        Graph(num_src=4, num_dst=3, num_edges=4, device='cpu')
    """
    _check_tensors(x, index, ptr)
    check_not_traced()
    if x.dim() != 2 or dim not in (0, -2):
        raise ValueError(
            f"x must have shape (n, d) with dim 0 or -2; got {tuple(x.shape)} with dim {dim}"
        )
    if dim_size is not None and not torch.compiler.is_compiling():
        check_count("dim_size", dim_size)
    rows = x.shape[0]
    if index is None and ptr is None:
        if dim_size in (None, 1):
            return _one_segment(rows, x.device)
        index = torch.zeros(rows, dtype=torch.int64, device=x.device)
    index_or_ptr, segments = index, dim_size
    if ptr is not None:
        index_or_ptr, segments = ptr, ptr.shape[0] - 1
        if dim_size is not None and dim_size != segments:
            raise ValueError(
                f"dim_size must be {segments}, one less than the length of ptr; got {dim_size}"
            )
    assert index_or_ptr is not None
    if torch.compiler.is_compiling():
        segments = _count(index_or_ptr) if segments is None else segments
        return Graph.from_layout(_traced_layout(_row_segments(index_or_ptr, ptr, rows), segments))
    check_created_outside("index and ptr", index_or_ptr)
    key = "segments", rows, segments, ptr is not None
    return cached(index_or_ptr, key, lambda: _segments(index_or_ptr, ptr, rows, segments))


def segment_index(segments: Graph) -> Tensor:
    """Return the segment of each row: [n] int64."""
    return segments.layout.row.long()


def zero_empty(out: Tensor, segments: Graph) -> Tensor:
    """Set the results, [num_segments, ...], of segments that have no rows to zero."""
    empty = segments.layout.rowptr.diff() == 0
    return out.masked_fill(empty.view(-1, *(1,) * (out.dim() - 1)), 0.0)


def within(segments: Graph, width: int | None = None) -> tuple[Graph, Tensor | None]:
    """Return the graph in which every row attends to all rows of its segment, and a score bias or
    None.

    Under torch.compile the number of these edges is not known. Each row then gets ``width`` edges,
    and the second result is a bias [e, 1] of 0 or -inf, which masks the unused edges. Otherwise the
    second result is None, and the graph is cached. Raises ValueError under torch.compile without
    ``width``.
    """
    if torch.compiler.is_compiling():
        return _traced_within(segments, width)
    return cached(segments, "within", lambda: _within(segments)), None


def from_points(segments: Graph, points: int) -> Graph:
    """Return the graph that connects ``points`` sources of each segment to every row of the
    segment.

    Point p of segment g is source ``g * points + p``; edges are ordered by row, then point. The
    graph is cached in ``segments``.
    """

    def build() -> Graph:
        """Return the edges to row i from all points of its segment."""
        point = torch.arange(points, device=segments.device)
        source = (segment_index(segments)[:, None] * points + point).flatten()
        row = torch.arange(segments.num_src, device=segments.device)
        destination = row.repeat_interleave(points)
        return lay_out(source, destination, (segments.num_dst * points, segments.num_src))

    return cached(segments, ("from_points", points), build)


def among_points(segments: Graph, points: int) -> Graph:
    """Return the graph in which all ``points`` nodes of a segment attend to each other.

    Point p of segment g is node ``g * points + p``; edges are ordered by destination, then source.
    The graph is cached in ``segments``.
    """

    def build() -> Graph:
        """Return the edges to each point from all points of its segment."""
        total = segments.num_dst * points
        node = torch.arange(total, device=segments.device)
        point = torch.arange(points, device=segments.device)
        offset = node - node % max(points, 1)
        source = (offset[:, None] + point).flatten()
        return lay_out(source, node.repeat_interleave(points), (total, total))

    return cached(segments, ("among_points", points), build)


def points_to_segments(segments: Graph, points: int) -> Graph:
    """Return the graph that connects the ``points`` nodes of each segment to the segment.

    Node p of segment g is source ``g * points + p``. The graph is cached in ``segments``.
    """

    def build() -> Graph:
        """Return the edges from all points of a segment to the segment."""
        total = segments.num_dst * points
        node = torch.arange(total, device=segments.device)
        return lay_out(node, node // max(points, 1), (total, segments.num_dst))

    return cached(segments, ("points_to_segments", points), build)


def lay_out(source: Tensor, destination: Tensor, size: tuple[int, int]) -> Graph:
    """Return the graph of these edges [e] with the size (m, n). Under torch.compile, only
    operations that it can trace are used, and the indices are not checked; otherwise, raises
    ValueError for an index out of range.
    """
    if torch.compiler.is_compiling():
        return Graph.from_layout(reference.build(source, destination, *size))
    return Graph(torch.stack([source, destination]), size)


def _within(segments: Graph) -> Graph:
    """Return the graph of all pairs of rows in the same segment, in the caller's numbering of the
    rows. Reads the sizes of the segments from the device.
    """
    layout = segments.layout
    sizes = layout.rowptr.diff().long()
    complete = graphs.complete(sizes.tolist(), device=segments.device)
    rows = torch.arange(segments.num_src, device=segments.device)
    if torch.equal(layout.col.long(), rows):
        return complete
    # The complete graphs number the rows in the order of their segments, so their edges are mapped
    # to the caller's order of the rows.
    pairs = layout.col.long()[complete.edge_index]
    return Graph(pairs, segments.num_src)


def _traced_within(segments: Graph, width: int | None) -> tuple[Graph, Tensor]:
    """Return a graph of n * width edges in which each row has ``width`` incoming edges, and its
    bias [n * width, 1]. The first edges come from the rows of the same segment, with bias 0; the
    others are padding with bias -inf.

    Only operations that torch.compile can trace are used. Raises ValueError if ``width`` is None; a
    segment of more than ``width`` rows fails on the device (``torch._assert_async``).
    """
    if width is None:
        raise ValueError(
            "under torch.compile and torch.export, max_num_elements (max_num_nodes of GPSConv) "
            "is required: the largest number of rows of a segment"
        )
    rowptr, rows = segments.layout.rowptr.long(), segments.num_src
    segment, row = segment_index(segments), torch.arange(rows, device=segments.device)
    first = rowptr[segment]
    size = rowptr[segment + 1] - first
    torch._assert_async((size <= width).all(), "a segment has more rows than max_num_elements")
    slot = torch.arange(width, device=segments.device)
    valid = slot < size[:, None]
    position = (first[:, None] + slot).clamp(max=max(rows - 1, 0))
    source = torch.where(valid, segments.layout.col.long()[position], row[:, None])
    graph = lay_out(source.flatten(), row.repeat_interleave(width), (rows, rows))
    bias = torch.zeros_like(valid, dtype=torch.float32).masked_fill(~valid, -torch.inf)
    return graph, bias.view(-1, 1)


@outside_transforms
def _segments(index_or_ptr: Tensor, ptr: Tensor | None, rows: int, segments: int | None) -> Graph:
    """Check ``index_or_ptr``, which is the index [n] if ``ptr`` is None and otherwise ``ptr`` [g +
    1], and return the graph that connects each row to its segment. Raises TypeError for another
    dtype, and ValueError for a wrong shape or an index out of range.
    """
    _check_type(index_or_ptr)
    segments = _count(index_or_ptr) if segments is None else segments
    _check(index_or_ptr, ptr, rows, segments)
    index = _row_segments(index_or_ptr, ptr, rows)
    row = torch.arange(rows, dtype=index.dtype, device=index.device)
    return lay_out(row, index, (rows, segments))


def _one_segment(rows: int, device: torch.device) -> Graph:
    """Return the graph that connects all rows to one segment. It is cached by the number of
    rows.
    """
    if torch.compiler.is_compiling():
        index = torch.zeros(rows, dtype=torch.int64, device=device)
        return Graph.from_layout(_traced_layout(index, 1))
    key = "one segment", rows, device
    return cached(None, key, lambda: graphs.bipartite([1], [rows], device=device))


def _count(index: Tensor) -> int:
    """Return the number of segments, 1 + the largest index of [n], or 0 without rows; read from the
    device. Raises ValueError under torch.export, which cannot read it.
    """
    if torch.compiler.is_exporting():
        raise ValueError(
            "torch.export cannot read the number of graphs from a tensor: pass dim_size to a "
            "readout or batch_size to a model"
        )
    return int(index.max()) + 1 if index.numel() > 0 else 0


def _row_segments(index: Tensor, ptr: Tensor | None, rows: int) -> Tensor:
    """Return the segment of each row, [n]: int64 from ptr or, if ptr is None, the index in its
    dtype.
    """
    if ptr is None:
        # Only PyG's class Index has this method.
        as_tensor = getattr(index, "as_tensor", None)
        return index if as_tensor is None else as_tensor()
    return owners(ptr, rows)


def _check_type(index_or_ptr: Tensor) -> None:
    if index_or_ptr.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"index and ptr must be int32 or int64; got {index_or_ptr.dtype}")


def _check(index: Tensor, ptr: Tensor | None, rows: int, segments: int) -> None:
    """Check that ``ptr`` [g + 1], or else ``index`` [n], assigns each row to one of the segments.
    Raises ValueError if it does not. Reads the bounds from the device.
    """
    if ptr is not None:
        bounds = ptr.tolist()
        if bounds[0] != 0 or bounds[-1] != rows or bounds != sorted(bounds):
            raise ValueError(f"ptr must rise from 0 to {rows}, the number of rows; got {ptr}")
    elif index.shape != (rows,):
        raise ValueError(f"index must have shape ({rows},); got {tuple(index.shape)}")
    elif rows:
        low, high = (int(bound) for bound in index.aminmax())
        if low < 0 or high >= segments:
            raise ValueError(f"index must be in [0, {segments}); got {low} to {high}")


def _traced_layout(index: Tensor, segments: int) -> Layout:
    """Compute the layout of the graph that connects each row to its segment, with operations that
    torch.compile can trace. An index out of range fails on the device (``torch._assert_async``).

    Args:
        index: segment of each row, [n].
        segments: number of segments.
    """
    rows = index.shape[0]
    dtype = index_dtype(rows, segments, rows)
    is_valid = ((index >= 0) & (index < segments)).all()
    torch._assert_async(is_valid, "index must be in [0, dim_size)")
    nodes = torch.arange(rows + 1, device=index.device)
    order = stable_argsort(index)
    position = torch.empty_like(order).index_copy(0, order, nodes[:-1]).to(dtype)
    rowptr = offsets(index[order], segments, dtype)
    order = order.to(dtype)
    return without_stats(rowptr, order, order, nodes.to(dtype), index.to(dtype), position)
