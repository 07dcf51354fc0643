"""Small named graphs for special cases that attention layers often handle wrongly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gattn.graph import Graph


@dataclass(frozen=True)
class AwkwardGraph:
    """Graph, or batch of graphs, with a name, for testing a layer.

    Args:
        name: the special case of this graph, such as "one hub".
        edge_index: (source, destination) pairs, [2, e].
        size: (num_src, num_dst).
        index: graph of each source node, [num_src], ascending.
        num_graphs: number of graphs, g; a graph may have no node.
        bipartite: whether sources and destinations are different nodes.

    Example:
        >>> from gattn.testing import awkward_graphs
        >>> hub = next(case for case in awkward_graphs() if case.name == "one hub")
        >>> hub.graph()
        Graph(num_src=40, num_dst=40, num_edges=78, device='cpu')
    """

    name: str
    edge_index: Tensor
    size: tuple[int, int]
    index: Tensor
    num_graphs: int = 1
    bipartite: bool = False

    def graph(self) -> Graph:
        """Return the edges as a :class:`gattn.Graph`."""
        return Graph(self.edge_index, self.size)


def awkward_graphs(
    *, dtype: torch.dtype = torch.int64, device: torch.device | str = "cpu"
) -> list[AwkwardGraph]:
    """Return graphs for special cases: no nodes, no edges, hubs, multi-edges and empty graphs.

    Args:
        dtype: dtype of edge_index and index, int32 or int64.
        device: device of the tensors.

    Returns:
        Named graphs, always in the same order with the same edges; bipartite graphs are last.

    Example:
        >>> from gattn.testing import awkward_graphs
        >>> [case.name for case in awkward_graphs()][:3]
        ['no nodes', 'one node', 'one node with a self-loop']
    """
    cases = [
        _square("no nodes", [], 0),
        _square("one node", [], 1),
        _square("one node with a self-loop", [(0, 0)], 1),
        _square("no edges", [], 5),
        _square("isolated nodes", [(1, 3), (3, 1), (3, 5)], 7),
        _square("self-loops", [(0, 0), (0, 1), (1, 1), (2, 1), (2, 2)], 4),
        _square("multi-edges", [(0, 1), (0, 1), (2, 1), (0, 1), (1, 2), (1, 2)], 3),
        _square("one hub", [e for i in range(1, 40) for e in [(i, 0), (0, i)]], 40),
        _square("edges in no order", [(3, 0), (0, 3), (1, 0), (2, 3), (0, 1), (3, 3), (2, 0)], 4),
        _square("complete", [(j, i) for i in range(6) for j in range(6)], 6),
        _square("two graphs", [(0, 1), (1, 0), (2, 3), (3, 4), (4, 2)], 5, sizes=[2, 3]),
        _square("an empty graph in the middle", [(0, 1), (1, 1), (2, 2)], 3, sizes=[2, 0, 1]),
        _square("an empty last graph", [(1, 0), (2, 1), (2, 0)], 3, sizes=[3, 0]),
        _square("only empty graphs", [], 0, sizes=[0, 0]),
        _bipartite("bipartite", [(0, 1), (4, 1), (2, 0), (3, 2), (3, 2)], (5, 3)),
        _bipartite("bipartite to one node", [(j, 0) for j in range(9)], (9, 1)),
        _bipartite("bipartite without sources", [], (0, 3)),
        _bipartite("bipartite without destinations", [], (3, 0)),
    ]
    return [
        replace(
            case,
            edge_index=case.edge_index.to(device, dtype),
            index=case.index.to(device, dtype),
        )
        for case in cases
    ]


def random_graphs(count: int = 4, *, seed: int = 0, bipartite: bool = False) -> list[AwkwardGraph]:
    """Return random batches of graphs with multi-edges, self-loops, isolated nodes and empty
    graphs.

    Args:
        count: number of batches.
        seed: seed of the random generator.
        bipartite: whether sources and destinations are different nodes.

    Returns:
        ``count`` batches of 2 to 5 graphs with 0 to 12 nodes; the edges are in random order.

    Example:
        >>> from gattn.testing import random_graphs
        >>> len(random_graphs(3, seed=1))
        3
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    cases = []
    for number in range(count):
        num_graphs = int(draw(2, 6, ()))
        src_sizes = draw(0, 13, (num_graphs,))
        src_sizes[0] = 7
        dst_sizes = draw(0, 13, (num_graphs,)) if bipartite else src_sizes
        edges = []
        src_start = dst_start = 0
        for m, n in zip(src_sizes.tolist(), dst_sizes.tolist()):
            degree = 3 * max(m, n) if m and n else 0
            source = draw(0, max(m, 1), (degree,)) + src_start
            destination = draw(0, max(n, 1), (degree,)) + dst_start
            edges.append(torch.stack([source, destination]))
            src_start, dst_start = src_start + m, dst_start + n
        edge_index = torch.cat(edges, dim=1)
        edge_index = edge_index[:, torch.randperm(edge_index.shape[1], generator=generator)]
        index = torch.arange(num_graphs).repeat_interleave(src_sizes)
        name = f"random {'bipartite ' if bipartite else ''}batch {number} of seed {seed}"
        size = src_start, dst_start
        cases.append(AwkwardGraph(name, edge_index, size, index, num_graphs, bipartite))
    return cases


def _square(
    name: str, pairs: list[tuple[int, int]], num_nodes: int, sizes: list[int] | None = None
) -> AwkwardGraph:
    """Return an edge-case graph among nodes of one kind, divided into graphs of these sizes (None:
    one graph); ``pairs`` are (source, destination).
    """
    sizes = [num_nodes] if sizes is None else sizes
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return AwkwardGraph(name, _edges(pairs), (num_nodes, num_nodes), index, len(sizes))


def _bipartite(name: str, pairs: list[tuple[int, int]], size: tuple[int, int]) -> AwkwardGraph:
    index = torch.zeros(size[0], dtype=torch.int64)
    return AwkwardGraph(name, _edges(pairs), size, index, bipartite=True)


def _edges(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t().contiguous()
