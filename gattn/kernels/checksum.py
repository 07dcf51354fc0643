"""Checksum (64 bits) of a tensor, by which changes of a cached tensor are detected.

The checksum depends on each value and its position. The computation reads the tensor once, at
memory bandwidth.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.kernels import cpu

_WIDE = (torch.int32, torch.int64)
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROWS = 8
"""Maximum number of rows of a slice that are read one by one. Slices with more rows are copied."""
_MULTIPLIER, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1
_weights: dict[torch.device, Tensor] = {}


def checksum(t: Tensor) -> int:
    """Return the 64-bit checksum of a CPU tensor; 0 for a tensor without memory (meta tensor).
    Equal values with other strides may have another checksum.
    """
    if t.is_meta:
        return 0
    if cpu.unavailable_reason():
        return int(weighted_sum(t))
    if t.is_contiguous():
        return cpu.checksum(t)
    if t.dim() == 2 and t.stride(0) == 1 and t.t().is_contiguous():
        return cpu.checksum(t.t())
    if t.dim() == 2 and t.stride(1) == 1 and t.shape[0] <= _ROWS:
        total = 0
        for row in t:
            total = (total * _MULTIPLIER + cpu.checksum(row)) & _MASK
        return total
    return cpu.checksum(t.contiguous())


def weighted_sum(t: Tensor) -> Tensor:
    """Compute sum_p w_p x_p modulo 2**64, with a random odd weight w_p for each position p: []
    int64.

    Floats are reinterpreted as integers. This function is used on a GPU, where it does not wait for
    the result, and in installations without the C++ kernels. The weights of each device are
    computed once and stored.
    """
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    if t.is_floating_point():
        t = t.resolve_neg().view(_BITS[t.element_size()])
    weights = _weights.get(t.device)
    if weights is None or weights.numel() < t.numel():
        generator = torch.Generator().manual_seed(0)
        length = 1 << max(t.numel() - 1, 0).bit_length()
        drawn = torch.randint(-(2**63), 2**63 - 1, (length,), generator=generator, device="cpu")
        weights = _weights[t.device] = (drawn | 1).to(t.device)
    t = t if t.dtype in _WIDE else t.long()
    return (t * weights[: t.numel()].view(t.shape)).sum(dtype=torch.int64)
