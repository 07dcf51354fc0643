"""Graphs of grids, for attention on images, video and volumes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.edge_input import check_count
from gattn.graphs.blocks import Device

Neighbourhood = int | Sequence[Sequence[int]]


def grid(
    shape: Sequence[int], neighbourhood: Neighbourhood, *, batch: int = 1, device: Device = None
) -> Graph:
    r"""Build a graph in which every cell of a grid attends to the cells in its neighbourhood.

    .. math:: p + o \to p \quad\text{for offsets } o \text{ of the neighbourhood, inside the grid}

    Args:
        shape: number of cells along each axis, such as (length,), (height, width) or (depth,
            height, width). Cells are numbered in row-major order, as by ``x.flatten()``.
        neighbourhood: radius of a square window around the cell; or a sequence of offsets, tuples
            with one int per axis, such as :func:`window_offsets` returns.
        batch: number of grids.
        device: device of the graph.

    Returns:
        The graph of batch * prod(shape) nodes; edges ordered by destination, then by offset in
        the order of the neighbourhood (row-major for a radius). Cells on the border have fewer
        neighbours: there is no padding.

    Raises:
        TypeError: shape, neighbourhood or batch has a wrong type.
        ValueError: a length, radius or batch is negative, there is no axis or no offset, or offsets
            have the wrong number of axes.

    Reference:
        Ramachandran et al., "Stand-alone self-attention in vision models" (NeurIPS 2019).

    Example:
        >>> from gattn import graphs
        >>> graphs.grid((8, 8), 1)
        Graph(num_src=64, num_dst=64, num_edges=484, device='cpu')
        >>> graphs.grid((3,), [(0,), (-1,)]).edge_index
        tensor([[0, 1, 0, 2, 1],
                [0, 1, 1, 2, 2]])
    """
    source, destination, _ = _edges(shape, neighbourhood, batch, device)
    cells = batch * torch.Size(shape).numel()
    return Graph(torch.stack([source, destination]), cells)


def grid_offsets(
    shape: Sequence[int], neighbourhood: Neighbourhood, *, batch: int = 1, device: Device = None
) -> Tensor:
    r"""Return the index of the offset of each edge of :func:`grid`, for example to learn one bias
    per offset.

    .. math:: r(p + o_t \to p) = t \quad\text{for the offsets } o_t \text{ of the neighbourhood}

    Args:
        shape: number of cells along each axis, as in :func:`grid`.
        neighbourhood: radius or offsets, as in :func:`grid`.
        batch: number of grids.
        device: device of the result.

    Returns:
        [e] int64, index of the edge's offset in the neighbourhood. A radius r on d axes gives
        (2 r + 1)^d offsets in row-major order.

    Raises:
        TypeError: as for :func:`grid`.
        ValueError: as for :func:`grid`.

    Reference:
        Shaw, Uszkoreit, Vaswani, "Self-attention with relative position representations" (NAACL
        2018).

    Example:
        >>> from gattn import graphs
        >>> graphs.grid_offsets((3,), 1)
        tensor([1, 2, 0, 1, 2, 0, 1])
    """
    return _edges(shape, neighbourhood, batch, device)[2]


def window_offsets(radii: Sequence[int]) -> list[tuple[int, ...]]:
    r"""Return all offsets in a rectangular window, which has one radius per axis, in row-major
    order.

    .. math:: \{o : |o_a| \le r_a \text{ for each axis } a\}

    Args:
        radii: number of steps to either side along each axis.

    Returns:
        List of prod(2 r + 1) offsets.

    Raises:
        TypeError: radii is not a sequence of ints.
        ValueError: there is no axis, or a radius is negative.

    Reference:
        Ramachandran et al., "Stand-alone self-attention in vision models" (NeurIPS 2019).

    Example:
        >>> from gattn import graphs
        >>> graphs.window_offsets((0, 1))
        [(0, -1), (0, 0), (0, 1)]
    """
    _check_axes("radii", radii)
    return list(itertools.product(*(range(-r, r + 1) for r in radii)))


def _edges(
    shape: Sequence[int], neighbourhood: Neighbourhood, batch: int, device: Device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the source, the destination and the offset's index of every edge, [e] int64 each,
    ordered by destination and offset. Raises TypeError or ValueError for an invalid shape, batch or
    neighbourhood.
    """
    _check_axes("shape", shape)
    check_count("batch", batch)
    offsets = torch.tensor(_offsets(len(shape), neighbourhood), device=device)
    offsets = offsets.reshape(-1, len(shape))
    strides = [torch.Size(shape[axis + 1 :]).numel() for axis in range(len(shape))]
    cells, count = torch.Size(shape).numel(), len(offsets)

    inside = torch.ones(*shape, count, dtype=torch.bool, device=device)
    for axis, length in enumerate(shape):
        coordinate = torch.arange(length, device=device)[:, None] + offsets[:, axis]
        view = [1] * len(shape) + [count]
        view[axis] = length
        inside &= ((coordinate >= 0) & (coordinate < length)).view(view)
    cell, offset = inside.view(cells, count).nonzero().unbind(1)
    source = cell + (offsets * torch.tensor(strides, device=device)).sum(1)[offset]

    first = (torch.arange(batch, device=device) * cells)[:, None]
    return (first + source).flatten(), (first + cell).flatten(), offset.repeat(batch)


def _offsets(axes: int, neighbourhood: Neighbourhood) -> list[tuple[int, ...]]:
    """Convert a radius to a list of offsets, or check a sequence of offsets and return it as a
    list. Raises TypeError for anything else, and ValueError if there is none or one has another
    number of axes.
    """
    if isinstance(neighbourhood, int):
        return window_offsets([neighbourhood] * axes)
    if not isinstance(neighbourhood, Sequence) or not all(map(_is_offset, neighbourhood)):
        raise TypeError(
            "neighbourhood must be a radius or a sequence of offsets, such as "
            f"window_offsets(radii) returns; got {neighbourhood!r}"
        )
    if len(neighbourhood) == 0:
        raise ValueError("neighbourhood must contain at least one offset; got none")
    offsets = [tuple(offset) for offset in neighbourhood]
    if any(len(offset) != axes for offset in offsets):
        raise ValueError(f"offsets must have {axes} axes, like shape; got {offsets}")
    return offsets


def _is_offset(offset: object) -> bool:
    return isinstance(offset, Sequence) and all(isinstance(step, int) for step in offset)


def _check_axes(name: str, lengths: Sequence[int]) -> None:
    """Raise TypeError unless ``lengths`` is a sequence of integers, and ValueError if it is empty
    or one is negative.
    """
    if not isinstance(lengths, Sequence):
        raise TypeError(f"{name} must contain an int per axis; got {lengths!r}")
    if len(lengths) == 0:
        raise ValueError(f"{name} must contain an int per axis, for at least one; got {lengths!r}")
    for length in lengths:
        check_count(f"each of {name}", length)
