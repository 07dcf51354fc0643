"""Segments: the bipartite graph from the nodes of a batch to the graphs that hold them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.aggr import Aggregation

from gattn import graphs
from gattn.graph import Graph
from gattn.graph.cache import cached, outside_transforms
from gattn.graph.edge_input import check_count, check_made_outside, check_not_traced
from gattn.layout import layout as reference
from gattn.layout.layout import Layout, index_dtype, offsets, owners, stable_argsort, without_stats
from gattn.nn.common.checks import check_tensor


class Readout(Aggregation):
    """What sums up sets of rows, as PyG calls it; anything but tensors gets one clear error."""

    def __call__(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        **options: Any,
    ) -> Tensor:
        """Sum up the rows of each set, as :func:`segment_graph` reads them.

        PyG's own call would make an index where there is none, and read the device for its size.
        """
        _check_tensors(x, index, ptr)
        supplied = {"index": index, "ptr": ptr, "dim_size": dim_size, "dim": dim}
        return Module.__call__(self, x, **supplied, **options)


def _check_tensors(x: Any, index: Any, ptr: Any) -> None:
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
    """The graph with one edge from every row of x to the segment that holds it.

    Edge j is that of row j, so that per-edge tensors are per-row tensors. The graph is remembered
    for the very tensor that names the segments, as :func:`gattn.graph.as_graph` remembers edges.

    Args:
        x: [n, d], the rows; only its shape and device are read.
        index: [n] integers in [0, dim_size): the segment of each row, in any order; None with no
            ptr puts all rows into the first segment, by default the only one.
        ptr: [dim_size + 1] integers: segment i is the rows ptr[i] to ptr[i + 1]; read instead of
            index where both are given.
        dim_size: number of segments; without it ``index.max() + 1`` is read from the device.
        dim: the dimension of the rows, 0 or -2.

    Returns:
        A graph from n sources to dim_size destinations.

    Raises:
        TypeError: for other than tensors, or an index or ptr that is not int32 or int64.
        ValueError: for another shape or dimension, or an index or ptr out of range.

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
    name, segments = index, dim_size
    if ptr is not None:
        name, segments = ptr, ptr.shape[0] - 1
        if dim_size is not None and dim_size != segments:
            raise ValueError(f"dim_size must be {segments}, one less than ptr has; got {dim_size}")
    assert name is not None
    if torch.compiler.is_compiling():
        segments = _count(name) if segments is None else segments
        return Graph.from_layout(_traced_layout(_membership(name, ptr, rows), segments))
    check_made_outside("index and ptr", name)
    key = "segments", rows, segments, ptr is not None
    return cached(name, key, lambda: _segments(name, ptr, rows, segments))


def members(segments: Graph) -> Tensor:
    """The segment of each row: [n] int64."""
    return segments.layout.row.long()


def zero_empty(out: Tensor, segments: Graph) -> Tensor:
    """Zero what was computed for segments without rows: out is [num_segments, ...]."""
    empty = segments.layout.rowptr.diff() == 0
    return out.masked_fill(empty.view(-1, *(1,) * (out.dim() - 1)), 0.0)


def within(segments: Graph, width: int | None = None) -> tuple[Graph, Tensor | None]:
    """The graph on which every row attends to all rows of its segment.

    Under torch.compile the number of such edges is not known; there each row gets ``width``
    slots, and the second result, [e, 1], is the bias that drops those in excess (0 or -inf).
    """
    if torch.compiler.is_compiling():
        return _traced_within(segments, width)
    return cached(segments, "within", lambda: _within(segments)), None


def from_points(segments: Graph, points: int) -> Graph:
    """The graph from ``points`` sources per segment to every row of the segment.

    Point p of segment g is source ``g * points + p``; edges are ordered by row, then point.
    """

    def build() -> Graph:
        number = torch.arange(points, device=segments.device)
        source = (members(segments)[:, None] * points + number).flatten()
        row = torch.arange(segments.num_src, device=segments.device)
        destination = row.repeat_interleave(points)
        return lay_out(source, destination, (segments.num_dst * points, segments.num_src))

    return cached(segments, ("from_points", points), build)


def among_points(segments: Graph, points: int) -> Graph:
    """The graph on which the ``points`` nodes of each segment attend to one another."""

    def build() -> Graph:
        total = segments.num_dst * points
        node = torch.arange(total, device=segments.device)
        number = torch.arange(points, device=segments.device)
        first = node - node % max(points, 1)
        source = (first[:, None] + number).flatten()
        return lay_out(source, node.repeat_interleave(points), (total, total))

    return cached(segments, ("among_points", points), build)


