"""gattn's side of a case alone, which needs public names of gattn and inputs made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.core.timing import Run
from benchmarks.core.verify import Outcome


@dataclass(frozen=True)
class Alone:
    """gattn's side of a case and its timed functions."""

    outcome: Callable[[], Outcome]
    runs: Mapping[str, Run]


class HasOneSide(Protocol):
    """A case whose side of gattn can be measured alone."""

    name: str

    def inputs(self, scale: float) -> Any:
        """Inputs of the case: a data class or named tuple of tensors and numbers."""
        ...

    def alone(self, inputs: Any) -> Alone:
        """gattn's side on these inputs."""
        ...
