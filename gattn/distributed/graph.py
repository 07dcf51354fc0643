"""DistributedGraph: one process's part of a graph, which takes the place of the whole in layers."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gattn.distributed.halo import Gather, Halo, Traffic
from gattn.distributed.partition import Partition
from gattn.distributed.peers import Peers
from gattn.graph import Graph
from gattn.graph.edge_input import read_edges
from gattn.graph.sorting import check_range
from gattn.layout.layout import Layout

Group = dist.ProcessGroup | Peers | None


class DistributedGraph(Graph):
    r"""The edges into the nodes that this process owns, of a graph that several processes share.

    A layer takes it in place of a :class:`gattn.Graph`, with the features of the own nodes alone,
    [n_r, d], and gives the outputs of the own nodes. Keys and values of sources that other
    processes own (the *halo*) come by ``all_to_all`` before the attention, and their gradients
    return in the same way. Every process has to run the same layers in the same order, forward and
    backward.

    Make one by :meth:`from_edges` or :meth:`from_own_edges`, in all processes at once.

    Example:
        >>> import torch
        >>> from gattn.distributed import DistributedGraph, Partition, connect
        >>> from gattn.nn import GATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> x, conv = torch.randn(3, 16), GATConv(16, 8, heads=4)
        >>> with connect() as processes:  # one process, unless torchrun started more
        ...     partition = Partition.contiguous(3, processes.size)
        ...     graph = DistributedGraph.from_edges(edge_index, partition)
        ...     conv(x[graph.nodes], graph).shape
        torch.Size([3, 32])
    """

    partition: Partition
    halo: Halo
    """Which rows travel."""
    local: Graph
    """The edges of this process, from the m sources that they come from to its n_r nodes."""
    nodes: Tensor
    """The caller's numbers of the own nodes, [n_r] int64: ``x[graph.nodes]`` are their features."""
    edges: Tensor
    """Positions of the own edges among those that were given, [e_r] int64:
    ``edge_attr[graph.edges]`` are their features."""

    def __init__(self) -> None:
        raise TypeError("make a DistributedGraph by from_edges or from_own_edges")

    @classmethod
    def from_edges(
        cls, edges: Any, partition: Partition, *, group: Group = None
    ) -> DistributedGraph:
        """This process's part of a graph of which every process holds all edges.

        Args:
            edges: the whole graph, as :class:`gattn.Graph` takes it, the same in every process.
            partition: which process owns which nodes.
            group: the processes; None for all.

        Returns:
            The part; its edges are those into the own nodes, in the order in which they were given.

        Raises:
            TypeError: for edges of another type.
            ValueError: for an index out of range, a partition for other processes, or one that
                differs between processes, as the number of edges may not either.
        """
        peers = _peers(group, partition)
        source, destination, *_ = read_edges(edges, partition.num_nodes)
        _check_shared(peers, partition, source.device, source.numel())
        check_range(source, partition.num_nodes, "source")
        check_range(destination, partition.num_nodes, "destination")
        place = partition.places(destination)
        first, last = partition.bounds[peers.rank : peers.rank + 2]
        own = ((place >= first) & (place < last)).nonzero().squeeze(1)
        return cls._build(partition.places(source[own]), place[own], own, partition, peers)

    @classmethod
    def from_own_edges(
        cls, edge_index: Tensor, partition: Partition, *, group: Group = None
    ) -> DistributedGraph:
        """This process's part of a graph of which every process holds the edges into its own nodes.

        No process needs memory for more than these, its halo, and the order of the partition if it
        has one.

        Args:
            edge_index: pairs of a source and a destination by the caller's numbers, (2, e_r).
            partition: which process owns which nodes.
            group: the processes; None for all.

        Returns:
            The part, of all edges that were given.

        Raises:
            TypeError: for indices that are not int32 or int64.
            ValueError: for an index out of range, an edge into a node of another process, a
                partition for other processes, or one that differs between processes.
        """
        peers = _peers(group, partition)
        source, destination, *_ = read_edges(edge_index, partition.num_nodes)
        _check_shared(peers, partition, source.device)
        check_range(source, partition.num_nodes, "source")
        check_range(destination, partition.num_nodes, "destination")
        place = partition.places(destination)
        first, last = partition.bounds[peers.rank : peers.rank + 2]
        foreign = ((place < first) | (place >= last)).nonzero()
        if foreign.numel():
            edge = int(foreign[0])
            raise ValueError(
                f"process {peers.rank} must be given edges into its own nodes; got one into node "
                f"{int(destination[edge])} at edge {edge}, which is another's"
            )
        every = torch.arange(place.numel(), device=place.device)
        return cls._build(partition.places(source), place, every, partition, peers)

    @classmethod
    def _build(
        cls, source: Tensor, destination: Tensor, edges: Tensor, partition: Partition, peers: Peers
    ) -> DistributedGraph:
        """From places of both ends of the own edges."""
        halo = Halo.plan(source, partition.bounds, peers)
        first = partition.bounds[peers.rank]
        near = torch.stack([torch.searchsorted(halo.places, source), destination - first])
        local = Graph(near, (halo.num_rows, halo.num_own))
        nodes = partition.nodes(peers.rank, source.device)
        return cls._of(local, halo, partition, nodes, edges)

    @classmethod
    def _of(
        cls, local: Graph, halo: Halo, partition: Partition, nodes: Tensor, edges: Tensor
    ) -> DistributedGraph:
        """A part whose dropout is that of the whole graph: its edges are numbered as there."""
        counts = halo.peers.share([local.num_edges], local.device)
        before = sum(count for (count,) in counts[: halo.peers.rank])
        local = Graph.from_layout(local.layout, local.kept, before)
        graph = cls.__new__(cls)
        graph.__dict__.update(
            num_src=halo.num_own, num_dst=halo.num_own, num_edges=local.num_edges,
            device=local.device, kept=local.kept, blocks=None, derived={},
            partition=partition, halo=halo, local=local, nodes=nodes, edges=edges,
        )  # fmt: skip
        return graph

    @property
    def traffic(self) -> Traffic:
        """What went between this process and the others on behalf of this graph."""
        return self.halo.traffic

    def fetch_source_rows(self, *rows: Tensor) -> tuple[Graph, tuple[Tensor, ...]]:
        """Rows of all sources, [m, ...], and :attr:`local`, from the rows of the own nodes.

        A tensor that is given twice travels once.
        """
        for part in rows:
            if part.dim() < 2 or part.shape[0] != self.num_src:
                raise ValueError(
                    f"rows of the own nodes must have shape ({self.num_src}, ...), of two "
                    f"dimensions or more; got {tuple(part.shape)}"
                )
        unlike = list({id(part): part for part in rows}.values())
        if not unlike or self.halo.peers.size == 1:
            return self.local, rows
        found = dict(zip(map(id, unlike), Gather.apply(self.halo, *unlike)))
        return self.local, tuple(found[id(part)] for part in rows)

    def with_self_loops(self, first: int = 0) -> DistributedGraph:
        """As :meth:`gattn.Graph.with_self_loops`, one loop for each own node; in all processes."""
        local = self.local.with_self_loops(self.halo.num_before + first)
        return self._of(local, self.halo, self.partition, self.nodes, self.edges)

    def incidence(self) -> Graph:
        """The graph from this process's edges to its nodes."""
        return self.local.incidence()

    def in_degree(self) -> Tensor:
        """Number of edges into each own node: [n_r] int64."""
        return self.local.in_degree()

    @property
    def layout(self) -> Layout:
        """There is none: the sources of the edges are not the nodes whose rows a layer is given."""
        raise TypeError(
            "this needs the whole graph, and a DistributedGraph has one process's part of it. What "
            "runs on the operators of gattn.functional, as GATConv does, takes it; its edges are "
            "graph.local.edge_index, from graph.halo.places to graph.nodes"
        )

    def __repr__(self) -> str:
        peers = self.halo.peers
        return (
            f"DistributedGraph(process {peers.rank} of {peers.size}, num_nodes={self.num_dst} of "
            f"{self.partition.num_nodes}, num_edges={self.num_edges}, "
            f"halo={self.halo.num_rows - self.halo.num_own}, device={str(self.device)!r})"
        )


def _peers(group: Group, partition: Partition) -> Peers:
    """The processes, as many as the partition has parts."""
    peers = group if isinstance(group, Peers) else Peers(group)
    if partition.num_parts != peers.size:
        raise ValueError(
            f"partition must have {peers.size} parts, one for each process; got "
            f"{partition.num_parts}"
        )
    return peers


def _check_shared(peers: Peers, partition: Partition, device: torch.device, edges: int = 0) -> None:
    """Raise in every process unless all hold the same partition, and as many edges in common."""
    every = peers.share([partition.digest, edges], device)
    for name, held in zip(("partition", "number of edges"), zip(*every)):
        if other := next((rank for rank, one in enumerate(held) if one != held[0]), 0):
            raise ValueError(
                f"every process must be given the same {name}; that of process {other} is not that "
                "of process 0"
            )
