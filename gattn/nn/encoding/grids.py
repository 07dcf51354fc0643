"""Conversion of images or volumes to rows of cells and back, for attention on grids."""

from __future__ import annotations

from torch import Tensor


def grid_to_nodes(x: Tensor, *, channels_first: bool = False) -> Tensor:
    r"""Convert images or volumes to one row per cell.

    .. math:: [b, h, w, c] \to [b\, h\, w, c]

    The cell in row r and column s of image b becomes row ``(b * h + r) * w + s``, in the order of
    the nodes of :func:`gattn.graphs.grid`.

    Args:
        x: images or volumes [b, *shape, c] with one, two or three axes of cells; with
            ``channels_first`` [b, c, *shape], as for convolutions.
        channels_first: whether the channels are dimension 1 and not the last dimension.

    Returns:
        The rows, [b * prod(shape), c].

    Raises:
        ValueError: for fewer than three dimensions.

    Reference:
        Wang et al., "Non-local neural networks" (CVPR 2018).

    Example:
        >>> import torch
        >>> from gattn.nn import grid_to_nodes
        >>> grid_to_nodes(torch.randn(2, 4, 5, 16)).shape
        torch.Size([40, 16])
    """
    _check(x, "x")
    return (x.movedim(1, -1) if channels_first else x).flatten(0, -2)


def nodes_to_grid(rows: Tensor, like: Tensor, *, channels_first: bool = False) -> Tensor:
    r"""Convert rows of cells back to images or volumes.

    .. math:: [b\, h\, w, c'] \to [b, h, w, c']

    The result of an attention has one row per query, so it has the spatial size of the queries
    and the channels of the values.

    Args:
        rows: rows [b * prod(shape), c'], in the order of :func:`grid_to_nodes`.
        like: the queries, [b, *shape, c]; with ``channels_first`` [b, c, *shape]. Only its shape
            is read.
        channels_first: whether the channels are dimension 1, in ``like`` and in the result.

    Returns:
        Images or volumes [b, *shape, c'], or with ``channels_first`` [b, c', *shape].

    Raises:
        ValueError: if the number of rows differs from the number of cells.

    Reference:
        Wang et al., "Non-local neural networks" (CVPR 2018).

    Example:
        >>> import gattn, torch
        >>> from gattn.nn import grid_to_nodes, nodes_to_grid
        >>> image, memory = torch.randn(2, 4, 4, 16), torch.randn(2, 3, 5, 16)
        >>> q, k = (grid_to_nodes(x).unflatten(-1, (2, 8)) for x in (image, memory))
        >>> graph = gattn.graphs.bipartite([16, 16], [15, 15])
        >>> out = gattn.functional.dot_product_attention(q, k, k, graph)
        >>> nodes_to_grid(out.flatten(1), image).shape
        torch.Size([2, 4, 4, 16])
    """
    _check(like, "like")
    shape = like.shape[:1] + like.shape[2:] if channels_first else like.shape[:-1]
    if rows.dim() != 2 or rows.shape[0] != shape.numel():
        raise ValueError(
            f"rows must have shape ({shape.numel()}, c), one per cell of {tuple(shape)}; "
            f"got {tuple(rows.shape)}"
        )
    grid = rows.view(*shape, rows.shape[1])
    return grid.movedim(-1, 1) if channels_first else grid


def _check(x: Tensor, name: str) -> None:
    if x.dim() < 3:
        raise ValueError(
            f"{name} must have a batch, a channel and at least one axis; got {tuple(x.shape)}"
        )
