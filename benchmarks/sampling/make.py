"""Generation of the graph for sampling, which is written to a folder as three NumPy files.

    python -m benchmarks.sampling.make FOLDER [--scale 0.1]

``indptr.npy`` and ``indices.npy`` hold the compressed rows by destination, ``x.npy`` the features.
At scale 1 the graph has 2,449,029 nodes and 62 million edges, each in both directions, and 100
features a node. Both ends of a pair are drawn with probability proportional to
(rank + 60)^-0.65, by which the largest degree is about 346 times the mean, as in ogbn-products
(17,481 of 50.5). Memory: about 3 GB at scale 1; the features go to the file in pieces.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import gattn

NODES, PAIRS, FEATURES = 2_449_029, 31_000_000, 100
_PIECE = 1 << 20


def main(arguments: Sequence[str]) -> None:
    """Write the files, and print the size of the graph."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling.make")
    parser.add_argument("folder", type=Path, help="folder to which the graph is written")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="size of the graph, as a fraction of the size of ogbn-products (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random graph (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    nodes, pairs = max(2, int(NODES * options.scale)), int(PAIRS * options.scale)
    options.folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(options.seed)
    layout = gattn.Graph(_edges(nodes, pairs, 60 * options.scale, generator), nodes).layout
    degree = layout.rowptr.diff()
    np.save(options.folder / "indptr.npy", layout.rowptr.numpy().astype(np.int64))
    np.save(options.folder / "indices.npy", layout.col.numpy())
    x = np.lib.format.open_memmap(
        options.folder / "x.npy", mode="w+", dtype=np.float32, shape=(nodes, FEATURES)
    )
    for first in range(0, nodes, _PIECE // FEATURES):
        piece = x[first : first + _PIECE // FEATURES]
        piece[:] = generator.standard_normal(piece.shape, dtype=np.float32)
    x.flush()
    print(
        f"{nodes} nodes, {2 * pairs} edges, degree {degree.double().mean():.1f} on average, "
        f"{int(degree.median())} in the middle, {int(degree.max())} at most"
    )


def _edges(nodes: int, pairs: int, shift: float, generator: np.random.Generator) -> torch.Tensor:
    """Draw pairs of different nodes, and return both directions of each pair, [2, 2 pairs]
    int32.
    """
    mass = np.cumsum((np.arange(nodes) + shift) ** -0.65)
    shuffled = generator.permutation(nodes).astype(np.int32)
    edges = np.empty((2, 2 * pairs), dtype=np.int32)
    for end in range(2):
        for first in range(0, pairs, _PIECE):
            count = min(_PIECE, pairs - first)
            drawn = np.searchsorted(mass, generator.random(count) * mass[-1])
            edges[end, first : first + count] = shuffled[drawn]
    loops = (edges[0, :pairs] == edges[1, :pairs]).nonzero()[0]
    edges[1, loops] = (edges[1, loops] + 1) % nodes
    edges[0, pairs:], edges[1, pairs:] = edges[1, :pairs], edges[0, :pairs]
    return torch.from_numpy(edges)


if __name__ == "__main__":
    main(sys.argv[1:])
