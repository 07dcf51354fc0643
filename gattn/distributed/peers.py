"""Exchange of rows and of numbers between the processes of a torch.distributed group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class Peers:
    """Group of torch.distributed processes that exchange rows and numbers.

    Args:
        group: process group; None for all processes.

    Raises:
        RuntimeError: torch.distributed has not been initialised.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        if not dist.is_initialized():
            raise RuntimeError(
                "torch.distributed is not initialised: begin with "
                "`with gattn.distributed.init_processes():`, or call init_process_group"
            )
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def all_to_all(
        self, rows: Tensor, send_counts: Sequence[int], recv_counts: Sequence[int]
    ) -> PendingRows:
        """Start to send rows to each process, and return before the exchange has finished. All
        processes must make this call, with counts that fit.

        Args:
            rows: [s, w] of any dtype; the first ``send_counts[0]`` rows go to process 0, and so on.
            send_counts: number of rows for each process.
            recv_counts: number of rows that each process sends to this one.

        Returns:
            A function that waits for the exchange and returns the received rows,
            [sum(recv_counts), w].

        Raises:
            RuntimeError: another process has ended; also raised by the returned function.
        """
        # Rows are sent as bytes, because gloo does not support every dtype.
        sent = rows.contiguous().view(torch.uint8)
        received = sent.new_empty(sum(recv_counts), sent.shape[1])
        work = dist.all_to_all_single(
            received, sent, list(recv_counts), list(send_counts), group=self.group, async_op=True
        )

        def wait(sent: Tensor = sent) -> Tensor:
            """Wait for the exchange, and return the received rows."""
            # This default argument keeps the send buffer alive until the exchange has ended.
            assert work is not None
            work.wait()
            return received.view(rows.dtype)

        return wait

    def all_gather(self, numbers: Sequence[int], device: torch.device) -> list[list[int]]:
        """Return the numbers of every process. All processes must pass equally many numbers. Raises
        RuntimeError if another process has ended.
        """
        rows = torch.tensor([numbers] * self.size, device=device)
        gathered = self.all_to_all(rows, [1] * self.size, [1] * self.size)()
        return gathered.tolist()


PendingRows = Callable[[], Tensor]
"""Type of a function that waits for an exchange and returns the received rows."""
