"""The halo: rows of nodes that other processes own, fetched, and their gradients sent back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gattn.distributed.peers import Peers


@dataclass
class Traffic:
    """Rows that went between this process and the others, in bytes: payload, without headers.

    Args:
        bytes_sent: by this process, forward and backward.
        bytes_received: likewise.
        exchanges: how often rows went: once forward and once backward for each attention.

    Example:
        >>> from gattn.distributed import Traffic
        >>> Traffic()
        Traffic(bytes_sent=0, bytes_received=0, exchanges=0)
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    exchanges: int = 0

    def count(self, sent: Tensor, received: Tensor) -> None:
        """Add one exchange."""
        self.bytes_sent += sent.numel() * sent.element_size()
        self.bytes_received += received.numel() * received.element_size()
        self.exchanges += 1


@dataclass(frozen=True, eq=False)
class Halo:
    """Which rows travel between this process and the others.

    The sources of a process's edges, in ascending order, are the halo nodes that lie before its own
    nodes, all its own nodes, and the halo nodes that lie after them. Edges sorted by this numbering
    are sorted as in the whole graph.
    """

    peers: Peers
    places: Tensor
    """Places of all sources in the partition's order, ascending: [m] int64."""
    num_before: int
    """Halo nodes that lie before the own ones."""
    num_own: int
    wanted: Tensor
    """Own rows that others read, by process, ascending for each: [s] int64."""
    counts: list[int]
    """How many of them go to each process."""
    expected: list[int]
    """Halo rows that come from each process."""
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def num_rows(self) -> int:
        """Rows of all sources, m."""
        return self.places.numel()

    @classmethod
    def plan(cls, sources: Tensor, bounds: Sequence[int], peers: Peers) -> Halo:
        """Find out which rows this process reads, and ask the others for theirs.

        Args:
            sources: places of the sources of this process's edges, [e] int64.
            bounds: those of the partition.
            peers: the processes.
        """
        first, last = bounds[peers.rank : peers.rank + 2]
        needed = sources[(sources < first) | (sources >= last)].unique()
        ends = torch.tensor(bounds, device=needed.device)
        starts = torch.searchsorted(needed, ends).tolist()
        expected = [stop - start for start, stop in itertools.pairwise(starts)]
        counts = [row[peers.rank] for row in peers.share(expected, needed.device)]
        asked = peers.send(needed.unsqueeze(1), expected, counts)().squeeze(1)
        own = torch.arange(first, last, device=needed.device)
        before = starts[peers.rank]
        places = torch.cat([needed[:before], own, needed[before:]])
        return cls(peers, places, before, last - first, asked - first, counts, expected)

    def gather(self, rows: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Rows of all sources, [m, ...], from the own, [n, ...]: of tensors of one dtype."""
        flat = [part.flatten(1) for part in rows]
        sent = torch.cat([part[self.wanted] for part in flat], 1)
        arrival = self.peers.send(sent, self.counts, self.expected)
        found = [part.new_empty(self.num_rows, *part.shape[1:]) for part in rows]
        for whole, own in zip(found, rows):  # while the others' are under way
            self._own(whole).copy_(own)
        halo = arrival()
        self.traffic.count(sent, halo)
        for whole, part in zip(found, halo.split([part.shape[1] for part in flat], 1)):
            before, after = self._others(whole)
            before.flatten(1).copy_(part[: self.num_before])
            after.flatten(1).copy_(part[self.num_before :])
        return tuple(found)

    def give_back(self, grads: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The transpose of :meth:`gather`: what each process holds of a row, summed by its owner.

        Sums run over the processes in their order, so that two runs give the same bits.
        """
        sent = torch.cat([torch.cat(self._others(grad)).flatten(1) for grad in grads], 1)
        arrival = self.peers.send(sent, self.expected, self.counts)
        found = tuple(
            self._own(grad).clone(memory_format=torch.contiguous_format) for grad in grads
        )
        come = arrival()
        self.traffic.count(sent, come)
        widths = [own.flatten(1).shape[1] for own in found]
        for rows, block in zip(self.wanted.split(self.counts), come.split(self.counts)):
            for own, part in zip(found, block.split(widths, 1)):
                own.flatten(1).index_add_(0, rows, part)
        return found

    def _own(self, rows: Tensor) -> Tensor:
        return rows.narrow(0, self.num_before, self.num_own)

    def _others(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows[: self.num_before], rows[self.num_before + self.num_own :]


class Gather(torch.autograd.Function):
    """:meth:`Halo.gather`, whose derivative is :meth:`Halo.give_back`."""

    @staticmethod
    def forward(ctx: Any, halo: Halo, *rows: Tensor) -> tuple[Tensor, ...]:
        """The rows of all sources."""
        ctx.halo = halo
        return halo.gather(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """The gradients of the own rows."""
        return None, *GiveBack.apply(ctx.halo, *grads)


class GiveBack(torch.autograd.Function):
    """:meth:`Halo.give_back`, whose derivative is :meth:`Halo.gather`."""

    @staticmethod
    def forward(ctx: Any, halo: Halo, *grads: Tensor) -> tuple[Tensor, ...]:
        """The sums by the owners."""
        ctx.halo = halo
        return halo.give_back(grads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """The gradients of what was summed."""
        return None, *Gather.apply(ctx.halo, *grads)
