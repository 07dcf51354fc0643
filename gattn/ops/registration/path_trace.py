"""Trace of the decisions that an operator takes where torch's dispatcher does not see them.

:func:`gattn.explain_path` listens to it. An operator on the kernels of a backend is seen by the
dispatcher; the reference, and a function of edges, are plain PyTorch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gattn.ops.registration.backend import reference_reason


class PathEvent(NamedTuple):
    """One decision: which operator ran, on what, and why it is slow."""

    operator: str
    backend: str
    path: str
    reason: str


class PathListener(NamedTuple):
    """The events of one dry run, and the thread that runs it."""

    events: list[PathEvent]
    thread: int


listeners: list[PathListener] = []
"""The dry runs that are under way: empty in ordinary use, which is all that a hot path checks."""


@contextmanager
def listen() -> Iterator[list[PathEvent]]:
    """Collect the events of this thread."""
    listener = PathListener([], threading.get_ident())
    listeners.append(listener)
    try:
        yield listener.events
    finally:
        listeners[:] = [other for other in listeners if other is not listener]


def is_dry_run() -> bool:
    """Return True if this thread computes shapes alone, for :func:`gattn.explain_path`."""
    return any(listener.thread == threading.get_ident() for listener in listeners)


def report(operator: str, backend: str, path: str, reason: str = "") -> None:
    """Add an event to the dry runs of this thread."""
    for listener in listeners:
        if listener.thread == threading.get_ident():
            listener.events.append(PathEvent(operator, backend, path, reason))


def report_reference(operator: str, device_type: str) -> None:
    """Add the event of an operator in plain PyTorch, with the reason for it."""
    report(operator, "reference", "reference", reference_reason(device_type))
