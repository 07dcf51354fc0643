"""Positional encoding of nodes in sequences and on grids."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from gattn.nn.common.checks import check_at_least


class SinusoidalEncoding(Module):
    r"""Sinusoidal encoding of positions, on one or several axes.

    .. math:: p_{2t} = \sin(x\, T^{-2t/d}), \qquad p_{2t+1} = \cos(x\, T^{-2t/d})

    With several axes, the channels are divided equally among the axes, and d is the number of
    channels of one axis.

    Args:
        channels: total number of channels.
        axes: number of axes of a position: 1 for sequences, 2 for images, 3 for volumes.
        max_period: T, the longest period divided by 2 pi, in the unit of the position.

    Shapes:
        - **input:** position [n], or [n, axes]
        - **output:** [n, channels]

    Raises:
        ValueError: for axes < 1, if channels is not a multiple of 2 * axes, or for a position of
            a wrong shape.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> import torch
        >>> from gattn.nn import SinusoidalEncoding
        >>> SinusoidalEncoding(16)(torch.arange(5)).shape
        torch.Size([5, 16])
        >>> SinusoidalEncoding(16, axes=2)(torch.cartesian_prod(*[torch.arange(3)] * 2)).shape
        torch.Size([9, 16])
    """

    def __init__(self, channels: int, axes: int = 1, *, max_period: float = 1e4) -> None:
        super().__init__()
        check_at_least(1, axes=axes)
        if channels < 1 or channels % (2 * axes):
            raise ValueError(f"channels must be a multiple of {2 * axes}; got {channels}")
        self.channels = channels
        self.axes = axes
        self.max_period = max_period

    def forward(self, position: Tensor) -> Tensor:
        """Encode positions as sines and cosines.

        Args:
            position: positions [n], or [n, axes] for several axes; integers or floats.

        Returns:
            The encodings [n, channels], in the dtype of position if it is a floating-point dtype,
            else in the default dtype.
        """
        if self.axes == 1 and position.dim() == 1:
            position = position.unsqueeze(1)
        if position.dim() != 2 or position.shape[1] != self.axes:
            raise ValueError(
                f"position must have shape (n, {self.axes}); got {tuple(position.shape)}"
            )
        dtype = position.dtype if position.is_floating_point() else torch.get_default_dtype()
        channels = self.channels // self.axes
        even = torch.arange(0, channels, 2, dtype=torch.float64, device=position.device)
        angle = position.double().unsqueeze(-1) * self.max_period ** -(even / channels)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(dtype)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels}, axes={self.axes})"
