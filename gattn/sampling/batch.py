"""Results of neighbour sampling, and the class that builds them one hop at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.sorting import lay_out_rows
from gattn.kernels import cpu
from gattn.kernels.sampling import Draw, Hop, sample_hop
from gattn.layout.layout import without_stats

__all__ = ["Batch", "EdgeType", "Sample", "TypedSample"]

EdgeType = tuple[str, str, str]
"""Edge type (source node type, relation, destination node type), as PyG's EdgeType."""


class Sample(NamedTuple):
    """Subgraph of L hops that was sampled around seed nodes.

    Attributes:
        nodes: [n] int64, the nodes of the batch: seed nodes first, then in order of discovery.
        edges: [e] int64, positions of the drawn edges among the edges of the graph.
        edge_index: [2, e] int64, sources and destinations of these edges as positions in
            ``nodes``, sorted by (destination, source).
        num_nodes: L + 1 ints, the number of seed nodes and of nodes that each hop discovered.
        num_edges: L ints, the number of edges of each hop.
        graph: the drawn edges among all nodes of the batch.
        layer_graphs: L bipartite graphs, first layer first. The graph of layer l has the edges of
            the first L - l hops (l = 0, 1, ...), from the nodes within L - l hops to the nodes
            within L - l - 1 hops, which are the first of the same nodes.

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.sampling import NeighborSampler
        >>> sampler = NeighborSampler(graphs.band([9], 1), [-1])
        >>> sample = sampler.sample(torch.tensor([4]), random_seed=0)
        >>> sample.nodes[sample.edge_index]
        tensor([[4, 3, 5],
                [4, 4, 4]])
    """

    nodes: Tensor
    edges: Tensor
    edge_index: Tensor
    num_nodes: list[int]
    num_edges: list[int]
    graph: Graph
    layer_graphs: list[Graph]


class TypedSample(NamedTuple):
    """Subgraph that was sampled from a graph with several node and edge types. It has the fields of
    :class:`Sample`.

    Attributes:
        nodes: for each node type, the nodes of the batch, [n] int64.
        edges: for each edge type, positions of the drawn edges in its graph, [e] int64.
        edge_index: for each edge type, sources and destinations of these edges, [2, e] int64.
        num_nodes: for each node type, L + 1 ints: seed nodes, then the nodes of each hop.
        num_edges: for each edge type, L ints: the number of edges of each hop.
        graph: for each edge type, the drawn edges among all nodes of its types.
        layer_graphs: for each of L layers, the bipartite graph of each edge type.

    Example:
        >>> import torch
        >>> from gattn import Graph
        >>> from gattn.sampling import TypedNeighborSampler
        >>> writes = Graph(torch.tensor([[0, 1, 1], [0, 0, 1]]), (2, 3))
        >>> sampler = TypedNeighborSampler({("author", "writes", "paper"): writes}, [-1])
        >>> sampler.sample({"paper": torch.tensor([0])}, random_seed=0).num_nodes
        {'author': [0, 2], 'paper': [1, 0]}
    """

    nodes: dict[str, Tensor]
    edges: dict[EdgeType, Tensor]
    edge_index: dict[EdgeType, Tensor]
    num_nodes: dict[str, list[int]]
    num_edges: dict[EdgeType, list[int]]
    graph: dict[EdgeType, Graph]
    layer_graphs: list[dict[EdgeType, Graph]]


