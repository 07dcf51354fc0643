"""Sets of nodes in either form: a row for each node, or padded, as PyG's attention has them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.nn.common.checks import check_tensor
from gattn.nn.common.segments import members, segment_graph


class Sets(NamedTuple):
    """Rows, which of them are nodes, and the set of each."""

    rows: Tensor
    """[n, d]; zeros where there is no node."""
    segments: Graph
    """One edge from each row to its set."""
    mask: Tensor | None
    """[n, 1], whether a row is a node; None where all are."""
    shape: torch.Size
    """Of what was given, but for its features."""

    def hide(self, x: Tensor) -> Tensor:
        """Zeros in place of rows [n, ...] that are no nodes."""
        if self.mask is None:
            return x
        return x.masked_fill(~self.mask.view(-1, *(1,) * (x.dim() - 1)), 0.0)

    def sizes(self, like: Tensor) -> Tensor:
        """The number of nodes in each row's set, [n], in the dtype of a tensor."""
        if self.mask is None:
            sizes = self.segments.layout.rowptr.diff()
        else:
            sizes = self.mask.view(self.shape).sum(1)
        return sizes.to(like.dtype)[members(self.segments)]

    def restore(self, out: Tensor) -> Tensor:
        """Rows [n, c] in the form that was given; zeros where there is no node."""
        return self.hide(out).unflatten(0, self.shape) if len(self.shape) == 2 else out


def read_sets(
    x: Tensor,
    mask: Tensor | None = None,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
) -> Sets:
    """The rows of x by their sets.

    Args:
        x: [n, d], or [g, n, d] where each set has as many rows, of which some may be padding.
        mask: [g, n] booleans, which rows are nodes; for a padded x alone.
        index: [n], the set of each row, as in :func:`gattn.nn.common.segments.segment_graph`.
        ptr: [g + 1], where each set begins, instead of index.
        dim_size: number of sets.

    Raises:
        TypeError: for other than tensors, or a mask that is not of booleans.
        ValueError: for another shape, or arguments that go with the other form.
    """
    check_tensor("x", x)
    if x.dim() != 3:
        if mask is not None:
            raise ValueError(f"mask goes with x of shape (g, n, d); got {tuple(x.shape)}")
        return Sets(x, segment_graph(x, index, ptr, dim_size), None, x.shape[:1])
    if any(supplied is not None for supplied in (index, ptr, dim_size)):
        raise ValueError(f"index, ptr and dim_size go with x of shape (n, d); got {tuple(x.shape)}")
    sets, width = x.shape[:2]
    if mask is not None:
        check_tensor("mask", mask)
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must hold booleans; got {mask.dtype}")
        if mask.shape != x.shape[:2]:
            raise ValueError(f"mask must have shape {(sets, width)}; got {tuple(mask.shape)}")
        mask = mask.reshape(-1, 1)
    rows = x.flatten(0, 1)
    number = torch.arange(sets, device=x.device).repeat_interleave(width)
    result = Sets(rows, segment_graph(rows, number, dim_size=sets), mask, x.shape[:2])
    return result._replace(rows=result.hide(rows))
