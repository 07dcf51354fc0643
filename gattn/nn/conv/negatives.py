"""Negative sampling: pairs of nodes that no edge joins."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.graph import Graph

DENSE_PAIRS = 1 << 16
"""Up to so many pairs of nodes are listed, beyond they are drawn."""
TRIES = 3


def sample_non_edges(graph: Graph, count: int, *, symmetric: bool = False) -> Tensor:
    """Draw pairs of different nodes with no edge between them in either direction.

    Args:
        graph: a square graph of n nodes.
        count: how many pairs to draw.
        symmetric: whether each edge is there in both directions: one is then looked up.

    Returns:
        int64 [2, count], without duplicates, in no order; fewer where there are not so many.
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
    """Draw pairs inside each graph of a batch, as :func:`sample_non_edges` inside one.

    By torch's own numbers: those of a forward that a checkpoint computes again come again.

    Args:
        graph: a square graph of n nodes.
        batch: [n] integers, the graph of each node, in any order.
        count: how many pairs to draw in each graph.
        symmetric: whether each edge is there in both directions.

    Returns:
        int64 [2, -], the pairs of each graph one after the other, in the order of the graphs.
    """
    batch = batch.long()
    nodes, sizes = batch.argsort(stable=True), batch.bincount()
    first = sizes.cumsum(0) - sizes
    place = torch.empty_like(nodes)
    place[nodes] = torch.arange(nodes.shape[0], device=nodes.device) - first[batch[nodes]]
    edges = graph.edge_index
    edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    owner = batch[edges[0]]
    edges = place[edges[:, owner.argsort(stable=True)]]
    numbers = owner.bincount(minlength=len(sizes)).tolist()
    result = [nodes.new_empty(2, 0)]
    for pairs, members in zip(edges.split(numbers, 1), nodes.split(sizes.tolist())):
        drawn = sample_non_edges(Graph(pairs, len(members)), count, symmetric=symmetric)
        result.append(members[drawn])
    return torch.cat(result, dim=1)


def _draw(graph: Graph, count: int, population: int, symmetric: bool) -> Tensor:
    """At least ``count`` different pairs without an edge, if a few tries find them."""
    present = min(graph.num_edges * (1 if symmetric else 2), population - 1)
    size = int(1.1 * count / (1 - present / population)) + 16
    size = min(size, 4 * population)
    result = torch.empty(0, dtype=torch.int64, device=graph.device)
    for _ in range(TRIES):
        drawn = torch.randint(population, (size,), device=graph.device)
        drawn = torch.cat([result, drawn]).sort().values  # neighbours in memory are looked up so
        new = torch.ones_like(drawn, dtype=torch.bool)
        torch.ne(drawn[1:], drawn[:-1], out=new[1:])
        result = drawn[new & _without_edge(drawn, graph, symmetric)]
        if result.numel() >= count:
            break
    return result


def _unrank(pairs: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The k-th pair of different nodes."""
    row = pairs // max(n - 1, 1)
    col = pairs - row * max(n - 1, 1)
    return row, col + (col >= row)


def _without_edge(pairs: Tensor, graph: Graph, symmetric: bool) -> Tensor:
    row, col = _unrank(pairs, graph.num_src)
    keys = graph.layout.destinations() * graph.num_src + graph.layout.col
    there = _contains(keys, row * graph.num_src + col)
    if not symmetric:
        there |= _contains(keys, col * graph.num_src + row)
    return ~there


def _contains(sorted_keys: Tensor, requested: Tensor) -> Tensor:
    if sorted_keys.numel() == 0:
        return torch.zeros_like(requested, dtype=torch.bool)
    place = torch.searchsorted(sorted_keys, requested).clamp_(max=sorted_keys.numel() - 1)
    return sorted_keys[place] == requested