class Batch:
    """Builder of a sample, which adds one hop at a time.

    Args:
        graphs: the graph of each edge type.
        seeds: the seed nodes of each node type, [b] int64.
        batch_index: for each node type, the position of each node in the batch: [m] int32, -1
            for nodes outside the batch. All entries must be -1 at first; written in place.
    """

    def __init__(
        self,
        graphs: dict[EdgeType, Graph],
        seeds: dict[str, Tensor],
        batch_index: dict[str, Tensor],
    ) -> None:
        self._graphs = graphs
        self._batch_index = batch_index
        self._nodes = {kind: [nodes] for kind, nodes in seeds.items()}
        self._hops: dict[EdgeType, list[Hop]] = {edge_type: [] for edge_type in graphs}
        # If a seed node occurs several times, its first position is used.
        for kind, nodes in seeds.items():
            order = torch.arange(nodes.numel(), dtype=torch.int32)
            batch_index[kind].scatter_reduce_(0, nodes, order, "amin", include_self=False)

    def sample_hop(
        self, num_neighbors: Mapping[EdgeType, int], replace: bool, random_seed: int
    ) -> None:
        """Sample edges into the nodes that the last hop added (in the first hop, into the seed
        nodes), and store them in the batch; the sources that are new get positions in
        ``batch_index``. Raises ValueError if the batch has almost 2**31 edges.
        """
        num_nodes = {kind: _total(nodes) for kind, nodes in self._nodes.items()}
        last_hop_offset = {
            kind: num_nodes[kind] - nodes[-1].numel() for kind, nodes in self._nodes.items()
        }
        empty = torch.empty(0, dtype=torch.int64)
        discovered = {kind: [empty] for kind in self._nodes}
        num_edges = sum(_total(hop.edges for hop in hops) for hops in self._hops.values())
        for edge_type, graph in self._graphs.items():
            source, _, destination = edge_type
            hop = sample_hop(
                graph.layout,
                self._nodes[destination][-1],
                self._batch_index[source],
                Draw(num_neighbors[edge_type], replace, random_seed, edge_offset=num_edges),
                (last_hop_offset[destination], num_nodes[source]),
            )
            self._hops[edge_type].append(hop)
            discovered[source].append(hop.nodes)
            num_nodes[source] += hop.nodes.numel()
            num_edges += hop.edges.numel()
        for kind, nodes in discovered.items():
            self._nodes[kind].append(_join(nodes))

    def finish(self) -> TypedSample:
        """Return the sample: concatenate the hops, of which there must be at least one, and build
        one graph for each layer.
        """
        nodes = {kind: _join(parts) for kind, parts in self._nodes.items()}
        num_nodes = {kind: [part.numel() for part in parts] for kind, parts in self._nodes.items()}
        layers: list[dict[EdgeType, Graph]] = []
        for edge_type, hops in self._hops.items():
            rows = _Rows.join(hops)
            num_src, num_dst = num_nodes[edge_type[0]], num_nodes[edge_type[2]]
            sizes = [(sum(num_src[: k + 1]), sum(num_dst[:k])) for k in range(len(hops), 0, -1)]
            layers = layers or [{} for _ in sizes]
            for layer, size in zip(layers, sizes):
                layer[edge_type] = rows.layer_graph(*size)
        return TypedSample(
            nodes=nodes,
            edges={
                edge_type: _join([hop.edges for hop in hops])
                for edge_type, hops in self._hops.items()
            },
            edge_index={
                edge_type: _join([hop.edge_index for hop in hops], dim=1)
                for edge_type, hops in self._hops.items()
            },
            num_nodes=num_nodes,
            num_edges={
                edge_type: [hop.edges.numel() for hop in hops]
                for edge_type, hops in self._hops.items()
            },
            graph={
                edge_type: _with_destinations(graph, nodes[edge_type[2]].numel())
                for edge_type, graph in layers[0].items()
            },
            layer_graphs=layers,
        )


class _Rows(NamedTuple):
    """CSR tensors of a batch. The first rows form the graph of a layer."""

    rowptr: Tensor
    col: Tensor
    perm: Tensor

    @classmethod
    def join(cls, hops: list[Hop]) -> _Rows:
        """Concatenate the CSR tensors of all hops."""
        col = _join([hop.source for hop in hops])
        perm = torch.arange(col.numel(), dtype=torch.int32)
        degrees = torch.cat([hop.offsets.diff() for hop in hops])
        rowptr = torch.zeros(degrees.numel() + 1, dtype=torch.int32)
        torch.cumsum(degrees, 0, out=rowptr[1:])
        return cls(rowptr, col, perm)

    def layer_graph(self, num_src: int, num_dst: int) -> Graph:
        """Return a bipartite graph from the first num_src sources to the first num_dst
        destinations.
        """
        rowptr = self.rowptr[: num_dst + 1]
        edges = int(rowptr[-1])
        layout = lay_out_rows(rowptr, self.col[:edges], self.perm[:edges], num_src)
        return Graph.from_layout(layout)


def _with_destinations(graph: Graph, num_dst: int) -> Graph:
    """Add destinations without edges, so that the graph has ``num_dst`` destinations."""
    layout = graph.layout
    empty_rows = layout.rowptr.new_full((num_dst - graph.num_dst,), graph.num_edges)
    rowptr = torch.cat([layout.rowptr, empty_rows])
    return Graph.from_layout(without_stats(rowptr, *layout[1:6]))


def _total(parts: Iterable[Tensor]) -> int:
    return sum(part.numel() for part in parts)


def _join(parts: list[Tensor], dim: int = 0) -> Tensor:
    """Concatenate tensors along a dimension, in memory of the CPU kernels; a single tensor is
    returned itself.
    """
    if len(parts) == 1:
        return parts[0]
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return torch.cat(parts, dim, out=cpu.empty(parts[0], *shape))
