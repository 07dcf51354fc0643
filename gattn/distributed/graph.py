"""The class DistributedGraph: the part of a graph that belongs to one process."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gattn.distributed.halo import CommStats, Gather, Halo
from gattn.distributed.partition import Partition
from gattn.distributed.peers import Peers
from gattn.graph import Graph
from gattn.graph.edge_input import read_edges
from gattn.graph.sorting import check_range
from gattn.layout.layout import Layout

Group = dist.ProcessGroup | Peers | None


class DistributedGraph(Graph):
    r"""Part of a graph that one process owns: some of the nodes, and all edges that lead into these
    nodes.

    Layers accept it in place of a :class:`gattn.Graph`. A layer then takes the features of the
    local nodes only, [n_r, d], and returns the outputs of the local nodes. Keys and values of
    sources that other processes own (the *halo*) are fetched by ``all_to_all`` before the
    attention, and their gradients are sent back in the same way. Every process must run the same
    layers in the same order, forward and backward.

    Create one with :meth:`from_edges` or :meth:`from_local_edges`, in all processes at once.

    It subclasses Graph so that layers recognise it. It has its sizes, device and degrees,
    ``kept_edges``, ``with_self_loops`` and ``incidence``; any other use of the whole graph raises
    TypeError.

    Example:
        >>> import torch
        >>> from gattn.distributed import DistributedGraph, Partition, init_processes
        >>> from gattn.nn import GATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> x, conv = torch.randn(3, 16), GATConv(16, 8, heads=4)
        >>> with init_processes() as processes:  # one process without torchrun
        ...     partition = Partition.contiguous(3, processes.size)
        ...     graph = DistributedGraph.from_edges(edge_index, partition)
        ...     conv(x[graph.nodes], graph).shape
        torch.Size([3, 32])
    """

    partition: Partition
    halo: Halo
    """Plan for exchanging rows of node features with the other processes."""
    local: Graph
    """Edges of this process, as a bipartite graph from m source nodes to the process's n_r
    nodes.
    """
    nodes: Tensor
    """Indices of the nodes of this process, [n_r] int64; their features are ``x[graph.nodes]``."""
    edges: Tensor
    """Indices of the edges of this process, [e_r] int64; their features are
    ``edge_attr[graph.edges]``.
    """

    def __init__(self) -> None:
        raise TypeError("create a DistributedGraph with from_edges or from_local_edges")

    @classmethod
    def from_edges(
        cls, edges: Any, partition: Partition, *, group: Group = None
    ) -> DistributedGraph:
        """Create this process's part of a graph, if every process has all edges. All processes must
        call this method.

        Args:
            edges: the whole graph, as :class:`gattn.Graph` takes it, the same in every process.
            partition: assignment of the nodes to processes.
            group: process group; None for all processes.

        Returns:
            The part: the edges into the local nodes, in the caller's order.

        Raises:
            RuntimeError: torch.distributed is not initialised, or another process has ended.
            TypeError: edges have another type.
            ValueError: an index is out of range, the partition has another number of parts than
                there are processes, or the partition or the number of edges differs between
                processes.
        """
        peers = _peers(group, partition)
        source, destination, *_ = read_edges(edges, partition.num_nodes)
        _check_shared(peers, partition, source.device, source.numel())
        check_range(source, partition.num_nodes, "source")
        check_range(destination, partition.num_nodes, "destination")
        target = partition.global_ids(destination)
        first, last = partition.bounds[peers.rank : peers.rank + 2]
        local = ((target >= first) & (target < last)).nonzero().squeeze(1)
        source = partition.global_ids(source[local])
        return cls._build(source, target[local], local, partition, peers)

    @classmethod
    def from_local_edges(
        cls, edge_index: Tensor, partition: Partition, *, group: Group = None
    ) -> DistributedGraph:
        """Create this process's part of a graph, if each process has only the edges into its own
        nodes. All processes must call this method.

        A process needs memory for these edges, for its halo, and for the order of the partition
        unless that is None.

        Args:
            edge_index: [2, e_r], pairs of source and destination in the caller's numbering.
            partition: assignment of the nodes to processes.
            group: process group; None for all processes.

        Returns:
            The part, with all edges of ``edge_index``.

        Raises:
            RuntimeError: torch.distributed is not initialised, or another process has ended.
            TypeError: indices are not int32 or int64.
            ValueError: an index is out of range, an edge leads into a node of another process, the
                partition has another number of parts than there are processes, or it differs
                between processes.
        """
        peers = _peers(group, partition)
        source, destination, *_ = read_edges(edge_index, partition.num_nodes)
        _check_shared(peers, partition, source.device)
        check_range(source, partition.num_nodes, "source")
        check_range(destination, partition.num_nodes, "destination")
        target = partition.global_ids(destination)
        first, last = partition.bounds[peers.rank : peers.rank + 2]
        remote = ((target < first) | (target >= last)).nonzero()
        if remote.numel():
            edge = int(remote[0])
            raise ValueError(
                f"process {peers.rank} must get only edges into its nodes; got edge {edge}, "
                f"into node {int(destination[edge])} of another process"
            )
        edges = torch.arange(target.numel(), device=target.device)
        return cls._build(partition.global_ids(source), target, edges, partition, peers)

    @classmethod
    def _build(
        cls, source: Tensor, destination: Tensor, edges: Tensor, partition: Partition, peers: Peers
    ) -> DistributedGraph:
        """Create this process's part of a graph from the global node ids of its edges, ``source``
        and ``destination`` [e_r] int64, and their indices in the caller's order, ``edges`` [e_r].
        All processes must call this method; it raises RuntimeError if another process has ended.
        """
        halo = Halo.build(source, partition.bounds, peers)
        first = partition.bounds[peers.rank]
        pairs = torch.stack([torch.searchsorted(halo.global_ids, source), destination - first])
        local = Graph(pairs, (halo.num_rows, halo.num_local))
        nodes = partition.nodes(peers.rank, source.device)
        return cls._from_local_graph(local, halo, partition, nodes, edges)

    @classmethod
    def _from_local_graph(
        cls, local: Graph, halo: Halo, partition: Partition, nodes: Tensor, edges: Tensor
    ) -> DistributedGraph:
        """Create a DistributedGraph from the edges of this process, given as a bipartite graph.
        ``nodes`` and ``edges`` are the attributes of these names.

        The edges get the numbers that they have in the whole graph, so that dropout draws the same
        mask. All processes must call this method; it raises RuntimeError if another process has
        ended.
        """
        counts = halo.peers.all_gather([local.num_edges], local.device)
        edge_offset = sum(count for (count,) in counts[: halo.peers.rank])
        local = Graph.from_layout(local.layout, local.kept_edges, edge_offset)
        graph = cls.__new__(cls)
        graph.__dict__.update(
            num_src=halo.num_local, num_dst=halo.num_local, num_edges=local.num_edges,
            device=local.device, kept_edges=local.kept_edges, blocks=None, derived={},
            partition=partition, halo=halo, local=local, nodes=nodes, edges=edges,
        )  # fmt: skip
        return graph

    @property
    def comm_stats(self) -> CommStats:
        """Number of bytes and messages that this process has exchanged with others for this
        graph.
        """
        return self.halo.comm_stats

    def fetch_source_rows(self, *rows: Tensor) -> tuple[Graph, tuple[Tensor, ...]]:
        """Return :attr:`local`, and the rows of all its source nodes, [m, ...], given the rows of
        the local nodes.

        Rows of other processes are fetched from them. A tensor that is passed twice is sent once.
        All processes must make the same calls. Raises ValueError for rows of another shape, and
        RuntimeError if another process has ended.
        """
        for part in rows:
            if part.dim() < 2 or part.shape[0] != self.num_src:
                raise ValueError(
                    f"rows of the local nodes must have shape ({self.num_src}, ...), of two "
                    f"dimensions or more; got {tuple(part.shape)}"
                )
        unique = list({id(part): part for part in rows}.values())
        if not unique or self.halo.peers.size == 1:
            return self.local, rows
        gathered = dict(zip(map(id, unique), Gather.apply(self.halo, *unique)))
        return self.local, tuple(gathered[id(part)] for part in rows)

    def with_self_loops(self, first: int = 0) -> DistributedGraph:
        """Return the graph with one self-loop for each node, like
        :meth:`gattn.Graph.with_self_loops`; ``first`` is the local source that is destination 0.

        All processes must call it; it raises RuntimeError if another process has ended.
        """
        local = self.local.with_self_loops(self.halo.num_before + first)
        return self._from_local_graph(local, self.halo, self.partition, self.nodes, self.edges)

    def incidence(self) -> Graph:
        """Return the bipartite graph that connects each edge of this process to its destination."""
        return self.local.incidence()

    def in_degree(self) -> Tensor:
        """Return the number of edges into each node of this process: [n_r] int64."""
        return self.local.in_degree()

    @property
    def layout(self) -> Layout:
        """Raise TypeError, because a distributed graph has no layout of the whole graph."""
        raise TypeError(
            "this operation needs the whole graph; got a DistributedGraph, which is the part "
            "of one process. Layers and operators that call gattn.functional, such as "
            "GATConv, accept it; its edges are graph.local.edge_index, from "
            "graph.halo.global_ids to graph.nodes"
        )

    def __repr__(self) -> str:
        """Return the process, the numbers of nodes, edges and fetched rows, and the
        device as text.
        """
        peers = self.halo.peers
        return (
            f"DistributedGraph(process {peers.rank} of {peers.size}, num_nodes={self.num_dst} of "
            f"{self.partition.num_nodes}, num_edges={self.num_edges}, "
            f"halo={self.halo.num_rows - self.halo.num_local}, device={str(self.device)!r})"
        )


def _peers(group: Group, partition: Partition) -> Peers:
    """Return the processes of a group; raise ValueError if their number differs from the number of
    parts in the partition, and RuntimeError if torch.distributed is not initialised.
    """
    peers = group if isinstance(group, Peers) else Peers(group)
    if partition.num_parts != peers.size:
        raise ValueError(
            f"partition must have {peers.size} parts, one for each process; got "
            f"{partition.num_parts}"
        )
    return peers


def _check_shared(peers: Peers, partition: Partition, device: torch.device, edges: int = 0) -> None:
    """Raise ValueError in every process if the partition or the number of edges is not the same in
    all processes. All processes must call this function; it raises RuntimeError if another process
    has ended.
    """
    gathered = peers.all_gather([partition.digest, edges], device)
    for name, values in zip(("partition", "number of edges"), zip(*gathered)):
        if other := next((rank for rank, value in enumerate(values) if value != values[0]), 0):
            raise ValueError(
                f"every process must get the same {name}; process {other} has a different "
                f"{name} than process 0"
            )
