"""Several processes that train together, as torchrun starts them."""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = ["is_first", "launch", "number_of_processes"]


def number_of_processes() -> int:
    """Count the processes that torchrun started together; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Tell whether this process is the one that writes files and talks to the user.

    Example:
        >>> is_first(), number_of_processes()
        (True, 1)
    """
    return int(os.environ.get("RANK", "0")) == 0


def launch(module: str, arguments: Sequence[str], processes: int) -> None:
    """Run a module in several processes on this machine, as ``torchrun`` does.

    Args:
        module: its dotted name, as for ``python -m``.
        arguments: of its command line.
        processes: how many; each is one of what the module trains in together.

    Raises:
        torch.distributed.elastic.multiprocessing.errors.ChildFailedError: one of them failed.
    """
    from torch.distributed.run import main

    counted = ["--standalone", "--nproc-per-node", str(processes)]
    main([*counted, "--module", module, *arguments])
