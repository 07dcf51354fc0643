"""Samplers of the neighbourhoods of seeds, in graphs of one type of edges or of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.sampling.batch import Batch, EdgeType, Sample, TypedSample

__all__ = ["NeighborSampler", "TypedNeighborSampler"]

_ONLY: EdgeType = ("", "", "")
IN_ORDER = 32
"""So many numbers are written in order in the time that one takes at a random place."""
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class NeighborSampler:
    """Samples the neighbourhoods of seeds in a graph.

    In hop k each node that hop k - 1 met (in the first, each seed) draws ``num_neighbors[k]`` of
    its incoming edges, uniformly. The draw is keyed on the seed and the number of the edge in the
    batch: the same seed gives the same batch with any number of threads.

    W. Hamilton, R. Ying, J. Leskovec, "Inductive Representation Learning on Large Graphs"
    (NeurIPS 2017).

    Args:
        graph: among n nodes, on the CPU.
        num_neighbors: edges for each destination in each of the L hops; -1 for all.
        replace: whether an edge may be drawn again; else a node of fewer edges gives all.

    Raises:
        TypeError: for another kind of graph, or fan-outs that are no integers.
        ValueError: for a bipartite graph, one on another device, or a fan-out below -1.

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.sampling import NeighborSampler
        >>> sampler = NeighborSampler(graphs.band([100], 2), [2, 2])
        >>> batch = sampler.sample(torch.tensor([10, 50]), seed=0)
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

    def sample(self, seeds: Tensor, seed: int) -> Sample:
        """Sample around seeds, which may be none.

        Args:
            seeds: [b] integers, nodes; one that stands twice is sampled twice.
            seed: of the generator, from 0 up to 2**63 - 1.

        Raises:
            TypeError: for seeds that are no integers.
            ValueError: for a seed that is no node, or a batch of 2**31 edges.
        """
        batch = self._sampler.sample({"": seeds}, seed)
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
    """Samples the neighbourhoods of seeds in a graph of several node and edge types.

    Args:
        graphs: for each edge type its edges, from all nodes of one type to all of another.
        num_neighbors: for each edge type how many edges a destination draws in each of the L hops,
            or one sequence for all; -1 for all edges.
        replace: whether an edge may be drawn again.

    Raises:
        TypeError: for another kind of graph, or fan-outs that are no integers.
        ValueError: for graphs that disagree on the number of nodes of a type, for one on another
            device than the CPU, for a fan-out below -1, or edge types with other numbers of hops.

    Example:
        >>> import torch
        >>> from gattn import Graph
        >>> from gattn.sampling import TypedNeighborSampler
        >>> writes = Graph(torch.tensor([[0, 1, 1], [0, 0, 1]]), (2, 3))
        >>> sampler = TypedNeighborSampler({("author", "writes", "paper"): writes}, [-1])
        >>> sampler.sample({"paper": torch.tensor([1])}, seed=0).nodes["author"]
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
        self.num_neighbors = _check_fan_outs(num_neighbors, self.graphs)
        self.num_hops = len(next(iter(self.num_neighbors.values())))
        self._spare: dict[str, list[Tensor]] = {kind: [] for kind in self.num_nodes}

    def sample(self, seeds: Mapping[str, Tensor], seed: int) -> TypedSample:
        """Sample around seeds of one or more node types.

        Args:
            seeds: for each node type [b] integers, nodes.
            seed: of the generator, from 0 up to 2**63 - 1.

        Raises:
            TypeError: for seeds that are no integers.
            ValueError: for a type or a seed that the graph lacks, or a batch of 2**31 edges.
        """
        check_count("seed", seed)
        if seed >= 2**63:
            raise ValueError(f"seed must be below 2**63; got {seed}")
        unknown = [kind for kind in seeds if kind not in self.num_nodes]
        if unknown:
            raise ValueError(f"seeds must be of {list(self.num_nodes)}; got {unknown[0]!r}")
        none = torch.empty(0, dtype=torch.int64)
        first = {
            kind: _check_seeds(kind, seeds.get(kind, none), size)
            for kind, size in self.num_nodes.items()
        }
        numbers = {kind: self._borrow(kind) for kind in self.num_nodes}
        batch = Batch(self.graphs, first, numbers)
        for hop in range(self.num_hops):
            num_neighbors = {
                edge_type: counts[hop] for edge_type, counts in self.num_neighbors.items()
            }
            batch.grow(num_neighbors, self.replace, seed)
        sampled = batch.finish()
        for kind, nodes in sampled.nodes.items():  # not reached by a sample that failed
            _forget(numbers[kind], nodes)
            self._spare[kind].append(numbers[kind])
        return sampled

    def _borrow(self, kind: str) -> Tensor:
        """The number in the batch of each node of a type: all -1; one for each running sample."""
        try:
            return self._spare[kind].pop()
        except IndexError:
            return torch.full((self.num_nodes[kind],), -1, dtype=torch.int32)


def _forget(numbers: Tensor, nodes: Tensor) -> None:
    """Take their numbers from the nodes of a batch, which are all that have one."""
    if numbers.numel() < IN_ORDER * nodes.numel():
        numbers.fill_(-1)
    else:
        numbers.index_fill_(0, nodes, -1)


def _sizes(graphs: dict[EdgeType, Graph]) -> dict[str, int]:
    """The number of nodes of each type, on which all graphs have to agree."""
    if not graphs:
        raise ValueError("graphs must hold at least one edge type; got none")
    found: dict[str, int] = {}
    for edge_type, graph in graphs.items():
        if not isinstance(edge_type, tuple) or len(edge_type) != 3:
            raise TypeError(f"an edge type must be (source, name, destination); got {edge_type!r}")
        check_graph(f"graphs[{edge_type}]", graph)
        if graph.device.type != "cpu":
            raise ValueError(f"neighbours are sampled on the CPU; got a graph on {graph.device}")
        for kind, size in zip((edge_type[0], edge_type[2]), graph.size):
            if found.setdefault(kind, size) != size:
                of_kind = f" of type {kind!r}" if kind else ""
                raise ValueError(
                    f"all edges must join the same nodes{of_kind}; got {found[kind]} and {size}"
                )
    return found


def _check_fan_outs(
    num_neighbors: Mapping[EdgeType, Sequence[int]], graphs: dict[EdgeType, Graph]
) -> dict[EdgeType, list[int]]:
    """The fan-outs of every edge type, as many for each."""
    if set(num_neighbors) != set(graphs):
        raise ValueError(
            f"num_neighbors must be of {list(graphs)}; got those of {list(num_neighbors)}"
        )
    for counts in num_neighbors.values():
        if not isinstance(counts, Iterable):
            raise TypeError(f"fan-outs must be a list with an int for each hop; got {counts!r}")
    found = {edge_type: list(num_neighbors[edge_type]) for edge_type in graphs}
    for counts in found.values():
        for count in counts:
            check_count("a fan-out", count, least=-1)
    lengths = {len(counts) for counts in found.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"num_neighbors must have one number for each hop, and at least one hop; "
            f"got {list(found.values())}"
        )
    return found


def _check_seeds(kind: str, seeds: Tensor, size: int) -> Tensor:
    """Seeds as [b] int64, within range."""
    if not isinstance(seeds, Tensor) or seeds.dtype not in _INTEGERS:
        came = seeds.dtype if isinstance(seeds, Tensor) else type(seeds).__name__
        raise TypeError(f"seeds must be a tensor of integers; got {came}")
    if seeds.dim() != 1:
        raise ValueError(f"seeds must have shape (b,); got {tuple(seeds.shape)}")
    seeds = seeds.to("cpu", torch.int64)
    outside = ((seeds < 0) | (seeds >= size)).nonzero()
    if outside.numel():
        position = int(outside[0])
        of_kind = f" of type {kind!r}" if kind else ""
        raise ValueError(
            f"seeds{of_kind} must be in [0, {size}); got {int(seeds[position])} at position "
            f"{position}"
        )
    return seeds
