"""Random graphs of several sizes and kinds, which are equal in every run and on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.core.case import Topology
from benchmarks.core.seeds import generator

SIZES = {
    "arxiv": (169_343, 1_165_328),
    "products": (2_449_029, 60_640_000),
    "products/16": (153_064, 3_790_000),
    "reddit": (232_965, 57_307_946),
    "reddit/16": (232_965, 3_581_746),
}
"""Numbers of nodes and node pairs of graphs with the sizes of ogbn-arxiv, ogbn-products and
Reddit, without self-loops.
"""
BATCHES = {"molecules-1024": 1024, "molecules-8192": 8192}
EDGES = {
    **{name: 2 * pairs for name, (_, pairs) in SIZES.items()},
    **{name: 52 * count for name, count in BATCHES.items()},
    "sets": 64 * 256**2,
    "hub": 2_000_000,
}
"""Approximate number of edges of each graph at scale 1."""
NAMES = tuple(EDGES)


def make(name: str, scale: float = 1.0, device: torch.device | str = "cpu") -> Topology:
    """Create the graph with a name, at a scale relative to its full size."""
    if name in SIZES:
        nodes, pairs = (max(8, int(size * scale)) for size in SIZES[name])
        return Topology(power_law(nodes, pairs, device=device), nodes)
    if name in BATCHES:
        return molecules(max(2, int(BATCHES[name] * scale)), device=device)
    if name == "sets":
        return sets(64, max(4, int(256 * scale**0.5)), device)
    return hub(max(8, int(1_000_000 * scale)), device)


def power_law(
    num_nodes: int, num_pairs: int, seed: int = 0, device: torch.device | str = "cpu"
) -> Tensor:
    """Create a graph with a skewed degree distribution, as in citation graphs, and 2 num_pairs +
    num_nodes edges.

    Every pair joins a node that is drawn uniformly to a node that is drawn with a probability
    proportional to rank^-0.75; the ranks are assigned to the nodes at random. At the size of
    ogbn-arxiv, the node of highest degree has about 14,000 edges. The result contains both
    directions of each pair, followed by one self-loop per node.
    """
    random = generator(seed, device)
    ranks = torch.arange(1, num_nodes + 1, dtype=torch.float64, device=device)
    mass = ranks.pow(-0.75).cumsum(0)
    draws = torch.rand(num_pairs, generator=random, dtype=torch.float64, device=device) * mass[-1]
    shuffled = torch.randperm(num_nodes, generator=random, device=device)
    popular = shuffled[torch.searchsorted(mass, draws)]
    uniform = torch.randint(num_nodes, (num_pairs,), generator=random, device=device)
    uniform = torch.where(uniform == popular, (uniform + 1) % num_nodes, uniform)
    nodes = torch.arange(num_nodes, device=device)
    return torch.stack([
        torch.cat([uniform, popular, nodes]),
        torch.cat([popular, uniform, nodes]),
    ])  # fmt: skip


def molecules(count: int, seed: int = 0, device: torch.device | str = "cpu") -> Topology:
    """Create a batch of random trees with 6 to 60 nodes (25 on average) and two rings, similar to
    molecules.

    It is used instead of a batch of molecules if no data set is available.
    """
    random = generator(seed, device)
    normal = torch.randn(count, generator=random, device=device)
    sizes = (25 + 8 * normal).round().long().clamp(6, 60)
    ends = sizes.cumsum(0)
    nodes = int(ends[-1])
    batch = torch.repeat_interleave(torch.arange(count, device=device), sizes, output_size=nodes)
    place = torch.arange(nodes, device=device) - (ends - sizes)[batch]
    back = 1 + (3 * torch.rand(nodes, generator=random, device=device) ** 3).long()
    child = place.nonzero().squeeze(1)
    parent = child - torch.minimum(back[child], place[child])
    opener = torch.cat([ends - sizes, ends - 6])
    source, target = torch.cat([child, opener]), torch.cat([parent, opener + 5])
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return Topology(torch.unique(edges, dim=1), nodes, batch)


def sets(count: int, size: int, device: torch.device | str = "cpu") -> Topology:
    """Create complete graphs, as in self-attention over sets."""
    place = torch.arange(count * size, device=device)
    source = place.view(count, 1, size).expand(count, size, size).reshape(-1)
    edges = torch.stack([source, place.repeat_interleave(size)])
    return Topology(edges, count * size, place // size)


def hub(num_nodes: int, device: torch.device | str = "cpu") -> Topology:
    """Create star graphs, with edges between one node and all others, in both directions."""
    others = torch.arange(1, num_nodes, device=device)
    one = torch.zeros_like(others)
    return Topology(torch.stack([torch.cat([others, one]), torch.cat([one, others])]), num_nodes)
