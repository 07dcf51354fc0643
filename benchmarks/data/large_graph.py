"""Graph with the size of ogbn-products, which is read from the folder that
``benchmarks.sampling.make`` wrote.

This module does not import gattn, because the graph is also read for its peers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

_PIECE = 1 << 16


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


def mapped_features(folder: Path, dtype: torch.dtype) -> torch.Tensor:
    """Memory-map the node features; for another dtype, a separate file is written at the first
    use.
    """
    x = np.load(folder / "x.npy", mmap_mode="c")
    if dtype == torch.float32:
        return torch.from_numpy(x)
    path = folder / f"x.{str(dtype).removeprefix('torch.')}"
    if not path.exists():
        part = path.with_suffix(".part")
        mapped = torch.from_file(str(part), shared=True, size=x.size, dtype=dtype).view(x.shape)
        for start in range(0, len(x), _PIECE):
            mapped[start : start + _PIECE] = torch.from_numpy(x[start : start + _PIECE])
        part.replace(path)
    return torch.from_file(str(path), size=x.size, dtype=dtype).view(x.shape)
