"""Graph with the size of ogbn-products, which is read from the folder that
``benchmarks.sampling.make`` wrote.

This module does not import gattn, because the graph is also read for its peers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch


def rows(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Read the offsets, [n + 1] int64, and the sources, [e] int32, of the edges in compressed
    form.
    """
    names = ("indptr.npy", "indices.npy")
    indptr, indices = (torch.from_numpy(np.load(folder / name)) for name in names)
    return indptr, indices


def pairs(folder: Path, dtype: torch.dtype) -> tuple[torch.Tensor, int]:
    """Read the source and the destination of each edge, [2, e], and the number of nodes."""
    indptr, indices = rows(folder)
    nodes = torch.arange(indptr.numel() - 1, dtype=dtype)
    edges = torch.stack([indices.to(dtype), nodes.repeat_interleave(indptr.diff())])
    return edges, nodes.numel()


def features(folder: Path) -> torch.Tensor:
    """Read the node features into memory, [n, 100] float32."""
    return torch.from_numpy(np.load(folder / "x.npy"))
