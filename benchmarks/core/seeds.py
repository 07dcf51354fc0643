"""Reproducible random numbers, equal in every run and process."""

from __future__ import annotations

import torch
from torch import Tensor


def generator(seed: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator with a separate seed for each use."""
    return torch.Generator(device).manual_seed(seed)


def normal(
    *shape: int, seed: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> Tensor:
    """Return normal random numbers that are equal in every dtype up to rounding."""
    return torch.randn(shape, generator=generator(seed, device), device=device).to(dtype)


def leaf(*shape: int, seed: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """Return normal random numbers that require a gradient."""
    return normal(*shape, seed=seed, dtype=dtype, device=device).requires_grad_()
