"""Segments: the bipartite graph from the nodes of a batch to the graphs that hold them."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.graph import Graph, _memory
from gattn.kernels.layout import Layout, index_dtype, offsets


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
            ptr puts all rows into one segment.
        ptr: [dim_size + 1] integers: segment i is the rows ptr[i] to ptr[i + 1]; read instead of
            index where both are given.
        dim_size: number of segments; without it ``index.max() + 1`` is read from the device.
        dim: the dimension of the rows, 0 or -2.

    Returns:
        A graph from n sources to dim_size destinations.

    Raises:
        ValueError: for another shape or dimension, or an index or ptr out of range.

    Example:
        >>> import torch
        >>> segment_graph(torch.randn(4, 8), torch.tensor([1, 0, 1, 1]), dim_size=3)
        Graph(num_src=4, num_dst=3, num_edges=4, device='cpu')
    """
    if x.dim() != 2 or dim not in (0, -2):
        raise ValueError(
            f"x must have shape (n, d) with dim 0 or -2; got {tuple(x.shape)} with dim {dim}"
        )
    rows = x.shape[0]
    if ptr is not None:
        name, segments = ptr, ptr.shape[0] - 1
    elif index is not None:
        name = index
        segments = _count(index) if dim_size is None else dim_size
    else:
        name, segments = x.new_zeros(rows, dtype=torch.int64), 1
    if dim_size is not None and dim_size != segments:
        raise ValueError(f"dim_size must be {segments}, one less than ptr holds; got {dim_size}")
    if torch.compiler.is_compiling():
        return Graph._from_layout(_traced_layout(_membership(name, ptr, rows), segments))
    graphs, key = _memory.lookup(name), ("segments", rows, segments, ptr is not None)
    graph = graphs.get(key)
    if graph is None:
        _check(name, ptr, rows, segments)
        member = _membership(name, ptr, rows)
        pairs = torch.stack([torch.arange(rows, dtype=member.dtype, device=x.device), member])
        graph = graphs[key] = Graph(pairs, (rows, segments))
    return graph


def zero_empty(out: Tensor, segments: Graph) -> Tensor:
    """Zero what was computed for segments without rows: out is [num_segments, ...]."""
    empty = segments.layout.rowptr.diff() == 0
    return out.masked_fill(empty.view(-1, *(1,) * (out.dim() - 1)), 0.0)


def _count(index: Tensor) -> int:
    return int(index.max()) + 1 if index.numel() > 0 else 0


def _membership(name: Tensor, ptr: Tensor | None, rows: int) -> Tensor:
    """Segment of each row, [n], from what names the segments."""
    if ptr is None:
        return name.as_tensor() if hasattr(name, "as_tensor") else name  # a PyG Index
    numbers = torch.arange(ptr.shape[0] - 1, device=ptr.device, dtype=ptr.dtype)
    return torch.repeat_interleave(numbers, ptr.diff(), output_size=rows)


def _check(name: Tensor, ptr: Tensor | None, rows: int, segments: int) -> None:
    if name.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"index and ptr must be int32 or int64; got {name.dtype}")
    if ptr is not None:
        bounds = ptr.tolist() if ptr.dim() == 1 else []
        if not bounds or bounds[0] != 0 or bounds[-1] != rows or bounds != sorted(bounds):
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
    torch._assert_async(inside, f"index must be in [0, {segments})")
    nodes = torch.arange(rows + 1, device=member.device)
    order = torch.argsort(member, stable=True)
    position = torch.empty_like(order).index_copy(0, order, nodes[:-1]).to(dtype)
    rowptr = offsets(member[order], segments, dtype)
    order = order.to(dtype)
    return Layout(rowptr, order, order, nodes.to(dtype), member.to(dtype), position)
