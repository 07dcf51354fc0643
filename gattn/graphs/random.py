"""Random regular graphs (expanders) for sparse attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.edge_input import check_count
from gattn.graphs.blocks import Device, as_device, check_sizes
from gattn.graphs.combine import from_batch
from gattn.kernels.philox import philox


def expander(sizes: Sequence[int], degree: int, *, seed: int = 0, device: Device = None) -> Graph:
    r"""Build a random regular graph (an expander), in which each node attends to ``degree`` others.

    .. math::
        E = \bigcup_{t=1}^{\lfloor d/2 \rfloor}
        \{\pi_t(s) \leftrightarrow \pi_t(s + 1 \bmod n)\} \;\cup\; M,
        \qquad \lambda_2(A) \approx 2 \sqrt{d - 1}

    The edges are random Hamiltonian cycles and, for odd d, a random perfect matching M. There are
    no repeated edges and no self-loops: if two cycles share an edge, the edge of the later one
    swaps ends with another edge. The first cycle is not changed, so a graph with d >= 2 is
    connected. The second eigenvalue of a random regular graph is close to the smallest possible
    with a probability that tends to one: with a spectral gap d - 2 sqrt(d - 1), information mixes
    among all n nodes within O(log n) layers.

    The edges depend only on the seed, the degree and the size of a graph: they are the same on
    every machine, with every version of torch, and at any position in a batch. They do not depend
    on the features, so permuting the nodes without the edges gives another graph.

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
    ptr = torch.tensor([0, *sizes], device="cpu").cumsum(0)
    pairs = [edges_by_size[size] + start for size, start in zip(sizes, ptr.tolist())]
    edges = torch.cat([torch.empty(2, 0, dtype=torch.int64, device="cpu"), *pairs], dim=1)
    return from_batch(edges.to(as_device(device)), ptr)


def _edges(nodes: int, degree: int, seed: int) -> Tensor:
    """Return the edges of an undirected graph in both directions, ordered by (destination,
    source): [2, e].
    """
    degree += nodes * degree % 2
    if 2 * degree < nodes:
        pairs = _regular(nodes, degree, seed)
        source, destination = torch.cat([pairs, pairs.flip(0)], dim=1)
        order = (destination * nodes + source).argsort()
        return torch.stack([source[order], destination[order]])
    others = ~torch.eye(nodes, dtype=torch.bool, device="cpu")
    # The complement of a regular graph is also regular, so for a high degree only the complement is
    # drawn.
    if degree < nodes - 1:
        excluded = _regular(nodes, nodes - 1 - degree, seed)
        others[excluded[0], excluded[1]] = others[excluded[1], excluded[0]] = False
    return others.nonzero().t().flip(0)


def _regular(nodes: int, degree: int, seed: int) -> Tensor:
    """Draw a random regular graph of degree d < n / 2; each edge is returned in one direction:
    [2, n d / 2].
    """
    key = torch.tensor([seed ^ (nodes << 32)], device="cpu")
    orders = _orders(nodes, (degree + 1) // 2, key)
    cycles = orders[: degree // 2]
    pairs = [torch.stack([cycles.flatten(), cycles.roll(-1, 1).flatten()])]
    if degree % 2:
        pairs.append(orders[-1].view(-1, 2).t())
    return _without_repeats(torch.cat(pairs, dim=1), nodes, _words(key, 2 * orders.numel()))


def _orders(nodes: int, count: int, key: Tensor) -> Tensor:
    """Draw random permutations of the nodes, [count, n], by sorting random 63-bit integers."""
    first, second = philox(key, torch.arange(2 * count * nodes, device="cpu")).view(2, count, nodes)
    return (first << 31 | second >> 1).argsort(dim=1, stable=True)


def _words(key: Tensor, start: int) -> Iterator[int]:
    """Yield random 32-bit integers, beginning at position ``start`` of the random stream."""
    while True:
        yield from philox(key, torch.arange(start, start + 1024, device="cpu")).tolist()
        start += 1024


def _without_repeats(pairs: Tensor, nodes: int, words: Iterator[int]) -> Tensor:
    """Replace repeated edges by exchanging their end nodes with those of random edges, which
    preserves all degrees.

    A repeated edge a - b and another edge c - e are replaced by a - c and b - e. The first n edges
    form a cycle and are not changed. For degrees below n / 2 a suitable edge c - e always exists:
    the edges after
    the cycle are n (d - 2), counted in both directions; at most d (d - 2) of them begin at a or a
    neighbour of a, and at most d (d - 2) end at b or a neighbour of b.
    """
    edges = _Edges(pairs, nodes)
    for repeated in edges.repeated():
        a, b = edges.at(repeated)
        while edges.copies(a, b) > 1:
            word = next(words) % (2 * (pairs.shape[1] - nodes))
            position = nodes + word // 2
            c, e = edges.at(position)[:: -1 if word % 2 else 1]
            if a != c and b != e and not edges.copies(a, c) and not edges.copies(b, e):
                edges.replace(repeated, a, c)
                edges.replace(position, b, e)
                b = c
    return edges.pairs


class _Edges:
    """List of undirected edges in which edges can be replaced. It also counts the copies of each
    edge.
    """

    def __init__(self, pairs: Tensor, nodes: int) -> None:
        self.pairs, self.nodes = pairs, nodes
        self._keys, self._order = (pairs.amin(0) * nodes + pairs.amax(0)).sort(stable=True)
        self._count_changes = Counter[int]()

    def repeated(self) -> list[int]:
        """Return the positions of all edges that also occur earlier in the list."""
        return self._order[1:][self._keys.diff() == 0].sort().values.tolist()

    def at(self, position: int) -> list[int]:
        """Return the two nodes of the edge at a position in the list."""
        return self.pairs[:, position].tolist()

    def copies(self, a: int, b: int) -> int:
        """Return the number of edges between two nodes."""
        key = self._key(a, b)
        bounds = torch.tensor([key, key + 1], device="cpu")
        low, high = torch.searchsorted(self._keys, bounds).tolist()
        return high - low + self._count_changes[key]

    def replace(self, position: int, a: int, b: int) -> None:
        """Replace the edge at a position in the list by an edge between two other nodes."""
        self._count_changes[self._key(*self.at(position))] -= 1
        self._count_changes[self._key(a, b)] += 1
        self.pairs[:, position] = torch.tensor([a, b], device="cpu")

    def _key(self, a: int, b: int) -> int:
        """Return an integer that identifies the undirected edge between two nodes."""
        return min(a, b) * self.nodes + max(a, b)
