"""The graphs that the cases run on. Edges are pairs (source, destination), int64 [2, e]."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

ARXIV_NODES = 169_343
ARXIV_PAIRS = 1_165_328


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def power_law(scale: float = 1.0, seed: int = 0) -> tuple[Tensor, int]:
    """Edges and number of nodes of a graph with the size and skew of ogbn-arxiv's.

    Every pair joins a uniform node to one drawn with probability proportional to rank^-0.75
    (ranks are shuffled over the nodes): at full size the largest hub has about 14,000 edges.
    Both directions of each pair, then one self-loop per node: 2,499,999 edges at full size.
    """
    num_nodes = max(int(ARXIV_NODES * scale), 2)
    return skewed(num_nodes, max(int(ARXIV_PAIRS * scale), 1), seed), num_nodes


def skewed(num_nodes: int, num_pairs: int, seed: int = 0) -> Tensor:
    """2 num_pairs + num_nodes edges: see :func:`power_law`."""
    random = generator(seed)
    ranks = torch.arange(1, num_nodes + 1, dtype=torch.float64)
    mass = ranks.pow(-0.75).cumsum(0)
    draws = torch.rand(num_pairs, generator=random, dtype=torch.float64) * mass[-1]
    popular = torch.randperm(num_nodes, generator=random)[torch.searchsorted(mass, draws)]
    uniform = torch.randint(num_nodes, (num_pairs,), generator=random)
    uniform = torch.where(uniform == popular, (uniform + 1) % num_nodes, uniform)
    nodes = torch.arange(num_nodes)
    return torch.stack([
        torch.cat([uniform, popular, nodes]),
        torch.cat([popular, uniform, nodes]),
    ])  # fmt: skip


def data_root() -> Path:
    """Where the raw data sets lie: ``GATTN_DATA``, else ``shared/data`` beside the checkout."""
    given = os.environ.get("GATTN_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(given) if given else beside


def molecules(num_graphs: int, seed: int = 0) -> tuple[Tensor, Tensor, int]:
    """Edges, graph of each node, and number of nodes of a batch of ESOL molecules."""
    from gattn.data import batch_molecules, load_molecules

    every = load_molecules("esol", data_root(), download=False).graphs
    chosen = torch.randperm(len(every), generator=generator(seed))[:num_graphs].tolist()
    batch = batch_molecules([every[position] for position in chosen])
    return batch.edge_index, batch.batch, batch.num_nodes
