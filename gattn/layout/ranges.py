"""Layouts of graphs in which the sources of each destination are consecutive nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.layout.layout import Layout, index_dtype, without_stats


def build(first: Tensor, last: Tensor, num_src: int, num_edges: int) -> Layout:
    """Compute the layout of a graph in which node i has edges from the sources first[i] to last[i]
    - 1.

    Both bounds are [n] int64 and ascend with i, and ``num_edges`` is the sum of last - first. The
    edges are ordered by (destination, source), which is also the caller's order. The destinations
    of a source j are also a range: it starts at the smallest i with last[i] > j, and ends before
    the smallest i with first[i] > j. Only a few temporaries of [e] are needed.
    """
    num_dst = first.numel()
    dtype = index_dtype(num_src, num_dst, num_edges)
    sources = torch.arange(num_src, device=first.device)
    begin = torch.searchsorted(last, sources, right=True)
    end = torch.searchsorted(first, sources, right=True)
    edge = torch.arange(num_edges, dtype=dtype, device=first.device)
    rowptr, col = _members(first, last, edge)
    colptr, row = _members(begin, end, edge)
    # The edge j -> i has the CSR position start[i] + j.
    start = (rowptr[:-1] - first).to(dtype)
    csr2csc = torch.index_select(start, 0, row)
    csr2csc += torch.repeat_interleave(sources.to(dtype), colptr.diff(), output_size=num_edges)
    return without_stats(rowptr, col, edge, colptr, row, csr2csc)


def _members(first: Tensor, last: Tensor, edge: Tensor) -> tuple[Tensor, Tensor]:
    """Return the offsets [n + 1] of the nodes' source ranges, and all sources in these ranges, [e],
    in the dtype of ``edge``, which contains the numbers 0 to e - 1.
    """
    count = last - first
    offsets = torch.zeros(count.numel() + 1, dtype=edge.dtype, device=edge.device)
    torch.cumsum(count, 0, out=offsets[1:])
    shift = (first - offsets[:-1]).to(edge.dtype)
    members = torch.repeat_interleave(shift, count.to(edge.dtype), output_size=edge.numel())
    return offsets, members.add_(edge)
