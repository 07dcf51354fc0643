"""Between padded batches, as tokenizers and torch make them, and rows one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.graphs.blocks import check_sizes


def pack(x: Tensor, lengths: Sequence[int] | Tensor) -> tuple[Tensor, tuple[int, ...]]:
    r"""Take the padding out of a batch: the rows of its sequences, one sequence after the other.

    .. math:: \text{rows}_{s_b + t} = x_{bt} \quad\text{for the tokens } t \text{ of sequence } b,

    with :math:`s_b` tokens in the sequences before b.

    Args:
        x: [b, t, ...], a padded batch.
        lengths: how many tokens each sequence has, b ints or an integer tensor [b], the padding
            being at the end; or a tensor [b, t] that is True or 1 at tokens, wherever they are (the
            ``attention_mask`` of a tokenizer; the opposite of torch's ``key_padding_mask``).

    Returns:
        The tokens [n, ...], differentiable, and the sizes that :func:`causal`, :func:`band` or
        :func:`complete` take. Without any sequence or token, no rows.

    Raises:
        TypeError: for other than a tensor, or lengths that are neither ints nor bools.
        ValueError: for a wrong shape, or a length that is negative or above t.

    Reference:
        Dao et al., "FlashAttention" (NeurIPS 2022), whose ``unpad_input`` this is.

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
            raise ValueError("a mask must hold 1 at tokens and 0 at padding; it holds others")
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
    r"""Make a padded batch of sequences whose rows lie one after the other: undo :func:`pack`.

    .. math:: x_{bt} = \text{rows}_{s_b + t} \quad\text{for } t < \text{sizes}_b,
        \qquad \text{fill beyond}

    Args:
        rows: [n, ...], n the sum of the sizes.
        sizes: number of rows of each sequence.
        length: t, to which sequences are padded at their end; None means the longest.
        fill: what the padding holds.

    Returns:
        [b, t, ...], differentiable; ``torch.arange(t) < torch.tensor(sizes)[:, None]`` tells rows
        from padding.

    Raises:
        TypeError: for other than a tensor and ints.
        ValueError: for rows that are not as many as the sizes say, or a sequence above length.

    Reference:
        Dao et al., "FlashAttention" (NeurIPS 2022), whose ``pad_input`` this is.

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
    """Lengths as ints, one for each sequence."""
    if isinstance(lengths, Tensor):
        if lengths.is_floating_point() or lengths.is_complex():
            raise TypeError(f"lengths must hold integers or bools; got {lengths.dtype}")
        if lengths.shape != (count,):
            raise ValueError(f"lengths must have shape ({count},); got {tuple(lengths.shape)}")
        lengths = lengths.tolist()
    sizes = check_sizes("lengths", lengths)
    if len(sizes) != count:
        raise ValueError(f"lengths must be {count}, one for each sequence; got {len(sizes)}")
    if max(sizes, default=0) > length:
        raise ValueError(f"lengths must be <= {length}, as x is long; got {max(sizes)}")
    return sizes
