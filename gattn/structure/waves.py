"""Sinusoidal encoding of positions in a sequence."""

from __future__ import annotations

import torch
from torch import Tensor


def waves(position: Tensor, channels: int, max_period: float = 1e4) -> Tensor:
    r"""Encode positions by sines and cosines whose periods increase geometrically.

    .. math:: p_{2t} = \sin(x\, T^{-2t/d}), \qquad p_{2t+1} = \cos(x\, T^{-2t/d})

    Args:
        position: x, integers or floats of any shape.
        channels: number of features, d; even.
        max_period: T, the longest period divided by 2 pi, in the unit of position.

    Returns:
        The encodings [..., channels], in the dtype of position if it is floating point, else in the
        default dtype.

    Raises:
        ValueError: channels is odd or not positive.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> import torch
        >>> waves(torch.tensor([0, 1]), 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    if channels < 2 or channels % 2:
        raise ValueError(f"channels must be even and positive; got {channels}")
    dtype = position.dtype if position.is_floating_point() else torch.get_default_dtype()
    power = torch.arange(0, channels, 2, dtype=torch.float64, device=position.device) / channels
    angle = position.double().unsqueeze(-1) * max_period**-power
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).to(dtype)
