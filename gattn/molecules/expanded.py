"""What models read of molecules, whatever form it is held in; and the form that they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from gattn.data.molecules.dataset import Molecules, Positions, positions_of

__all__ = ["ExpandedInputs", "MoleculeInputs", "in_pieces", "places_of"]

Inputs = TypeVar("Inputs", bound="MoleculeInputs")


class MoleculeInputs(Protocol):
    """Molecules as models read them; ``inputs[positions]`` are some of them."""

    @property
    def molecules(self) -> Molecules:
        """The k graphs; their ``y`` has no columns."""
        ...

    @property
    def counts(self) -> Tensor:
        """[k, 2048] uint8, how often each Morgan environment of radius 2 occurs, at most 255."""
        ...

    @property
    def descriptors(self) -> Tensor:
        """[k, len(DESCRIPTORS)] float32, not scaled, finite."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self: Inputs, positions: Positions) -> Inputs: ...


@dataclass(frozen=True, eq=False)
class ExpandedInputs:
    """Inputs that stand in memory as models read them; see :class:`MoleculeInputs`."""

    molecules: Molecules
    counts: Tensor
    descriptors: Tensor

    def __len__(self) -> int:
        return len(self.molecules)

    def __getitem__(self, positions: Positions) -> ExpandedInputs:
        """Copy out the molecules at these positions (a slice, a list, a tensor or a mask)."""
        where = places_of(positions, len(self))
        return ExpandedInputs(self.molecules[where], self.counts[where], self.descriptors[where])


def in_pieces(inputs: Inputs, size: int) -> Iterator[Inputs]:
    """Cut inputs into pieces of at most so many molecules; no molecules are one piece of none."""
    if len(inputs) <= size:
        yield inputs
        return
    for begin in range(0, len(inputs), size):
        yield inputs[begin : begin + size]


def places_of(positions: Positions, count: int) -> Tensor:
    """Positions from 0, [k] int64."""
    return torch.atleast_1d(torch.as_tensor(positions_of(positions, count)))
