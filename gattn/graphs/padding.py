"""Conversion of padded batches to concatenated sequences without padding, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.graphs.blocks import check_sizes


def pack(x: Tensor, lengths: Sequence[int] | Tensor) -> tuple[Tensor, tuple[int, ...]]:
    r"""Remove the padding of a batch; return the concatenated rows of its sequences.

    .. math:: \text{rows}_{s_b + t} = x_{bt} \quad\text{for the tokens } t \text{ of sequence } b,

    with :math:`s_b` tokens in the sequences before b.

    Args:
        x: [b, t, ...], a padded batch.
        lengths: number of tokens of each sequence, b ints or an integer tensor [b], with padding at
            the end; or a mask [b, t] that is True or 1 at tokens in any place (the
            ``attention_mask`` of a tokenizer; the negation of torch's ``key_padding_mask``).

    Returns:
        The tokens [n, ...], differentiable, and the sizes for :func:`causal`, :func:`band` or
        :func:`complete`. Without tokens there are no rows.

    Raises:
        TypeError: x is not a tensor, or lengths are neither ints nor bools.
        ValueError: a shape is wrong, or a length is negative or above t.

    Reference:
        Dao et al., "FlashAttention" (NeurIPS 2022); the same as its ``unpad_input``.

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> x = torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
        >>> rows, sizes = graphs.pack(x, [2, 1])
        >>> rows, sizes
        (tensor([1., 2., 3.]), (2, 1))
        >>> graphs.causal(sizes)
        Graph(num_src=3, num_dst=3, num_edges=4, device='cpu')
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a tensor; got {type(x).__name__}")
    if x.dim() < 2:
        raise ValueError(f"x must have shape (b, t, ...); got {tuple(x.shape)}")
    count, length = x.shape[:2]
    if isinstance(lengths, Tensor) and lengths.dim() == 2 and not lengths.is_floating_point():
        if not ((lengths == 0) | (lengths == 1)).all():
            raise ValueError("a mask must contain 1 at tokens and 0 at padding; got other values")
        lengths = lengths.bool()
    if isinstance(lengths, Tensor) and lengths.dtype == torch.bool:
        if lengths.shape != x.shape[:2]:
            raise ValueError(
                f"a mask must have shape ({count}, {length}); got {tuple(lengths.shape)}"
            )
        mask, sizes = lengths.to(x.device), tuple(lengths.sum(1).tolist())
    else:
        sizes = _lengths(lengths, count, length)
        ends = torch.tensor(sizes, dtype=torch.int64, device=x.device)
        mask = torch.arange(length, device=x.device) < ends[:, None]
    return x.flatten(0, 1).index_select(0, mask.flatten().nonzero().squeeze(1)), sizes


def unpack(
    rows: Tensor, sizes: Sequence[int], length: int | None = None, fill: float = 0.0
) -> Tensor:
    r"""Convert concatenated sequences to a padded batch. This is the inverse of :func:`pack`.

    .. math:: x_{bt} = \text{rows}_{s_b + t} \quad\text{for } t < \text{sizes}_b,
        \qquad \text{fill beyond}

    Args:
        rows: [n, ...], where n is the sum of the sizes.
        sizes: number of rows of each sequence.
        length: padded length t; None for the largest size.
        fill: value of the padding.

    Returns:
        [b, t, ...], differentiable, with padding at the end of each sequence. The mask of rows is
        ``torch.arange(t) < torch.tensor(sizes)[:, None]``.

    Raises:
        TypeError: rows is not a tensor, or sizes are not ints.
        ValueError: the number of rows is not the sum of the sizes, or a size exceeds length.

    Reference:
        Dao et al., "FlashAttention" (NeurIPS 2022); the same as its ``pad_input``.

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> graphs.unpack(torch.tensor([1.0, 2.0, 3.0]), [2, 1], fill=-1.0)
        tensor([[ 1.,  2.],
                [ 3., -1.]])
    """
    if not isinstance(rows, Tensor):
        raise TypeError(f"rows must be a tensor; got {type(rows).__name__}")
    sizes = check_sizes("sizes", sizes)
    longest = max(sizes, default=0)
    length = longest if length is None else length
    if rows.dim() == 0 or rows.shape[0] != sum(sizes):
        raise ValueError(f"rows must have shape ({sum(sizes)}, ...); got {tuple(rows.shape)}")
    if longest > length:
        raise ValueError(f"length must be >= {longest}, the largest of sizes; got {length}")
    ends = torch.tensor(sizes, dtype=torch.int64, device=rows.device)
    mask = torch.arange(length, device=rows.device) < ends[:, None]
    padded = rows.new_full((len(sizes) * length, *rows.shape[1:]), fill)
    padded = padded.index_copy(0, mask.flatten().nonzero().squeeze(1), rows)
    return padded.unflatten(0, (len(sizes), length))


def _lengths(lengths: Sequence[int] | Tensor, count: int, length: int) -> tuple[int, ...]:
    """Return the lengths as integers; raise TypeError unless they are integers, and ValueError
    unless there is one for each sequence, at most its length.
    """
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex():
            raise TypeError(f"lengths must contain integers or bools; got {lengths.dtype}")
        if lengths.shape != (count,):
            raise ValueError(f"lengths must have shape ({count},); got {tuple(lengths.shape)}")
        lengths = lengths.tolist()
    sizes = check_sizes("lengths", lengths)
    if len(sizes) != count:
        raise ValueError(f"lengths must be {count}, one for each sequence; got {len(sizes)}")
    if max(sizes, default=0) > length:
        raise ValueError(f"lengths must be <= {length}, the length of x; got {max(sizes)}")
    return sizes
