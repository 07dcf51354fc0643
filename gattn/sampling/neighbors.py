"""Neighbour samplers for graphs with one or several edge types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.sampling.batch import Batch, EdgeType, Sample, TypedSample

__all__ = ["NeighborSampler", "TypedNeighborSampler"]

_ONLY: EdgeType = ("", "", "")
SEQUENTIAL_WRITES = 32
"""Number of sequential writes that take as much time as one random write.

It decides whether the index of a batch is reset by filling it or by writing single entries.
"""
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class NeighborSampler:
    """Sampler of the neighbourhoods of seed nodes in a graph.

    In hop k, ``num_neighbors[k]`` incoming edges are drawn uniformly for each node that was new in
    hop k - 1 (in the first hop, for each seed node). A draw depends on the random seed and the
    index of the edge in the batch: the same seed gives the same batch with any number of threads.

    W. Hamilton, R. Ying, J. Leskovec, "Inductive Representation Learning on Large Graphs"
    (NeurIPS 2017).

    Args:
        graph: a graph among n nodes, on the CPU.
        num_neighbors: number of edges to draw for each destination in each of the L hops; -1 draws
            all edges.
        replace: whether to draw with replacement. Without replacement, a node with fewer edges
            draws all of them.

    Raises:
        TypeError: the graph is not a Graph, or num_neighbors are not ints.
        ValueError: the graph is bipartite or not on the CPU, num_neighbors is empty, or one of its
            entries is below -1.

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.sampling import NeighborSampler
        >>> sampler = NeighborSampler(graphs.band([100], 2), [2, 2])
        >>> batch = sampler.sample(torch.tensor([10, 50]), random_seed=0)
        >>> batch.nodes[:2]
        tensor([10, 50])
        >>> [graph.size for graph in batch.layer_graphs][-1] == (sum(batch.num_nodes[:2]), 2)
        True
    """

    def __init__(
        self, graph: Graph, num_neighbors: Sequence[int], *, replace: bool = False
    ) -> None:
        check_graph("graph", graph)
        self._sampler = TypedNeighborSampler(
            {_ONLY: graph}, {_ONLY: num_neighbors}, replace=replace
        )

    def sample(self, seed_nodes: Tensor, *, random_seed: int) -> Sample:
        """Sample the neighbourhoods of seed nodes.

        Args:
            seed_nodes: [b] of an integer dtype, node indices; may be empty. The neighbours of a
                repeated node are sampled for each occurrence.
            random_seed: seed of the random generator, from 0 to 2**63 - 1.

        Returns:
            The sampled nodes and edges; empty without seed nodes.

        Raises:
            TypeError: seed_nodes is no integer tensor, or random_seed is not an int.
            ValueError: a seed node or random_seed is out of range, seed_nodes is not a vector, or
                the batch has 2**31 edges.
        """
        batch = self._sampler.sample({"": seed_nodes}, random_seed=random_seed)
        return Sample(
            nodes=batch.nodes[""],
            edges=batch.edges[_ONLY],
            edge_index=batch.edge_index[_ONLY],
            num_nodes=batch.num_nodes[""],
            num_edges=batch.num_edges[_ONLY],
            graph=batch.graph[_ONLY],
            layer_graphs=[graphs[_ONLY] for graphs in batch.layer_graphs],
        )


class TypedNeighborSampler:
    """Sampler of the neighbourhoods of seed nodes in a graph with several node and edge types.

    Args:
        graphs: for each edge type a graph from all nodes of one type to all nodes of another.
        num_neighbors: for each edge type the number of edges that a destination draws in each of
            the L hops, or one sequence for all edge types; -1 for all edges.
        replace: whether to draw with replacement.

    Raises:
        TypeError: a graph is not a Graph, or num_neighbors are not ints.
        ValueError: there is no graph, graphs disagree on the number of nodes of a type, a graph is
            not on the CPU, num_neighbors has other edge types or no hop, one of its entries is
            below -1, or edge types have different numbers of hops.

    Example:
        >>> import torch
        >>> from gattn import Graph
        >>> from gattn.sampling import TypedNeighborSampler
        >>> writes = Graph(torch.tensor([[0, 1, 1], [0, 0, 1]]), (2, 3))
        >>> sampler = TypedNeighborSampler({("author", "writes", "paper"): writes}, [-1])
        >>> sampler.sample({"paper": torch.tensor([1])}, random_seed=0).nodes["author"]
        tensor([1])
    """

    def __init__(
        self,
        graphs: Mapping[EdgeType, Graph],
        num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]],
        *,
        replace: bool = False,
    ) -> None:
        self.graphs = dict(graphs)
        self.replace = replace
        self.num_nodes = _sizes(self.graphs)
        if not isinstance(num_neighbors, Mapping):
            num_neighbors = dict.fromkeys(self.graphs, num_neighbors)
        self.num_neighbors = _check_num_neighbors(num_neighbors, self.graphs)
        self.num_hops = len(next(iter(self.num_neighbors.values())))
        self._free_indices: dict[str, list[Tensor]] = {kind: [] for kind in self.num_nodes}

    def sample(self, seed_nodes: Mapping[str, Tensor], *, random_seed: int) -> TypedSample:
        """Sample the neighbourhoods of seed nodes of one or more node types. Concurrent calls use
        different index tensors from a pool.

        Args:
            seed_nodes: for each node type [b] of an integer dtype, node indices.
            random_seed: seed of the random generator, from 0 to 2**63 - 1.

        Returns:
            The sampled nodes and edges of each type; empty without seed nodes.

        Raises:
            TypeError: seed_nodes are no integer tensors, or random_seed is not an int.
            ValueError: a node type or a seed node does not exist, seed_nodes are not vectors,
                random_seed is out of range, or the batch has 2**31 edges.
        """
        check_count("random_seed", random_seed)
        if random_seed >= 2**63:
            raise ValueError(f"random_seed must be below 2**63; got {random_seed}")
        unknown = [kind for kind in seed_nodes if kind not in self.num_nodes]
        if unknown:
            raise ValueError(f"seed_nodes must be of {list(self.num_nodes)}; got {unknown[0]!r}")
        empty = torch.empty(0, dtype=torch.int64)
        seeds = {
            kind: _check_seed_nodes(kind, seed_nodes.get(kind, empty), size)
            for kind, size in self.num_nodes.items()
        }
        batch_index = {kind: self._acquire_batch_index(kind) for kind in self.num_nodes}
        batch = Batch(self.graphs, seeds, batch_index)
        for hop in range(self.num_hops):
            num_neighbors = {
                edge_type: counts[hop] for edge_type, counts in self.num_neighbors.items()
            }
            batch.sample_hop(num_neighbors, self.replace, random_seed)
        sampled = batch.finish()
        # The index tensors are returned to the pool, and the next batch uses them again. After an
        # error they are discarded, because not all of their entries are -1.
        for kind, nodes in sampled.nodes.items():
            _reset(batch_index[kind], nodes)
            self._free_indices[kind].append(batch_index[kind])
        return sampled

    def _acquire_batch_index(self, kind: str) -> Tensor:
        """Return a tensor of -1 for all nodes of a type, [m] int32, which is removed from the pool;
        allocate one if the pool is empty.
        """
        try:
            return self._free_indices[kind].pop()
        except IndexError:
            return torch.full((self.num_nodes[kind],), -1, dtype=torch.int32)


def _reset(batch_index: Tensor, nodes: Tensor) -> None:
    """Set all entries to -1 again. Only the entries of the nodes in the batch differ from -1."""
    if batch_index.numel() < SEQUENTIAL_WRITES * nodes.numel():
        batch_index.fill_(-1)
    else:
        batch_index.index_fill_(0, nodes, -1)


def _sizes(graphs: dict[EdgeType, Graph]) -> dict[str, int]:
    """Return the number of nodes of each type; raise TypeError or ValueError if the graphs are
    inconsistent or not on the CPU.
    """
    if not graphs:
        raise ValueError("graphs must contain at least one edge type; got none")
    sizes: dict[str, int] = {}
    for edge_type, graph in graphs.items():
        if not isinstance(edge_type, tuple) or len(edge_type) != 3:
            raise TypeError(f"an edge type must be (source, name, destination); got {edge_type!r}")
        check_graph(f"graphs[{edge_type}]", graph)
        if graph.device.type != "cpu":
            raise ValueError(f"neighbours are sampled on the CPU; got a graph on {graph.device}")
        for kind, size in zip((edge_type[0], edge_type[2]), graph.size):
            if sizes.setdefault(kind, size) != size:
                of_type = f" of type {kind!r}" if kind else ""
                raise ValueError(
                    f"all edges must connect the same nodes{of_type}; got {sizes[kind]} and {size}"
                )
    return sizes


def _check_num_neighbors(
    num_neighbors: Mapping[EdgeType, Sequence[int]], graphs: dict[EdgeType, Graph]
) -> dict[EdgeType, list[int]]:
    """Return num_neighbors as a list for each edge type; raise TypeError or ValueError unless all
    edge types have lists of integers of at least -1, of one length above 0.
    """
    if set(num_neighbors) != set(graphs):
        raise ValueError(
            f"num_neighbors must have the edge types {list(graphs)}; got {list(num_neighbors)}"
        )
    for counts in num_neighbors.values():
        if not isinstance(counts, Iterable):
            raise TypeError(f"num_neighbors must be a list with an int per hop; got {counts!r}")
    by_type = {edge_type: list(num_neighbors[edge_type]) for edge_type in graphs}
    for counts in by_type.values():
        for count in counts:
            check_count("each of num_neighbors", count, least=-1)
    lengths = {len(counts) for counts in by_type.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"num_neighbors must have one number for each hop, and at least one hop; "
            f"got {list(by_type.values())}"
        )
    return by_type


def _check_seed_nodes(kind: str, seeds: Tensor, size: int) -> Tensor:
    """Return the seed nodes as [b] int64 on the CPU; raise TypeError unless they are integers, and
    ValueError unless they are [b] in range.
    """
    if not isinstance(seeds, Tensor) or seeds.dtype not in _INTEGERS:
        actual = seeds.dtype if isinstance(seeds, Tensor) else type(seeds).__name__
        raise TypeError(f"seed_nodes must be a tensor of integers; got {actual}")
    if seeds.dim() != 1:
        raise ValueError(f"seed_nodes must have shape (b,); got {tuple(seeds.shape)}")
    seeds = seeds.to("cpu", torch.int64)
    outside = ((seeds < 0) | (seeds >= size)).nonzero()
    if outside.numel():
        position = int(outside[0])
        of_type = f" of type {kind!r}" if kind else ""
        raise ValueError(
            f"seed_nodes{of_type} must be in [0, {size}); got {int(seeds[position])} at position "
            f"{position}"
        )
    return seeds
