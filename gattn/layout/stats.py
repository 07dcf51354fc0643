"""Statistics of a layout, such as its maximum degree, as a few integers on the CPU.

Launchers use the statistics to choose a kernel and the number of programs. Reading them from a
device would be slow, so they are on the CPU. The layout of a Graph has SIZE statistics; each is
UNKNOWN until it is measured and written in place. Layouts that compiled code builds have no
statistics, because such code may later write another layout into the same tensors.

The last element stores ``data_ptr()`` of the tensor, so that a copy can be recognised and ignored:
a CUDA graph recorded by torch.compile copies its inputs once and later runs with other values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.layout.layout import Layout

MAX_IN_DEGREE, MAX_OUT_DEGREE, ADDRESS = range(3)
"""Index of each statistic: maximum in-degree, maximum out-degree, and address of the statistics
tensor.
"""
SIZE = 3
UNKNOWN = -1


def with_stats(
    layout: Layout,
    max_in_degree: int = UNKNOWN,
    max_out_degree: int = UNKNOWN,
) -> Layout:
    """Return the layout with new statistics. In compiled code and for fake tensors, return it
    unchanged.
    """
    if torch.compiler.is_compiling() or isinstance(layout.rowptr, torch_internals.FakeTensor):
        return layout
    stats = torch.empty(SIZE, dtype=torch.int64, device="cpu")
    stats.numpy()[:] = max_in_degree, max_out_degree, stats.data_ptr()
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
    """Write a statistic in place, without incrementing torch's version counter. Statistics that
    :func:`are_valid` rejects are left unchanged.
    """
    if are_valid(stats):
        stats.numpy()[position] = value


def max_degree(layout: Layout, transposed: bool = False) -> int | None:
    """Return an upper bound of the in-degrees, or of the out-degrees if ``transposed`` is true.

    An unknown bound is measured on a CPU and stored in the layout. The result is None if measuring
    it would wait for a device, or if the layout has no statistics.
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
