"""Layout of edges: index tensors in CSR order (by destination) and in CSC order (by source)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gattn.layout import onnx

INT32_END = 2**31 - 2**16
"""For at least this number of nodes or edges, indices are int64. It is below 2**31, because
kernels may count beyond the last edge to the end of a tile.
"""


class Layout(NamedTuple):
    """Edges in two orders, (destination, source) and (source, destination), as tensors.

    The *CSR position* of an edge is its index in the first order, and its *CSC position* the index
    in the second order. The canonical number of an edge is its CSR position.
    """

    rowptr: Tensor
    """CSR offsets [n + 1]: the edges into destination i are at the CSR positions rowptr[i] to
    rowptr[i + 1] - 1.
    """
    col: Tensor
    """For each CSR position, the source of its edge: [e]."""
    perm: Tensor
    """For each CSR position, the index of its edge in the caller's order: [e]."""
    colptr: Tensor
    """CSC offsets [m + 1]: the edges that leave source j are at the CSC positions colptr[j] to
    colptr[j + 1] - 1.
    """
    row: Tensor
    """For each CSC position, the destination of its edge: [e]."""
    csr2csc: Tensor
    """For each CSC position, the CSR position of its edge: [e]."""
    stats: Tensor
    """Statistics as an int64 tensor on the CPU (see :mod:`gattn.layout.stats`); empty if there
    are none.
    """

    def destinations(self) -> Tensor:
        """Return the destination of the edge at every CSR position: [e] int64."""
        return owners(self.rowptr, self.col.numel())

    def transpose(self) -> "Layout":
        """Return the layout of the reversed edges, without statistics; the caller's order of edges
        is unchanged.
        """
        inverse = torch.empty_like(self.csr2csc)
        inverse[self.csr2csc.long()] = torch.arange(
            self.col.numel(), dtype=self.csr2csc.dtype, device=self.csr2csc.device
        )
        perm = self.perm[self.csr2csc.long()]
        return without_stats(self.colptr, self.row, perm, self.rowptr, self.col, inverse)

    def incidence(self) -> "Layout":
        """Return the layout of the bipartite graph that connects each edge to its destination,
        without statistics. Sources are the edges, in the caller's order, in which the new edge k
        leads from the source k.
        """
        perm, order = self.perm, self.perm.long()
        number = torch.arange(perm.numel() + 1, dtype=perm.dtype, device=perm.device)
        row = torch.empty_like(perm).index_copy(0, order, self.destinations().to(perm.dtype))
        position = torch.empty_like(perm).index_copy(0, order, number[:-1])
        return without_stats(self.rowptr, perm, perm, number, row, position)


def without_stats(
    rowptr: Tensor, col: Tensor, perm: Tensor, colptr: Tensor, row: Tensor, csr2csc: Tensor
) -> Layout:
    """Return the layout of these tensors (see :class:`Layout`), with empty statistics."""
    empty = rowptr.new_empty(0, dtype=torch.int64)
    return Layout(rowptr, col, perm, colptr, row, csr2csc, empty)


def num_rows(offsets: Tensor) -> int:
    """Return the number of rows of a layout, given its offsets.

    The number is n for rowptr and m for colptr. This is a function instead of a property of Layout,
    because some supported versions of torch.compile cannot read properties of named tuples.
    """
    return offsets.numel() - 1


def index_dtype(num_src: int, num_dst: int, num_edges: int) -> torch.dtype:
    """Return int32 if it can represent the indices of all nodes and edges, otherwise int64; always
    int64 during an export to ONNX.

    For symbolic sizes, as under torch.compile, it is int32, because comparing sizes would
    specialise the trace to them. The traced code asserts at run time that the sizes fit.
    """
    # ONNX operators require int64 indices
    if onnx.exporting():
        return torch.int64
    sizes = num_src, num_dst, num_edges
    symbols: list[Any] = [size for size in sizes if isinstance(size, torch.SymInt)]
    for size in symbols:
        fits = torch.scalar_tensor(size, dtype=torch.int64) < INT32_END
        torch._assert_async(fits, f"compiled code lays out fewer than {INT32_END} edges")
    return torch.int32 if symbols or max(sizes) < INT32_END else torch.int64


def build(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout:
    """Return the layout of edges [e], sorted with torch's stable sort, without statistics; the
    indices are not checked. This is the reference for the C++ counting sort.
    """
    dtype = index_dtype(num_src, num_dst, source.numel())
    by_source = stable_argsort(source)
    perm = by_source[stable_argsort(destination[by_source])]
    col, row = source[perm], destination[perm]
    csr2csc = stable_argsort(col)
    return without_stats(
        rowptr=offsets(row, num_dst, dtype),
        col=col.to(dtype),
        perm=perm.to(dtype),
        colptr=offsets(col[csr2csc], num_src, dtype),
        row=row[csr2csc].to(dtype),
        csr2csc=csr2csc.to(dtype),
    )


def from_rows(rowptr: Tensor, col: Tensor, perm: Tensor, num_src: int) -> Layout:
    """Compute the layout of edges that are sorted by (destination, source).

    The three tensors have one dtype, int32 or int64, which is that of the layout.

    Args:
        rowptr: [n + 1], CSR offsets of the destinations.
        col: [e], sources, ascending within a destination.
        perm: [e], index of each edge in the caller's order.
        num_src: number of sources, m.
    """
    csr2csc = stable_argsort(col)
    row = owners(rowptr, col.numel())[csr2csc]
    colptr = offsets(col[csr2csc], num_src, col.dtype)
    return without_stats(rowptr, col, perm, colptr, row.to(col.dtype), csr2csc.to(col.dtype))


def stable_argsort(index: Tensor) -> Tensor:
    """Return the indices that sort the values in ascending order with a stable sort: [e] int64.

    ONNX sorts with its TopK operator, which is specified to put the first of equal values first.
    """
    return torch.argsort(index) if onnx.exporting() else torch.argsort(index, stable=True)


def offsets(sorted_index: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Return, for each value from 0 to size, the number of smaller entries of a sorted index, which
    is the first position of the value: [size + 1].
    """
    # ONNX has no operator for binary search
    if onnx.exporting():
        ones = torch.ones_like(sorted_index, dtype=torch.int64)
        counts = ones.new_zeros(size + 1).index_add(0, sorted_index.long() + 1, ones)
        return counts.cumsum(0).to(dtype)
    bounds = torch.arange(size + 1, device=sorted_index.device, dtype=sorted_index.dtype)
    return torch.searchsorted(sorted_index, bounds).to(dtype)


def owners(offsets: Tensor, total: int) -> Tensor:
    """Return the row that contains each of the positions 0 to total - 1, given the offsets of the
    rows: [total] int64.

    The row i of a position p has offsets[i] <= p < offsets[i + 1].
    """
    # The ONNX operator that repeats elements needs constant counts.
    if onnx.exporting():
        ends = offsets[1:].long()
        counts = ends.new_zeros(total + 1).index_add(0, ends, torch.ones_like(ends))
        return counts.cumsum(0)[:total]
    rows = torch.arange(num_rows(offsets), device=offsets.device)
    return torch.repeat_interleave(rows, offsets.diff(), output_size=total)
