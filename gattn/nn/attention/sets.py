"""Sets of nodes in two formats: with one row per node, or padded to equal sizes as in PyG."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.nn.common.checks import check_tensor
from gattn.nn.common.segments import segment_graph, segment_index


class Sets(NamedTuple):
    """Rows that belong to several sets. It stores the set of each row, and a mask if there is
    padding.
    """

    rows: Tensor
    """Features of the rows, [n, d]. Rows of padding are zero."""
    segments: Graph
    """Graph with one edge from each row to the set that contains it."""
    mask: Tensor | None
    """Mask of the rows, [n, 1]: True for nodes and False for padding; None without padding."""
    shape: torch.Size
    """Shape of the input tensor without its last dimension."""

    def zero_padding(self, x: Tensor) -> Tensor:
        """Set the rows of x, [n, ...], that are padding to zero."""
        if self.mask is None:
            return x
        return x.masked_fill(~self.mask.view(-1, *(1,) * (x.dim() - 1)), 0.0)

    def sizes(self, like: Tensor) -> Tensor:
        """Return for each of n rows the number of nodes in its set, [n], in the dtype of
        ``like``.
        """
        if self.mask is None:
            sizes = self.segments.layout.rowptr.diff()
        else:
            sizes = self.mask.view(self.shape).sum(1)
        return sizes.to(like.dtype)[segment_index(self.segments)]

    def restore(self, out: Tensor) -> Tensor:
        """Convert rows [n, c] to the format of the input tensor, with zeros in padding."""
        return self.zero_padding(out).unflatten(0, self.shape) if len(self.shape) == 2 else out


def read_sets(
    x: Tensor,
    mask: Tensor | None = None,
    index: Tensor | None = None,
    ptr: Tensor | None = None,
    dim_size: int | None = None,
) -> Sets:
    """Check the inputs of an attention within sets, and flatten padded sets to [g * n, d].

    Args:
        x: one row per node, [n, d], or padded sets [g, n, d].
        mask: [g, n] booleans, True for rows that are nodes; allowed for a padded x only.
        index: [n], the set of each row, as in :func:`gattn.nn.common.segments.segment_graph`.
        ptr: [g + 1], the index of each set's first row, in place of index.
        dim_size: number of sets.

    Returns:
        The rows with their sets, and the format to restore. Rows of padding remain among them, as
        zeros, and the mask marks the others.

    Raises:
        TypeError: for inputs that are not tensors, or a mask that is not boolean.
        ValueError: for a wrong shape, or arguments that belong to the other format.
        RuntimeError: under torch.jit.trace.
    """
    check_tensor("x", x)
    if x.dim() != 3:
        if mask is not None:
            raise ValueError(f"mask is only for x of shape (g, n, d); got {tuple(x.shape)}")
        return Sets(x, segment_graph(x, index, ptr, dim_size), None, x.shape[:1])
    if any(argument is not None for argument in (index, ptr, dim_size)):
        raise ValueError(
            f"index, ptr and dim_size are only for x of shape (n, d); got {tuple(x.shape)}"
        )
    sets, width = x.shape[:2]
    if mask is not None:
        check_tensor("mask", mask)
        if mask.dtype != torch.bool:
            raise TypeError(f"mask must contain booleans; got {mask.dtype}")
        if mask.shape != x.shape[:2]:
            raise ValueError(f"mask must have shape {(sets, width)}; got {tuple(mask.shape)}")
        mask = mask.reshape(-1, 1)
    rows = x.flatten(0, 1)
    row_set = torch.arange(sets, device=x.device).repeat_interleave(width)
    padded = Sets(rows, segment_graph(rows, row_set, dim_size=sets), mask, x.shape[:2])
    return padded._replace(rows=padded.zero_padding(rows))