def of_points(segments: Graph, points: int) -> Graph:
    """The graph from the ``points`` nodes of each segment to the segment, nodes in its order."""

    def build() -> Graph:
        total = segments.num_dst * points
        node = torch.arange(total, device=segments.device)
        return lay_out(node, node // max(points, 1), (total, segments.num_dst))

    return cached(segments, ("of_points", points), build)


def lay_out(source: Tensor, destination: Tensor, size: tuple[int, int]) -> Graph:
    """The graph of these edges; in operations that can be traced where that is called for."""
    if torch.compiler.is_compiling():
        return Graph.from_layout(reference.build(source, destination, *size))
    return Graph(torch.stack([source, destination]), size)


def _within(segments: Graph) -> Graph:
    layout = segments.layout
    sizes = layout.rowptr.diff().long()
    complete = graphs.complete(sizes.tolist(), device=segments.device)
    rows = torch.arange(segments.num_src, device=segments.device)
    if torch.equal(layout.col.long(), rows):
        return complete
    pairs = layout.col.long()[complete.edge_index]  # the rows in the order of their segments
    return Graph(pairs, segments.num_src)


def _traced_within(segments: Graph, width: int | None) -> tuple[Graph, Tensor]:
    if width is None:
        raise ValueError(
            "under torch.compile and torch.export, max_num_elements (of GPSConv and "
            "GraphTransformerLayer max_num_nodes) must be given: the most rows of any segment"
        )
    rowptr, rows = segments.layout.rowptr.long(), segments.num_src
    member, row = members(segments), torch.arange(rows, device=segments.device)
    first = rowptr[member]
    size = rowptr[member + 1] - first
    torch._assert_async((size <= width).all(), "a segment has more rows than max_num_elements")
    slot = torch.arange(width, device=segments.device)
    valid = slot < size[:, None]
    place = (first[:, None] + slot).clamp(max=max(rows - 1, 0))
    source = torch.where(valid, segments.layout.col.long()[place], row[:, None])
    graph = lay_out(source.flatten(), row.repeat_interleave(width), (rows, rows))
    bias = torch.zeros_like(valid, dtype=torch.float32).masked_fill(~valid, -torch.inf)
    return graph, bias.view(-1, 1)


@outside_transforms
def _segments(name: Tensor, ptr: Tensor | None, rows: int, segments: int | None) -> Graph:
    """Check what names the segments, and lay them out."""
    _check_type(name)
    segments = _count(name) if segments is None else segments
    _check(name, ptr, rows, segments)
    member = _membership(name, ptr, rows)
    row = torch.arange(rows, dtype=member.dtype, device=member.device)
    return lay_out(row, member, (rows, segments))


def _one_segment(rows: int, device: torch.device) -> Graph:
    """All rows in one segment: for a number of rows the same graph each time."""
    if torch.compiler.is_compiling():
        member = torch.zeros(rows, dtype=torch.int64, device=device)
        return Graph.from_layout(_traced_layout(member, 1))
    key = "one segment", rows, device
    return cached(None, key, lambda: graphs.bipartite([1], [rows], device=device))


def _count(index: Tensor) -> int:
    if torch.compiler.is_exporting():
        raise ValueError(
            "torch.export fixes what is read from a tensor: give the number of graphs, as dim_size "
            "of a readout or as batch_size of a model"
        )
    return int(index.max()) + 1 if index.numel() > 0 else 0


def _membership(name: Tensor, ptr: Tensor | None, rows: int) -> Tensor:
    """Segment of each row, [n], from what names the segments."""
    if ptr is None:
        as_tensor = getattr(name, "as_tensor", None)  # a PyG Index
        return name if as_tensor is None else as_tensor()
    return owners(ptr, rows)


def _check_type(name: Tensor) -> None:
    if name.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"index and ptr must be int32 or int64; got {name.dtype}")


def _check(name: Tensor, ptr: Tensor | None, rows: int, segments: int) -> None:
    if ptr is not None:
        bounds = ptr.tolist()
        if bounds[0] != 0 or bounds[-1] != rows or bounds != sorted(bounds):
            raise ValueError(f"ptr must rise from 0 to {rows}, the number of rows; got {ptr}")
    elif name.shape != (rows,):
        raise ValueError(f"index must have shape ({rows},); got {tuple(name.shape)}")
    elif rows:
        low, high = (int(bound) for bound in name.aminmax())
        if low < 0 or high >= segments:
            raise ValueError(f"index must be in [0, {segments}); got {low} to {high}")


def _traced_layout(member: Tensor, segments: int) -> Layout:
    """The layout in operations that torch.compile can trace: nothing is read back."""
    rows = member.shape[0]
    dtype = index_dtype(rows, segments, rows)
    inside = ((member >= 0) & (member < segments)).all()
    torch._assert_async(inside, "index must be in [0, dim_size)")
    nodes = torch.arange(rows + 1, device=member.device)
    order = stable_argsort(member)
    position = torch.empty_like(order).index_copy(0, order, nodes[:-1]).to(dtype)
    rowptr = offsets(member[order], segments, dtype)
    order = order.to(dtype)
    return without_stats(rowptr, order, order, nodes.to(dtype), member.to(dtype), position)
