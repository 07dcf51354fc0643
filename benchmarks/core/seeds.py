"""Random numbers that are the same in every run and in every process."""

from __future__ import annotations

import torch
from torch import Tensor


def generator(seed: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for each use."""
    return torch.Generator(device).manual_seed(seed)


def normal(
    *shape: int, seed: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Tensor:
    """The same normal numbers in every dtype, but for its rounding."""
    return torch.randn(shape, generator=generator(seed, device), device=device).to(dtype)


def leaf(*shape: int, seed: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """The same, asking for a gradient."""
    return normal(*shape, seed=seed, dtype=dtype, device=device).requires_grad_()
