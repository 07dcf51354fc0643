"""The class Partition, which assigns ranges of consecutive nodes to processes."""

from __future__ import annotations

import functools
import hashlib
import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gattn.graph.edge_input import check_count, read_edges


@dataclass(frozen=True, eq=False)
class Partition:
    """Assignment of a graph's nodes to processes. Each process owns a range of consecutive global
    ids.

    The *global id* of a node is its position in an order of all nodes. Process r owns the nodes
    with the global ids ``bounds[r]`` to ``bounds[r + 1] - 1``. Create a partition with
    :meth:`contiguous`, :meth:`from_parts` or :meth:`metis`; all processes must use the same one.

    Args:
        bounds: p + 1 ints: the first global id of each range, then the number of nodes.
        order: [n] int64, the caller's node index for each global id; None if they are equal.

    Raises:
        ValueError: bounds do not ascend from 0, or the order has another length.

    Example:
        >>> from gattn.distributed import Partition
        >>> Partition.contiguous(10, 4).bounds
        (0, 3, 6, 8, 10)
    """

    bounds: tuple[int, ...]
    order: Tensor | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless the bounds ascend from 0 and the order has one entry for each
        node.
        """
        ascend = all(low <= high for low, high in itertools.pairwise(self.bounds))
        if len(self.bounds) < 2 or self.bounds[0] != 0 or not ascend:
            raise ValueError(
                f"bounds must ascend from 0 and have one more entry than parts; got {self.bounds}"
            )
        if self.order is not None and self.order.shape != (self.num_nodes,):
            raise ValueError(
                f"order must have shape ({self.num_nodes},); got {tuple(self.order.shape)}"
            )

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self.bounds[-1]

    @property
    def num_parts(self) -> int:
        """Number of parts, one for each process."""
        return len(self.bounds) - 1

    def nodes(self, part: int, device: torch.device | str | None = None) -> Tensor:
        """Return the indices, in the caller's numbering, of the nodes in one part, by ascending
        global id: [n_r] int64.
        """
        first, last = self.bounds[part : part + 2]
        if self.order is None:
            return torch.arange(first, last, device=device)
        return self.order[first:last].to(device)

    def global_ids(self, nodes: Tensor) -> Tensor:
        """Convert node indices in the caller's numbering to global ids, int64."""
        if self.order is None:
            return nodes.long()
        return self._global_ids.to(nodes.device)[nodes.long()]

    @functools.cached_property
    def digest(self) -> int:
        """Hash of the partition (56 bits), by which processes check that their partitions are
        equal.
        """
        order = b"" if self.order is None else self.order.long().cpu().numpy().tobytes()
        content_hash = hashlib.sha256(repr(self.bounds).encode() + order)
        return int.from_bytes(content_hash.digest()[:7], "big")

    @functools.cached_property
    def _global_ids(self) -> Tensor:
        """Global id of each node, in the caller's numbering: [n] int64. Raises ValueError unless
        the order contains every node once.
        """
        assert self.order is not None
        ids = torch.arange(self.num_nodes, device=self.order.device)
        if not torch.equal(self.order.sort().values, ids):
            raise ValueError(f"order must contain every node from 0 to {self.num_nodes - 1} once")
        return torch.empty_like(ids).index_copy_(0, self.order, ids)

    @classmethod
    def contiguous(cls, num_nodes: int, num_parts: int) -> Partition:
        """Assign ranges of consecutive nodes to processes; the sizes of the ranges differ by at
        most one.

        Args:
            num_nodes: number of nodes of the whole graph.
            num_parts: number of processes.

        Returns:
            The partition; with fewer nodes than processes, some processes own no nodes.

        Raises:
            TypeError: a number is not an integer.
            ValueError: ``num_nodes`` is negative, or ``num_parts`` is below 1.
        """
        check_count("num_nodes", num_nodes)
        check_count("num_parts", num_parts, 1)
        size, remainder = divmod(num_nodes, num_parts)
        return cls(tuple(size * r + min(r, remainder) for r in range(num_parts + 1)))

    @classmethod
    def from_parts(cls, part: Tensor, num_parts: int) -> Partition:
        """Create a partition from the rank of the process that owns each node.

        Use this method for a partition that another program has computed.

        Args:
            part: [n] of any integer dtype, the rank of the process that owns each node.
            num_parts: number of processes.

        Returns:
            The partition; the nodes of each process stay in the caller's order.

        Raises:
            TypeError: ``num_parts`` is not an integer.
            ValueError: part is not a vector of integers or contains a number outside
                [0, num_parts), or ``num_parts`` is below 1.
        """
        check_count("num_parts", num_parts, 1)
        if part.dim() != 1 or part.is_floating_point():
            raise ValueError(
                f"part must contain an integer for each node, [n]; got {part.dtype} of shape "
                f"{tuple(part.shape)}"
            )
        outside = (part < 0) | (part >= num_parts)
        if outside.any():
            node = int(outside.nonzero()[0])
            raise ValueError(
                f"part must contain numbers in [0, {num_parts}); got {int(part[node])} "
                f"for node {node}"
            )
        sizes = torch.bincount(part.long(), minlength=num_parts).tolist()
        return cls((0, *itertools.accumulate(sizes)), torch.argsort(part, stable=True))

    @classmethod
    def metis(cls, edges: Any, num_nodes: int, num_parts: int) -> Partition:
        """Partition a graph with METIS, so that few edges connect different processes.

        All processes get about the same work. METIS runs in one process, on the whole graph, and
        must be installed (``pip install gattn[partition]``). The same edges always give the same
        parts, so every process may compute the partition itself.

        Args:
            edges: the whole graph, as :class:`gattn.Graph` takes it.
            num_nodes: number of nodes.
            num_parts: number of processes.

        Returns:
            The partition.

        Raises:
            ImportError: pymetis is not installed; not raised for one part or for no nodes.
            TypeError: edges have another type, or ``num_parts`` is not an integer.
            ValueError: ``num_parts`` is below 1, or ``num_nodes`` differs from the size of the
                edges.
            RuntimeError: under torch.jit.trace.

        Reference:
            Karypis, Kumar, "A fast and high quality multilevel scheme for partitioning irregular
            graphs" (SIAM J. Sci. Comput. 1998).
        """
        check_count("num_parts", num_parts, 1)
        source, destination, *_ = read_edges(edges, num_nodes)
        if num_parts == 1 or num_nodes == 0:
            return cls.contiguous(num_nodes, num_parts)
        try:
            import pymetis
        except ImportError as error:
            raise ImportError(
                "Partition.metis needs pymetis: pip install gattn[partition]"
            ) from error
        starts, adjacent = _undirected(source.cpu().long(), destination.cpu().long(), num_nodes)
        work = torch.bincount(destination.cpu().long(), minlength=num_nodes) + 1
        _, part = pymetis.part_graph(
            num_parts,
            pymetis.CSRAdjacency(starts.numpy(), adjacent.numpy()),
            vweights=work.numpy(),
            options=pymetis.Options(seed=0),
        )
        return cls.from_parts(torch.tensor(part), num_parts)


def _undirected(source: Tensor, destination: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the undirected graph of directed edges, [e] int64 on the CPU, without parallel edges
    and self-loops as CSR offsets [n + 1] and neighbours, for METIS.
    """
    is_no_loop = source != destination
    source, destination = source[is_no_loop], destination[is_no_loop]
    keys = torch.cat([source * num_nodes + destination, destination * num_nodes + source]).unique()
    starts = torch.searchsorted(keys, torch.arange(num_nodes + 1) * num_nodes)
    return starts, keys % num_nodes
