"""Measurement of gattn's side of a case. It needs only public names of gattn, and inputs from
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.core.timing import Run
from benchmarks.core.verify import Outcome


@dataclass(frozen=True)
class Alone:
    """gattn's side of a case with its timed functions."""

    outcome: Callable[[], Outcome]
    runs: Mapping[str, Run]


class HasOneSide(Protocol):
    """Case in which gattn's side can be measured without its peer."""

    name: str

    def inputs(self, scale: float) -> Any:
        """Inputs of the case: a data class or named tuple of tensors and numbers."""
        ...

    def alone(self, inputs: Any) -> Alone:
        """Return gattn's side for these inputs."""
        ...
