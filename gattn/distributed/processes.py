"""Initialisation and termination of the processes that torchrun starts, with detection of
failures.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import torch
import torch.distributed as dist

from gattn.distributed.watch import FAILED, LEFT, Watch

TIMEOUT = 30.0
"""Default time in seconds for which a process waits for the others."""


class ProcessFailure(RuntimeError):
    """Raised if another process died or failed; the message names that process.

    Example:
        >>> from gattn.distributed import ProcessFailure
        >>> issubclass(ProcessFailure, RuntimeError)
        True
    """


@dataclass(frozen=True)
class Processes:
    """Rank and device of this process, and the total number of processes.

    Args:
        rank: rank of this process.
        size: number of processes.
        device: device on which this process computes.

    Example:
        >>> from gattn.distributed import init_processes
        >>> with init_processes() as processes:
        ...     (processes.rank, processes.size)
        (0, 1)
    """

    rank: int
    size: int
    device: torch.device


@contextlib.contextmanager
def init_processes(backend: str | None = None, *, timeout: float = TIMEOUT) -> Iterator[Processes]:
    """Initialise torch.distributed for the processes that torchrun started, inside a ``with``
    block.

    Without torchrun there is one process. Every process waits at the end of the block for the
    others. If one dies or raises an error, each of the others raises a :class:`ProcessFailure` that
    names it. They raise it at once if the connection breaks, or after ``timeout`` seconds if the
    process hangs, plus a few seconds to check which processes are alive. Inside the block, SIGTERM
    raises SystemExit in the main thread; with nccl, the CUDA device becomes the current one.

    Args:
        backend: backend of torch.distributed; None for ``"nccl"`` if torch finds a CUDA device, and
            else ``"gloo"``.
        timeout: seconds that a process waits for the others. Must exceed the time by which one
            process can be ahead of another, for example after loading a smaller part.

    Yields:
        The rank of this process, the number of processes, and the device of this one: with nccl the
        CUDA device with its local rank.

    Raises:
        ProcessFailure: another process died or failed.
        RuntimeError: torch.distributed is already initialised.

    Example:
        >>> from gattn.distributed import init_processes
        >>> with init_processes() as processes:
        ...     processes.size
        1
    """
    if dist.is_initialized():
        raise RuntimeError(
            "torch.distributed is already initialised; init_processes must initialise it itself"
        )
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    device = _device(backend)
    store, rank, size = _rendezvous()
    watch = Watch(_separate_connection(store, timeout), rank, size)
    with _raise_on_sigterm():
        try:
            dist.init_process_group(
                backend, store=dist.PrefixStore("gattn", store), rank=rank, world_size=size,
                timeout=datetime.timedelta(seconds=timeout),
                device_id=device if device.type == "cuda" else None,
            )  # fmt: skip
            yield Processes(rank, size, device)
            dist.barrier()
            watch.end(LEFT)
            # The process that hosts the store must wait until all others have written their status.
            dist.barrier()
        except (RuntimeError, Terminated) as error:
            # If a collective operation fails, the usual reason is that another process died.
            _ignore_sigterm()
            failure = watch.find_failure()
            _leave(watch, LEFT if failure else _final_status(error))
            if failure:
                raise ProcessFailure(failure) from error
            raise
        except BaseException as error:
            _leave(watch, _final_status(error))
            raise
        dist.destroy_process_group()


def _leave(watch: Watch, status: str) -> None:
    """Publish the final status of this process, and close its connections to the others. A process
    that hosts the store waits for the others to end.
    """
    watch.end(status)
    if dist.is_initialized():
        dist.destroy_process_group()
    watch.wait_for_others()


class Terminated(SystemExit):
    """Raised on SIGTERM, which torchrun sends to all processes when one of them has died."""


@contextlib.contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Raise :class:`Terminated` on SIGTERM in the main thread while the context lasts, so that this
    process can report why it ends. In another thread, do nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ignore_sigterm() -> None:
    """Ignore SIGTERM while this process ends, so that it can still determine the reason."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _final_status(error: BaseException) -> str:
    return f"{FAILED}: {type(error).__name__}: {error}"


def _rendezvous() -> tuple[dist.Store, int, int]:
    """Return torch's key-value store, the rank of this process and the number of processes.

    Without torchrun the store is in memory. torchrun passes the address of the store by environment
    variables; this waits for the store, and raises the errors of torch if it is not reached.
    """
    if "RANK" not in os.environ:
        return dist.HashStore(), 0, 1
    return next(dist.rendezvous("env://"))


def _separate_connection(store: dist.Store, timeout: float) -> dist.Store:
    """Open a second connection to the key-value store; its keys have a prefix for this attempt of
    torchrun. Reads the environment variables that torchrun sets; without them, the prefix is added
    to the store itself. Raises an error of torch if the store is not reached within ``timeout``
    seconds.
    """
    if "RANK" in os.environ:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        limit = datetime.timedelta(seconds=timeout)
        store = dist.TCPStore(host, port, is_master=False, timeout=limit)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"gattn.distributed/{attempt}", store)


def _device(backend: str) -> torch.device:
    """Return the device of this process: the CPU, or for NCCL the GPU with the number of the
    environment variable ``LOCAL_RANK``, which becomes the current device.
    """
    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
