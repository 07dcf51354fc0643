"""Random regular graphs (expanders) for sparse attention."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.edge_input import check_count
from gattn.graphs.blocks import Device, as_device, check_sizes


def expander(sizes: Sequence[int], degree: int, *, seed: int = 0, device: Device = None) -> Graph:
    r"""Build a random regular graph (an expander), in which each node attends to ``degree`` others.

    .. math:: \lambda_2(A) \approx 2 \sqrt{d - 1}

    The edges are those of ``networkx.random_regular_graph``: there are no repeated edges and no
    self-loops, and a graph with d >= 2 is connected. The second eigenvalue of a random regular
    graph is close to the smallest possible with a probability that tends to one: with a spectral
    gap d - 2 sqrt(d - 1), information mixes among all n nodes within O(log n) layers.

    The edges depend only on the seed, the degree and the size of a graph, and not on its position
    in a batch. They do not depend on the features, so permuting the nodes without the edges gives
    another graph.

    Args:
        sizes: number of nodes of each graph, n; for a PyG batch ``batch.ptr.diff().tolist()``.
        degree: d, number of edges into and out of each node. A graph with at most d + 1 nodes is
            complete, without self-loops. If n and d are both odd, no such graph exists, and d + 1
            is used.
        seed: random seed, from 0 to 2^63 - 1.
        device: device of the graph.

    Returns:
        The graph of sum(sizes) nodes, with each edge in both directions; edges ordered by
        (destination, source). Graphs with fewer than two nodes have no edges.

    Raises:
        TypeError: sizes is not a sequence of ints, or degree or seed is not an int.
        ValueError: a size, the degree or the seed is negative, or the seed is 2^63 or more.

    Reference:
        Shirzad et al., "Exphormer: sparse transformers for graphs" (ICML 2023); Friedman, "A proof
        of Alon's second eigenvalue conjecture" (STOC 2003).

    Example:
        >>> from gattn import graphs
        >>> graphs.expander([10, 7], 4, seed=1)
        Graph(num_src=17, num_dst=17, num_edges=68, device='cpu')
        >>> graphs.expander([10], 4, seed=1).in_degree().tolist()
        [4, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    """
    sizes = check_sizes("sizes", sizes)
    check_count("degree", degree)
    check_count("seed", seed)
    if seed >= 2**63:
        raise ValueError(f"seed must be < 2**63; got {seed}")
    edges_by_size = {size: _edges(size, degree, seed) for size in set(sizes)}
    starts = itertools.accumulate(sizes, initial=0)
    pairs = [edges_by_size[size] + start for size, start in zip(sizes, starts)]
    edges = torch.cat([torch.empty(2, 0, dtype=torch.int64, device="cpu"), *pairs], dim=1)
    return Graph(edges.to(as_device(device)), sum(sizes))


def _edges(nodes: int, degree: int, seed: int) -> Tensor:
    """Return the edges of a random regular graph, drawn from ``seed``, in both directions, ordered
    by (destination, source): [2, e] int64 on the CPU. For a degree above 2, a graph that is not
    connected is drawn again with the next seed.
    """
    degree = min(degree + nodes * degree % 2, max(nodes - 1, 0))
    if degree == 0:
        return torch.empty(2, 0, dtype=torch.int64, device="cpu")
    if degree == 2:
        # A random graph of degree 2 consists of several cycles.
        order = random.Random(seed).sample(range(nodes), nodes)
        pairs = list(zip(order, [*order[1:], order[0]]))
    else:
        import networkx

        graph = networkx.random_regular_graph(degree, nodes, seed)
        while degree > 2 and not networkx.is_connected(graph):
            seed += 1
            graph = networkx.random_regular_graph(degree, nodes, seed)
        pairs = list(graph.edges)
    half = torch.tensor(pairs, device="cpu").t()
    source, destination = torch.cat([half, half.flip(0)], dim=1)
    order = (destination * nodes + source).argsort()
    return torch.stack([source[order], destination[order]])
