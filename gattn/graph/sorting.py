"""Edges sorted into a layout: checked, on any device, and as one operator in compiled code."""

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
    """Check edges and lay them out; compiled code does both in one operator."""
    if not _is_real(source):
        return sort(source, destination, num_src, num_dst)
    layout = sort(source, destination, num_src, num_dst)
    if cpu.serves(source.device) and not onnx.exporting():
        return layout
    # What is out of range has been sorted, too.
    if source.numel() == 0:
        return layout
    return _read_at_once(source, destination, layout, num_src, num_dst)


@outside_transforms
def sort(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout:
    """Lay out edges that are within range, or will be checked; on a CPU they are checked here."""
    if onnx.exporting():
        return reference.build(source, destination, num_src, num_dst)
    if not _is_real(source):
        return Layout(*_build_traced(source, destination, num_src, num_dst))
    if not cpu.serves(source.device):
        return reference.build(source, destination, num_src, num_dst)
    layout = cpu.build_layout(source, destination, num_src, num_dst)
    if layout is None:
        check_range(source, num_src, "source")
        check_range(destination, num_dst, "destination")
        raise ValueError("an edge was out of range when it was read, and has been written since")
    return layout


@outside_transforms
def lay_out_rows(rowptr: Tensor, col: Tensor, perm: Tensor, num_src: int) -> Layout:
    """Lay out edges within range that are sorted by (destination, source): nothing is sorted.

    Args:
        rowptr: [n + 1], where the edges of each destination begin.
        col: [e], their sources, ascending within a destination.
        perm: [e], the caller's position of each edge.
        num_src: m.
    """
    if cpu.serves(col.device):
        return cpu.lay_out_rows(rowptr, col, perm, num_src)
    return reference.from_rows(rowptr, col, perm, num_src)


def _is_real(index: Tensor) -> bool:
    """Whether there are numbers to sort; where only shapes are computed, the operator serves."""
    fake = index.is_meta or isinstance(index, torch_internals.FakeTensor)
    return not (fake or torch.compiler.is_compiling())


def _read_at_once(
    source: Tensor, destination: Tensor, layout: Layout, num_src: int, num_dst: int
) -> Layout:
    """Check the indices and note the largest degrees: one wait for the device."""
    degrees = stats.largest(layout.rowptr), stats.largest(layout.colptr)
    read = *source.aminmax(), *destination.aminmax(), *degrees
    found = torch.stack([number.long() for number in read]).tolist()
    if min(found[0], found[2]) < 0 or found[1] >= num_src or found[3] >= num_dst:
        check_range(source, num_src, "source")
        check_range(destination, num_dst, "destination")
    return stats.with_facts(layout, found[4], found[5])


@torch.library.custom_op(
    "gattn::build_layout",
    mutates_args=(),
    schema="(Tensor source, Tensor destination, SymInt num_src, SymInt num_dst) -> Tensor[]",
)
def _build_traced(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> list[Tensor]:
    """Layout-building as an operator: what torch.compile records for bare edges."""
    layout = lay_out(source, destination, num_src, num_dst)
    if layout.col.dtype != torch.int32:
        raise ValueError(
            f"compiled code lays out fewer than {reference.INT32_END} nodes and edges; got "
            f"{source.numel()} edges, size ({num_src}, {num_dst}): prepare a Graph outside"
        )
    return [*layout[:6], *_nothing_known(source)]


@_build_traced.register_fake
def _(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> list[Tensor]:
    edges = source.shape[0]
    sizes = num_dst + 1, edges, edges, num_src + 1, edges, edges
    indices = (source.new_empty(size, dtype=torch.int32) for size in sizes)
    return [*indices, *_nothing_known(source)]


def _nothing_known(source: Tensor) -> tuple[Tensor, Tensor]:
    """The last fields of a layout that compiled code makes: new tensors, as an operator returns."""
    return source.new_empty(0, dtype=torch.int64), source.new_empty(0, dtype=torch.int32)


def check_range(index: Tensor, size: int, role: str) -> None:
    """Raise unless every index is in [0, size); the error names the first edge that is not."""
    index = index.long()  # else the size may not fit
    outside = ((index < 0) | (index >= size)).nonzero()
    if outside.numel() == 0:
        return
    position = int(outside[0])
    raise ValueError(
        f"{role} indices must be in [0, {size}); got {int(index[position])} at edge {position}"
    )
