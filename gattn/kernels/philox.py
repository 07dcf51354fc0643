"""Philox4x32-10 in PyTorch, the counter-based random number generator of dropout.

Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


def threshold(dropout: float) -> int:
    """Return the threshold of dropout: a value is dropped if its 32-bit random number is below
    the threshold.
    """
    return min(int(dropout * 2.0**32), _LOW)


def keep(seed: Tensor, num_edges: int, heads: int, dropout: float) -> Tensor:
    """Return the dropout mask of the attention weights, [e, h] bool, for a seed: True for weights
    that remain. The edges are in CSR order.

    ``seed`` is [2] int64: the key, and the CSR position of the first edge in the whole graph. This
    position is not 0 if the graph is a part of a larger graph, so that its mask is the same part of
    the larger graph's mask.
    """
    key, edge_offset = seed[:1], seed[1:]
    counter = torch.arange(num_edges * heads, device=seed.device, dtype=torch.int64)
    counter = counter + edge_offset * heads
    return (philox(key, counter) >= threshold(dropout)).view(num_edges, heads)


def keep_numbers(seed: Tensor, count: int, dropout: float) -> Tensor:
    """Return the dropout mask of ``count`` values, [count] bool, for a seed: True for values that
    remain.

    The four 32-bit words at counter 256 b + k belong to the values k, 256 + k, 512 + k and 768 + k
    of block b of 1,024 values. ``seed`` is [2] int64: the key, and the index of the first value.
    """
    number = torch.arange(count, device=seed.device) + seed[1:]
    counter = number // 1024 * 256 + number % 256
    drawn = torch.stack(_words(seed[:1], counter))
    word = (number % 1024 // 256).unsqueeze(0)
    return drawn.gather(0, word).squeeze(0) >= threshold(dropout)


def philox(key: Tensor, counter: Tensor) -> Tensor:
    """Return the first of the four random 32-bit words for each 64-bit counter [k], as int64 [k] in
    [0, 2**32); the key is [1] or [].
    """
    return _words(key, counter)[0]


def _words(key: Tensor, counter: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four random 32-bit words for each 64-bit counter [k], as int64 [k] in [0, 2**32);
    the key is [1] or [].
    """
    key0, key1 = key & _LOW, (key >> 32) & _LOW
    c0, c1 = counter & _LOW, (counter >> 32) & _LOW
    c2, c3 = torch.zeros_like(c0), torch.zeros_like(c0)
    for _ in range(10):
        low0, high0 = _multiply(0xD2511F53, c0)
        low1, high1 = _multiply(0xCD9E8D57, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ key0, low1, high0 ^ c3 ^ key1, low0
        key0, key1 = (key0 + 0x9E3779B9) & _LOW, (key1 + 0xBB67AE85) & _LOW
    return c0, c1, c2, c3


def _multiply(a: int, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the low and high 32-bit words of a product of 32-bit integers."""
    low_half, high_half = a * (b & 0xFFFF), a * (b >> 16)
    middle = (low_half >> 16) + high_half
    low = ((middle & 0xFFFF) << 16) | (low_half & 0xFFFF)
    return low, middle >> 16
