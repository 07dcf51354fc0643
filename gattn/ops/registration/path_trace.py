"""Recording of how operators are executed, for :func:`gattn.explain_path`.

torch's dispatcher sees the operators that run on compiled kernels. It does not see the reference
implementation or a user's function of edges, because these are plain PyTorch. Such code calls a
function of this module.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from gattn.ops.registration.backend import reference_reason


class PathEvent(NamedTuple):
    """Record of an operator that ran: its backend, its path, and the reason if the path is slow."""

    operator: str
    backend: str
    path: str
    reason: str


class PathListener(NamedTuple):
    """List of the events of one dry run, with the identifier of the run's thread."""

    events: list[PathEvent]
    thread: int


listeners: list[PathListener] = []
"""Listeners of all dry runs that are in progress.

Ordinary calls check only that this list is empty, which takes almost no time."""


@contextmanager
def listen() -> Iterator[list[PathEvent]]:
    """Yield a list that collects this thread's events inside the ``with`` block."""
    listener = PathListener([], threading.get_ident())
    listeners.append(listener)
    try:
        yield listener.events
    finally:
        listeners[:] = [other for other in listeners if other is not listener]


def is_dry_run() -> bool:
    """Return True if this thread is inside :func:`gattn.explain_path`, which computes only
    shapes.
    """
    return any(listener.thread == threading.get_ident() for listener in listeners)


def report(operator: str, backend: str, path: str, reason: str = "") -> None:
    """Add an event to the lists of all dry runs in this thread."""
    for listener in listeners:
        if listener.thread == threading.get_ident():
            listener.events.append(PathEvent(operator, backend, path, reason))


def report_reference(operator: str, device_type: str) -> None:
    """Record that an operator runs in plain PyTorch, with the reason."""
    report(operator, "reference", "reference", reference_reason(device_type))
