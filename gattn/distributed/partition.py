"""Which process owns which nodes: consecutive ranges of an order of them."""

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
    """Consecutive ranges of nodes, one for each process.

    Process r owns the nodes at the places ``bounds[r]`` to ``bounds[r + 1] - 1`` of an order. Make
    one by :meth:`contiguous`, :meth:`from_parts` or :meth:`metis`; every process must hold the
    same one.

    Args:
        bounds: where each range begins, and the number of nodes at the end: p + 1 numbers.
        order: the caller's number of the node at each place, [n] int64; None where that is the
            place itself.

    Raises:
        ValueError: bounds that do not ascend from 0, or an order of another length.

    Example:
        >>> from gattn.distributed import Partition
        >>> Partition.contiguous(10, 4).bounds
        (0, 3, 6, 8, 10)
    """

    bounds: tuple[int, ...]
    order: Tensor | None = None

    def __post_init__(self) -> None:
        ascend = all(low <= high for low, high in itertools.pairwise(self.bounds))
        if len(self.bounds) < 2 or self.bounds[0] != 0 or not ascend:
            raise ValueError(f"bounds must ascend from 0, one more than parts; got {self.bounds}")
        if self.order is not None and self.order.shape != (self.num_nodes,):
            raise ValueError(
                f"order must have shape ({self.num_nodes},); got {tuple(self.order.shape)}"
            )

    @property
    def num_nodes(self) -> int:
        """Nodes of the whole graph."""
        return self.bounds[-1]

    @property
    def num_parts(self) -> int:
        """Processes that share them."""
        return len(self.bounds) - 1

    def nodes(self, part: int, device: torch.device | str | None = None) -> Tensor:
        """The caller's numbers of the nodes that a process owns: [n_r] int64."""
        first, last = self.bounds[part : part + 2]
        if self.order is None:
            return torch.arange(first, last, device=device)
        return self.order[first:last].to(device)

    def places(self, nodes: Tensor) -> Tensor:
        """The places in the order of nodes that are given by the caller's numbers: int64."""
        if self.order is None:
            return nodes.long()
        return self._places.to(nodes.device)[nodes.long()]

    @functools.cached_property
    def digest(self) -> int:
        """56 bits that tell partitions apart: processes compare these, and send no order."""
        order = b"" if self.order is None else self.order.long().cpu().numpy().tobytes()
        found = hashlib.sha256(repr(self.bounds).encode() + order)
        return int.from_bytes(found.digest()[:7], "big")

    @functools.cached_property
    def _places(self) -> Tensor:
        """The place of every node: [n] int64."""
        assert self.order is not None
        places = torch.arange(self.num_nodes, device=self.order.device)
        if not torch.equal(self.order.sort().values, places):
            raise ValueError(f"order must hold every node from 0 to {self.num_nodes - 1} once")
        return torch.empty_like(places).index_copy_(0, self.order, places)

    @classmethod
    def contiguous(cls, num_nodes: int, num_parts: int) -> Partition:
        """Ranges of the caller's own numbers, as even as they can be.

        Args:
            num_nodes: nodes of the whole graph.
            num_parts: processes.

        Returns:
            The partition; with fewer nodes than processes some own none.
        """
        check_count("num_nodes", num_nodes)
        check_count("num_parts", num_parts, 1)
        each, more = divmod(num_nodes, num_parts)
        return cls(tuple(each * r + min(r, more) for r in range(num_parts + 1)))

    @classmethod
    def from_parts(cls, part: Tensor, num_parts: int) -> Partition:
        """The partition that another program found.

        Args:
            part: the process that owns each node, [n] of any integer dtype.
            num_parts: processes.

        Returns:
            The partition; nodes of one process stay in the caller's order.

        Raises:
            ValueError: a number that is not in [0, num_parts).
        """
        check_count("num_parts", num_parts, 1)
        if part.dim() != 1 or part.is_floating_point():
            raise ValueError(
                f"part must hold an integer for each node, [n]; got {part.dtype} of shape "
                f"{tuple(part.shape)}"
            )
        outside = (part < 0) | (part >= num_parts)
        if outside.any():
            node = int(outside.nonzero()[0])
            raise ValueError(
                f"part must hold numbers in [0, {num_parts}); got {int(part[node])} for node {node}"
            )
        sizes = torch.bincount(part.long(), minlength=num_parts).tolist()
        return cls((0, *itertools.accumulate(sizes)), torch.argsort(part, stable=True))

    @classmethod
    def metis(cls, edges: Any, num_nodes: int, num_parts: int) -> Partition:
        """Parts that few edges leave, with about as many edges and nodes in each.

        It is found in one process, from the whole graph, with METIS (``pip install
        gattn[partition]``). The same edges give the same parts, so that every process may call it.

        Args:
            edges: the whole graph, as :class:`gattn.Graph` takes it.
            num_nodes: its nodes.
            num_parts: processes.

        Returns:
            The partition.

        Raises:
            ImportError: pymetis is not installed.

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
    """Compressed rows of the graph without directions, loops and repeated edges."""
    differ = source != destination
    source, destination = source[differ], destination[differ]
    keys = torch.cat([source * num_nodes + destination, destination * num_nodes + source]).unique()
    starts = torch.searchsorted(keys, torch.arange(num_nodes + 1) * num_nodes)
    return starts, keys % num_nodes
