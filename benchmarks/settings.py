"""What the command line sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """How long and how large to measure."""

    seconds: float = 30.0
    """Time to spend on the timings of each case, after its check."""
    scale: float = 1.0
    """Size of the power-law graph relative to ogbn-arxiv's; a trial runs at 0.01."""
    threads: int = 2
    memory: bool = True
    """Whether to measure peak memory, in one more process for each side."""
    largest: int = 10**8
    """Edges of the largest graph of the growth table."""
