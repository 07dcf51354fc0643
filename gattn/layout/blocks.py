"""Complete and causal graphs. They are described by the sizes of their blocks, and not by a list
of edges.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from gattn.layout import ranges, stats
from gattn.layout.layout import Layout


class Blocks(NamedTuple):
    """Blocks of consecutive queries and keys; each query attends to the keys of its block."""

    query_sizes: tuple[int, ...]
    """Number of queries (destinations) of each block."""
    key_sizes: tuple[int, ...]
    """Number of keys (sources) of each block."""
    causal: bool
    """True if query t of a block attends only to the keys 0 to t of the block. A block then has
    equally many queries and keys.
    """

    @property
    def num_edges(self) -> int:
        """Number of edges, e."""
        if self.causal:
            return sum(size * (size + 1) // 2 for size in self.query_sizes)
        return sum(q * k for q, k in zip(self.query_sizes, self.key_sizes))

    def layout(self, device: torch.device | str | None = None) -> Layout:
        """Compute the layout of the edges, ordered by (destination, source), on a device (None: the
        default device), with the maximum degrees as statistics. Without edges, its indices are
        empty.
        """
        counts = torch.tensor([self.query_sizes, self.key_sizes], dtype=torch.int64, device="cpu")
        counts = counts.reshape(2, -1)
        end = counts[1].cumsum(0)
        num_dst, num_src = sum(self.query_sizes), sum(self.key_sizes)
        first, last = (
            torch.repeat_interleave(bound.to(device), counts[0].to(device), output_size=num_dst)
            for bound in (end - counts[1], end)
        )
        if self.causal:
            last = torch.arange(1, num_dst + 1, device=device)
        layout = ranges.build(first, last, num_src, self.num_edges)
        sizes = [size for size in zip(self.query_sizes, self.key_sizes) if all(size)]
        max_queries, max_keys = map(max, zip(*sizes)) if sizes else (0, 0)
        return stats.with_stats(layout, max_keys, max_queries)
