"""The processes that torchrun started: joined, watched, and ended together."""

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


class ProcessFailure(RuntimeError):
    """Another process died or failed; the message names it.

    Example:
        >>> from gattn.distributed import ProcessFailure
        >>> issubclass(ProcessFailure, RuntimeError)
        True
    """


@dataclass(frozen=True)
class Processes:
    """This process among those that share the work.

    Args:
        rank: the number of this process.
        size: how many there are.
        device: where this process computes.

    Example:
        >>> from gattn.distributed import connect
        >>> with connect() as processes:
        ...     (processes.rank, processes.size)
        (0, 1)
    """

    rank: int
    size: int
    device: torch.device


@contextlib.contextmanager
def connect(backend: str | None = None, *, timeout: float = TIMEOUT) -> Iterator[Processes]:
    """Join the processes that torchrun started, for the time of a ``with`` block.

    Without torchrun it is one process. The processes leave the block together. Where one dies or
    raises, the others end, too, each with a :class:`ProcessFailure` that names it: at once where
    the connection breaks, after ``timeout`` seconds where it merely hangs, and the few seconds in
    which the living give a sign.

    Args:
        backend: of torch.distributed; None for ``"nccl"`` where torch sees a CUDA device, and
            ``"gloo"`` elsewhere.
        timeout: seconds that a process waits for the others. It has to be longer than one is ahead
            of another, as after loading a larger part.

    Yields:
        This process's rank, the number of processes, and the device of this one: with nccl the CUDA
        device of its number on this machine.

    Raises:
        ProcessFailure: another process died or failed.
        RuntimeError: torch.distributed is initialised already.

    Example:
        >>> from gattn.distributed import connect
        >>> with connect() as processes:
        ...     processes.size
        1
    """
    if dist.is_initialized():
        raise RuntimeError("torch.distributed is initialised already; connect does that itself")
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    device = _device(backend)
    store, rank, size = _meet()
    watch = Watch(_own_connection(store, timeout), rank, size)
    with _terminable():
        try:
            dist.init_process_group(
                backend, store=dist.PrefixStore("gattn", store), rank=rank, world_size=size,
                timeout=datetime.timedelta(seconds=timeout),
                device_id=device if device.type == "cuda" else None,
            )  # fmt: skip
            yield Processes(rank, size, device)
            dist.barrier()
            watch.end(LEFT)
            dist.barrier()  # who keeps the store leaves after the others' last words
        except (RuntimeError, Terminated) as error:
            # What broke a collective is the death of another, more often than not.
            _ignore_termination()
            found = watch.find_dead()
            _leave(watch, LEFT if found else _last_words(error))
            if found:
                raise ProcessFailure(found) from error
            raise
        except BaseException as error:
            _leave(watch, _last_words(error))
            raise
        dist.destroy_process_group()


def _leave(watch: Watch, words: str) -> None:
    """Break the connections, upon which the others ask what happened."""
    watch.end(words)
    if dist.is_initialized():
        dist.destroy_process_group()
    watch.outlast()


class Terminated(SystemExit):
    """Another program asked this one to end, as torchrun does when a process has died."""


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """A request to end becomes an exception, so that this process can tell why it ends."""
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


def _ignore_termination() -> None:
    """This process ends anyhow, as soon as it has found out why."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _last_words(error: BaseException) -> str:
    return f"{FAILED}: {type(error).__name__}: {error}"


def _meet() -> tuple[dist.Store, int, int]:
    """The store through which the processes find each other; one in memory without torchrun."""
    if "RANK" not in os.environ:
        return dist.HashStore(), 0, 1
    return next(dist.rendezvous("env://"))


def _own_connection(store: dist.Store, timeout: float) -> dist.Store:
    """The store once more, apart from earlier attempts of torchrun to run this program."""
    if "RANK" in os.environ:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        limit = datetime.timedelta(seconds=timeout)
        store = dist.TCPStore(host, port, is_master=False, timeout=limit)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"gattn.distributed/{attempt}", store)


def _device(backend: str) -> torch.device:
    if backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
