"""Exchange of halo rows (features of nodes that other processes own) and of their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gattn.distributed.peers import Peers


@dataclass
class CommStats:
    """Counts of the bytes and messages that this process exchanged with the other processes.

    Args:
        bytes_sent: bytes that this process sent, forward and backward.
        bytes_received: bytes that this process received, forward and backward.
        exchanges: number of exchanges: one forward and one backward for each attention.

    Example:
        >>> from gattn.distributed import CommStats
        >>> CommStats()
        CommStats(bytes_sent=0, bytes_received=0, exchanges=0)
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    exchanges: int = 0

    def count(self, sent: Tensor, received: Tensor) -> None:
        """Add one exchange and its bytes to the statistics."""
        self.bytes_sent += sent.numel() * sent.element_size()
        self.bytes_received += received.numel() * received.element_size()
        self.exchanges += 1


@dataclass(frozen=True, eq=False)
class Halo:
    """Plan of which rows this process sends to, and receives from, each of the other processes.

    The sources of a process's edges, by ascending global id, are the halo nodes before the local
    nodes, then all local nodes, then the halo nodes after them. Edges sorted by this numbering
    are sorted as in the whole graph.
    """

    peers: Peers
    global_ids: Tensor
    """Global ids of all source nodes, [m] int64, in ascending order. A global id is a position
    in the partition's node order.
    """
    num_before: int
    """Number of halo nodes whose global ids are below the ids of the local nodes."""
    num_local: int
    """Number of local nodes, which are the nodes that this process owns."""
    send_index: Tensor
    """Indices of the local rows that are sent to other processes, [s] int64, grouped by process
    and ascending in each group.
    """
    send_counts: list[int]
    """Number of rows that this process sends to each process."""
    recv_counts: list[int]
    """Number of halo rows that this process receives from each process."""
    comm_stats: CommStats = field(default_factory=CommStats)

    @property
    def num_rows(self) -> int:
        """Number of source rows, m: the local rows and the halo rows."""
        return self.global_ids.numel()

    @classmethod
    def build(cls, sources: Tensor, bounds: Sequence[int], peers: Peers) -> Halo:
        """Determine the rows that this process needs from others, and send their ids to the owners.
        All processes must call this method.

        Args:
            sources: global ids of the sources of this process's edges, [e] int64.
            bounds: the bounds of the partition.
            peers: the processes.

        Returns:
            The halo of this process.

        Raises:
            RuntimeError: another process has ended.
        """
        first, last = bounds[peers.rank : peers.rank + 2]
        remote = sources[(sources < first) | (sources >= last)].unique()
        ends = torch.tensor(bounds, device=remote.device)
        starts = torch.searchsorted(remote, ends).tolist()
        recv_counts = [stop - start for start, stop in itertools.pairwise(starts)]
        send_counts = [row[peers.rank] for row in peers.all_gather(recv_counts, remote.device)]
        requests = peers.all_to_all(remote.unsqueeze(1), recv_counts, send_counts)().squeeze(1)
        local = torch.arange(first, last, device=remote.device)
        before = starts[peers.rank]
        global_ids = torch.cat([remote[:before], local, remote[before:]])
        return cls(
            peers, global_ids, before, last - first, requests - first, send_counts, recv_counts
        )

    def gather(self, rows: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the rows of all source nodes, [m, ...], given those of the local nodes, [n, ...];
        the bytes that are exchanged are added to ``comm_stats``.

        All tensors must have the same dtype, and all processes must call this method. Raises
        RuntimeError if another process has ended.
        """
        flat = [part.flatten(1) for part in rows]
        sent = torch.cat([part[self.send_index] for part in flat], 1)
        pending = self.peers.all_to_all(sent, self.send_counts, self.recv_counts)
        gathered = [part.new_empty(self.num_rows, *part.shape[1:]) for part in rows]
        for target, local in zip(gathered, rows):
            # Copy the local rows while the rows of other processes are being received.
            self._local(target).copy_(local)
        received = pending()
        self.comm_stats.count(sent, received)
        for target, part in zip(gathered, received.split([part.shape[1] for part in flat], 1)):
            before, after = self._remote(target)
            before.flatten(1).copy_(part[: self.num_before])
            after.flatten(1).copy_(part[self.num_before :])
        return tuple(gathered)

    def scatter_add(self, grads: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Send the gradients of halo rows, in ``grads`` [m, ...], to their owners, and return the
        gradients of the local rows, [n, ...], with the received gradients added.

        This is the transpose of :meth:`gather`. Sums run over the processes in rank order, so that
        two runs give the same bits. All processes must call this method. Raises RuntimeError if
        another process has ended.
        """
        sent = torch.cat([torch.cat(self._remote(grad)).flatten(1) for grad in grads], 1)
        pending = self.peers.all_to_all(sent, self.recv_counts, self.send_counts)
        sums = tuple(
            self._local(grad).clone(memory_format=torch.contiguous_format) for grad in grads
        )
        received = pending()
        self.comm_stats.count(sent, received)
        widths = [part.flatten(1).shape[1] for part in sums]
        blocks = received.split(self.send_counts)
        for rows, block in zip(self.send_index.split(self.send_counts), blocks):
            for target, part in zip(sums, block.split(widths, 1)):
                target.flatten(1).index_add_(0, rows, part)
        return sums

    def _local(self, rows: Tensor) -> Tensor:
        return rows.narrow(0, self.num_before, self.num_local)

    def _remote(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return rows[: self.num_before], rows[self.num_before + self.num_local :]


class Gather(torch.autograd.Function):
    """Autograd function for :meth:`Halo.gather`; its derivative is :meth:`Halo.scatter_add`."""

    @staticmethod
    def forward(ctx: Any, halo: Halo, *rows: Tensor) -> tuple[Tensor, ...]:
        """Return the rows of all source nodes, which are local rows and halo rows. Raises the
        errors of :meth:`Halo.gather`.
        """
        ctx.halo = halo
        return halo.gather(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients of the local rows. Raises the errors of :meth:`Halo.scatter_add`."""
        return None, *ScatterAdd.apply(ctx.halo, *grads)


class ScatterAdd(torch.autograd.Function):
    """Autograd function for :meth:`Halo.scatter_add`; its derivative is :meth:`Halo.gather`."""

    @staticmethod
    def forward(ctx: Any, halo: Halo, *grads: Tensor) -> tuple[Tensor, ...]:
        """Return the summed gradients of the local rows. Raises the errors of
        :meth:`Halo.scatter_add`.
        """
        ctx.halo = halo
        return halo.scatter_add(grads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        """Return the gradients of the rows that forward has summed. Raises the errors of
        :meth:`Halo.gather`.
        """
        return None, *Gather.apply(ctx.halo, *grads)
