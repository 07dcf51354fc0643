"""The processes of a group, as far as rows travel between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class Peers:
    """The processes of a group of torch.distributed.

    Args:
        group: the group; None for all processes.

    Raises:
        RuntimeError: torch.distributed has not been initialised.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        if not dist.is_initialized():
            raise RuntimeError(
                "torch.distributed is not initialised: begin with "
                "`with gattn.distributed.connect():`, or call init_process_group"
            )
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def send(self, rows: Tensor, counts: Sequence[int], expected: Sequence[int]) -> Arrival:
        """Begin to send each process its rows.

        Args:
            rows: [s, w] of any dtype; the first ``counts[0]`` rows go to process 0, and so on.
            counts: rows for each process.
            expected: rows that each process has for this one.

        Returns:
            What waits until the rows have come, and gives them: [sum(expected), w].
        """
        # Bytes, because gloo does not take every dtype.
        sent = rows.contiguous().view(torch.uint8)
        come = sent.new_empty(sum(expected), sent.shape[1])
        work = dist.all_to_all_single(
            come, sent, list(expected), list(counts), group=self.group, async_op=True
        )

        def wait(sent: Tensor = sent) -> Tensor:  # the buffer lives until it has been read
            assert work is not None
            work.wait()
            return come.view(rows.dtype)

        return wait

    def share(self, numbers: Sequence[int], device: torch.device) -> list[list[int]]:
        """The numbers of every process, each of which gives as many."""
        own = torch.tensor([numbers] * self.size, device=device)
        every = self.send(own, [1] * self.size, [1] * self.size)()
        return every.tolist()


Arrival = Callable[[], Tensor]
"""Waits for rows that are under way, and gives them."""
