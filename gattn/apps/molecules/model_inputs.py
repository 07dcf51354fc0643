"""Inputs of a model: molecules as graphs, fingerprints and descriptors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from gattn.data.molecules.dataset import Molecules, Positions, indices_of
from gattn.data.molecules.pairs import count_pairs

__all__ = ["DescribedInputs", "ExpandedInputs", "MoleculeInputs"]

Self = TypeVar("Self", bound="MoleculeInputs")


class MoleculeInputs(ABC):
    """Inputs of a model for k molecules; ``inputs[positions]`` selects molecules."""

    @property
    @abstractmethod
    def molecules(self) -> Molecules:
        """Graphs of the k molecules; their ``y`` has no columns."""

    @property
    @abstractmethod
    def counts(self) -> Tensor:
        """Counts of Morgan environments of radius 2, at most 255: [k, 2048] uint8."""

    @property
    @abstractmethod
    def descriptors(self) -> Tensor:
        """Descriptors, finite and not scaled: [k, len(DESCRIPTORS)] float32."""

    @property
    def pairs(self) -> Tensor:
        """Counts of pairs of atoms with at most 6 bonds between them, at most 255: [k, 2048] uint8.
        They are counted at each access.
        """
        return torch.from_numpy(count_pairs(self.molecules.arrays))

    @property
    def extra_descriptors(self) -> Tensor:
        """Descriptor columns of the user, not scaled: [k, f] float64, with NaN for missing
        values.
        """
        return torch.empty(len(self), 0, dtype=torch.float64)

    @property
    def molecule_sizes(self) -> Tensor | None:
        """Number of atoms of each of the c molecules in a row, [k, c] int64; None if every row
        has one graph.
        """
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self: Self, positions: Positions) -> Self: ...


@dataclass(frozen=True, eq=False)
class ExpandedInputs(MoleculeInputs):
    """Inputs of a model for k molecules, stored as tensors; see :class:`MoleculeInputs`.

    ``pair_counts`` are the counts of atom pairs; None if those of the graphs are to be counted.
    """

    molecules: Molecules
    counts: Tensor
    descriptors: Tensor
    pair_counts: Tensor | None = None

    @property
    def pairs(self) -> Tensor:
        """Counts of atom pairs: [k, 2048] uint8."""
        return super().pairs if self.pair_counts is None else self.pair_counts

    def __len__(self) -> int:
        return len(self.molecules)

    def __getitem__(self, positions: Positions) -> ExpandedInputs:
        """Return copies of the selected molecules; ``positions`` is a slice, a list, a tensor or
        a mask.
        """
        index = torch.atleast_1d(indices_of(positions, len(self)))
        pairs = None if self.pair_counts is None else self.pair_counts[index]
        return ExpandedInputs(
            self.molecules[index], self.counts[index], self.descriptors[index], pairs
        )


@dataclass(frozen=True, eq=False)
class DescribedInputs(MoleculeInputs):
    """Model inputs of k molecules, to which descriptor columns of the user were added.

    Attributes:
        base: the inputs that are computed from the SMILES.
        columns: [k, f] float64, NaN where a value is missing.
    """

    base: MoleculeInputs
    columns: Tensor

    @property
    def molecules(self) -> Molecules:
        """Graphs of the k molecules."""
        return self.base.molecules

    @property
    def counts(self) -> Tensor:
        """Counts of Morgan environments: [k, 2048] uint8."""
        return self.base.counts

    @property
    def pairs(self) -> Tensor:
        """Counts of atom pairs: [k, 2048] uint8."""
        return self.base.pairs

    @property
    def descriptors(self) -> Tensor:
        """Descriptors that are computed from the SMILES: [k, len(DESCRIPTORS)] float32."""
        return self.base.descriptors

    @property
    def extra_descriptors(self) -> Tensor:
        """Descriptor columns of the user, [k, f] float64."""
        return self.columns

    @property
    def molecule_sizes(self) -> Tensor | None:
        """Number of atoms of each molecule in a row; None if every row has one graph."""
        return self.base.molecule_sizes

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, positions: Positions) -> DescribedInputs:
        """Return the selected molecules; ``positions`` is a slice, a list, a tensor or a mask."""
        index = torch.atleast_1d(indices_of(positions, len(self)))
        return DescribedInputs(self.base[index], self.columns[index])
