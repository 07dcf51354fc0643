"""Layouts known without sorting: the sources of each destination are a run of consecutive nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.kernels.layout import Layout, index_dtype


def build(first: Tensor, last: Tensor, num_src: int, num_edges: int) -> Layout:
    """Lay out the edges j -> i for first[i] <= j < last[i]; both bounds ascend with i.

    The edges are numbered by (destination, source). Reads the two bounds, [n] int64, and writes
    the layout, with a few temporaries of [e]. Since the bounds ascend, the destinations of a
    source are a run too: from the first i with last[i] > j to the first with first[i] > j.
    """
    num_dst = first.numel()
    dtype = index_dtype(num_src, num_dst, num_edges)
    sources = torch.arange(num_src, device=first.device)
    begin = torch.searchsorted(last, sources, right=True)
    end = torch.searchsorted(first, sources, right=True)
    rowptr, col = _enumerate(first, last, num_edges, dtype)
    colptr, row = _enumerate(begin, end, num_edges, dtype)
    start = (rowptr[:-1] - first).to(dtype)  # CSR position of j -> i is start[i] + j
    of_source = torch.repeat_interleave(sources.to(dtype), colptr.diff(), output_size=num_edges)
    edge = torch.arange(num_edges, dtype=dtype, device=first.device)
    return Layout(rowptr, col, edge, colptr, row, of_source.add_(start[row]))


def _enumerate(
    first: Tensor, last: Tensor, num_edges: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Offsets of the runs, [n + 1], and their members one after another, [e]."""
    count = last - first
    offsets = torch.zeros(count.numel() + 1, dtype=torch.int64, device=count.device)
    torch.cumsum(count, 0, out=offsets[1:])
    shift = (first - offsets[:-1]).to(dtype)
    members = torch.repeat_interleave(shift, count, output_size=num_edges)
    members += torch.arange(num_edges, dtype=dtype, device=count.device)
    return offsets.to(dtype), members
