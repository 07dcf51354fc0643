"""Negative sampling: drawing of node pairs that are not connected by an edge."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.graph import Graph

DENSE_PAIRS = 1 << 16
"""Maximum number of node pairs for which all pairs are listed. For more, pairs are drawn at
random.
"""
MAX_DRAWS = 3
"""Maximum number of rounds of random draws. After them, there may be fewer pairs than requested."""


def sample_non_edges(graph: Graph, count: int, *, symmetric: bool = False) -> Tensor:
    """Draw pairs of different nodes without an edge in either direction, by torch's generator.

    Args:
        graph: a square graph of n nodes.
        count: number of pairs to draw.
        symmetric: whether the graph contains the reverse of each edge. If it does, only one
            direction is looked up.

    Returns:
        int64 [2, count] without duplicates, in no particular order; fewer columns if the graph
        has fewer such pairs, or if the draws on a large graph with very many edges find fewer.
    """
    n = graph.num_src
    population = n * (n - 1)
    if population <= DENSE_PAIRS:
        pairs = torch.arange(population, device=graph.device)
        result = pairs[_without_edge(pairs, graph, symmetric)]
    else:
        result = _draw(graph, count, population, symmetric)
    if result.numel() > count:
        result = result[torch.randperm(result.numel(), device=result.device)[:count]]
    return torch.stack(_unrank(result, n))


def sample_within_graphs(
    graph: Graph, batch: Tensor, count: int, *, symmetric: bool = False
) -> Tensor:
    """Draw unconnected node pairs inside each graph of a batch. See :func:`sample_non_edges`.

    The random numbers come from torch's generator, so that activation checkpointing, which repeats
    a forward pass, draws the same pairs again.

    Args:
        graph: a square graph of n nodes.
        batch: [n] integers, the graph of each node, in any order.
        count: number of pairs to draw in each graph.
        symmetric: whether the graph contains the reverse of each edge.

    Returns:
        int64 [2, number of pairs], the pairs of each graph, in the order of the graphs.
    """
    batch = batch.long()
    nodes, sizes = batch.argsort(stable=True), batch.bincount()
    offsets = sizes.cumsum(0) - sizes
    local_index = torch.empty_like(nodes)
    local_index[nodes] = torch.arange(nodes.shape[0], device=nodes.device) - offsets[batch[nodes]]
    edges = graph.edge_index
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    edge_batch = batch[edges[0]]
    edges = local_index[edges[:, edge_batch.argsort(stable=True)]]
    edge_counts = edge_batch.bincount(minlength=len(sizes)).tolist()
    result = [nodes.new_empty(2, 0)]
    for pairs, members in zip(edges.split(edge_counts, 1), nodes.split(sizes.tolist())):
        drawn = sample_non_edges(Graph(pairs, len(members)), count, symmetric=symmetric)
        result.append(members[drawn])
    return torch.cat(result, dim=1)


def _draw(graph: Graph, count: int, population: int, symmetric: bool) -> Tensor:
    """Draw distinct unconnected pairs by torch's generator until there are ``count`` pairs, but in
    at most MAX_DRAWS rounds.

    Pairs are returned as indices in [0, population), in ascending order; there may be more or fewer
    than ``count``.
    """
    present = min(graph.num_edges * (1 if symmetric else 2), population - 1)
    size = int(1.1 * count / (1 - present / population)) + 16
    size = min(size, 4 * population)
    result = torch.empty(0, dtype=torch.int64, device=graph.device)
    for _ in range(MAX_DRAWS):
        drawn = torch.randint(population, (size,), device=graph.device)
        # Looking up sorted keys reads nearby memory, which is faster.
        drawn = torch.cat([result, drawn]).sort().values
        new = torch.ones_like(drawn, dtype=torch.bool)
        torch.ne(drawn[1:], drawn[:-1], out=new[1:])
        result = drawn[new & _without_edge(drawn, graph, symmetric)]
        if result.numel() >= count:
            break
    return result


def _unrank(pairs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the two nodes of each pair, given its index among all ordered pairs of n nodes."""
    row = pairs // max(n - 1, 1)
    col = pairs - row * max(n - 1, 1)
    return row, col + (col >= row)


def _without_edge(pairs: Tensor, graph: Graph, symmetric: bool) -> Tensor:
    """Return a boolean mask of the ranks [k] of node pairs (:func:`_unrank`) that are no edge of
    the graph; unless ``symmetric`` is True, the pair in the other direction must be no edge either.
    """
    row, col = _unrank(pairs, graph.num_src)
    edge_keys = graph.layout.destinations() * graph.num_src + graph.layout.col
    has_edge = _contains(edge_keys, row * graph.num_src + col)
    if not symmetric:
        has_edge |= _contains(edge_keys, col * graph.num_src + row)
    return ~has_edge


def _contains(sorted_keys: Tensor, keys: Tensor) -> Tensor:
    """Return True for each of the keys [k] that occurs in ``sorted_keys`` [e], which ascend."""
    if sorted_keys.numel() == 0:
        return torch.zeros_like(keys, dtype=torch.bool)
    position = torch.searchsorted(sorted_keys, keys).clamp_(max=sorted_keys.numel() - 1)
    return sorted_keys[position] == keys
