"""Functions that check edges and sort them into a layout, on any device and under torch.compile."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.graph.cache import outside_transforms
from gattn.kernels import cpu
from gattn.layout import layout as reference
from gattn.layout import onnx, stats
from gattn.layout.layout import Layout


@outside_transforms
def lay_out(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout:
    """Check edges [e] from ``num_src`` sources to ``num_dst`` destinations, and return their
    layout. Statistics, the maximum degrees, are measured only off the C++ kernels and if there are
    edges. Raises ValueError if an index is out of range; under torch.compile, the compiled code
    raises it.
    """
    layout = sort(source, destination, num_src, num_dst)
    # On other devices, the range of the indices is checked together with the degrees after sorting,
    # so that results are read from the device only once.
    if not _is_real(source) or cpu.serves(source.device) or source.numel() == 0:
        return layout
    return _check_and_measure(source, destination, layout, num_src, num_dst)


@outside_transforms
def sort(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout:
    """Compute the layout of edges [e], without statistics. The indices must be in range: the CPU
    kernel raises ValueError for others, and other devices do not check them.
    """
    is_real = _is_real(source)
    if onnx.exporting() or (is_real and not cpu.serves(source.device)):
        return reference.build(source, destination, num_src, num_dst)
    if not is_real:
        # The module of Graph, which imports this module, defines the operator.
        edges = torch.stack([source, destination])
        return Layout(*torch.ops.gattn.build_layout(edges, num_src, num_dst, None)[:7])
    layout = cpu.build_layout(source, destination, num_src, num_dst)
    if layout is None:
        check_range(source, num_src, "source")
        check_range(destination, num_dst, "destination")
        raise ValueError(
            "an edge index was out of range while sorting and was then changed by another thread"
        )
    return layout


@outside_transforms
def lay_out_rows(rowptr: Tensor, col: Tensor, perm: Tensor, num_src: int) -> Layout:
    """Compute the layout of valid edges that are already sorted by (destination, source).

    The three tensors have one dtype, int32 or int64, which is that of the layout.

    Args:
        rowptr: [n + 1], offset of the first edge of each destination.
        col: [e], sources, ascending within a destination.
        perm: [e], the caller's position of each edge.
        num_src: number of sources, m.
    """
    if cpu.serves(col.device):
        return cpu.lay_out_rows(rowptr, col, perm, num_src)
    return reference.from_rows(rowptr, col, perm, num_src)


def _is_real(index: Tensor) -> bool:
    """Return False for fake, meta and traced tensors, which have no values."""
    fake = index.is_meta or isinstance(index, torch_internals.FakeTensor)
    return not (fake or torch.compiler.is_compiling())


def _check_and_measure(
    source: Tensor, destination: Tensor, layout: Layout, num_src: int, num_dst: int
) -> Layout:
    """Check the indices [e] of at least one edge, and return the layout with the maximum degrees;
    the device is synchronised only once. Raises ValueError if an index is out of range.
    """
    degrees = stats.max_row_size(layout.rowptr), stats.max_row_size(layout.colptr)
    scalars = *source.aminmax(), *destination.aminmax(), *degrees
    values = torch.stack([scalar.long() for scalar in scalars]).tolist()
    low, last_source, low_destination, last_destination, max_in, max_out = values
    if min(low, low_destination) < 0 or last_source >= num_src or last_destination >= num_dst:
        check_range(source, num_src, "source")
        check_range(destination, num_dst, "destination")
    return stats.with_stats(layout, max_in, max_out)


def check_range(index: Tensor, size: int, role: str) -> None:
    """Raise ValueError unless all indices, [e] of an integer dtype, are in [0, size); the error
    names the first invalid edge.
    """
    # The indices are converted to int64, because the size may be too large for their dtype.
    index = index.long()
    outside = ((index < 0) | (index >= size)).nonzero()
    if outside.numel() == 0:
        return
    position = int(outside[0])
    raise ValueError(
        f"{role} indices must be in [0, {size}); got {int(index[position])} at edge {position}"
    )
