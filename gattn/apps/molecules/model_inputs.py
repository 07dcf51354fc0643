"""Inputs of a model: molecules as graphs, fingerprints and descriptors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.data.molecules.building import PackedMolecules, PackedRows
from gattn.data.molecules.counts import PackedCounts
from gattn.data.molecules.dataset import Molecules, Positions, indices_of
from gattn.data.molecules.packing import PackedInputs
from gattn.data.molecules.pairs import count_pairs

Self = TypeVar("Self", bound="MoleculeInputs")


class MoleculeInputs:
    """Inputs of a model for k molecules; ``inputs[positions]`` selects molecules.

    Attributes:
        molecules: graphs of the k molecules; their ``y`` has no columns.
        counts: counts of Morgan environments of radius 2, at most 255: [k, 2048] uint8.
        descriptors: descriptors, finite and not scaled: [k, len(DESCRIPTORS)] float32.
    """

    molecules: Molecules
    counts: Tensor
    descriptors: Tensor
    _columns: Tensor | None = None

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
        none = torch.empty(len(self), 0, dtype=torch.float64)
        return none if self._columns is None else self._columns

    def described(self: Self, columns: Tensor) -> Self:
        """Return the inputs with descriptor columns of the user, [k, f] float64."""
        inputs = copy.copy(self)
        object.__setattr__(inputs, "_columns", columns)
        return inputs

    @property
    def molecule_sizes(self) -> Tensor | None:
        """Number of atoms of each of the c molecules in a row, [k, c] int64; None if every row
        has one graph.
        """
        return None

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self: Self, positions: Positions) -> Self:
        """Return the selected molecules; ``positions`` is a slice, a list, a tensor or a mask."""
        index = torch.atleast_1d(indices_of(positions, len(self)))
        rows = self._take(index)
        return rows if self._columns is None else rows.described(self._columns[index])

    def _take(self: Self, index: Tensor) -> Self:
        """Return the molecules with these indices, without descriptor columns."""
        raise NotImplementedError


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

    def _take(self, index: Tensor) -> ExpandedInputs:
        """Return the inputs of the molecules at an index, int64 [k]."""
        pairs = None if self.pair_counts is None else self.pair_counts[index]
        return ExpandedInputs(
            self.molecules[index], self.counts[index], self.descriptors[index], pairs
        )


def join_pieces(pieces: Sequence[PackedInputs]) -> PackedInputs:
    """Concatenate chunks of packed molecules; there must be at least one."""
    parts = [piece.molecules for piece in pieces]
    starts = np.cumsum([0, *(len(piece.errors) for piece in pieces)]).tolist()
    molecules = PackedMolecules(
        [text for part in parts for text in part.smiles],
        [start + row for start, part in zip(starts, parts) for row in part.rows],
        _join_rows([part.atoms for part in parts]),
        _join_rows([part.bonds for part in parts]),
        np.concatenate([part.ends for part in parts]),
        np.concatenate([part.sizes for part in parts], 1),
    )
    return PackedInputs(
        molecules,
        PackedCounts(*map(np.concatenate, zip(*(piece.counts for piece in pieces)))),
        np.concatenate([piece.descriptors for piece in pieces]),
        [error for piece in pieces for error in piece.errors],
        [text for piece in pieces for text in piece.canonical],
    )


def _join_rows(parts: Sequence[PackedRows]) -> PackedRows:
    """Concatenate packed rows; the indices of each part are shifted by the rows before it."""
    starts = np.cumsum([0, *(len(part.table) for part in parts)])
    order = [part.order + np.int32(start) for part, start in zip(parts, starts)]
    return PackedRows(np.concatenate(order), np.concatenate([part.table for part in parts]))


@dataclass(frozen=True, eq=False)
class PackedView(MoleculeInputs):
    """View of selected molecules; the data remain in the arrays of all molecules.

    Indexing copies no molecule. Graphs, counts and descriptors are expanded at each access, so read
    them one batch at a time.

    Attributes:
        packed: all molecules.
        pointers: three arrays [k + 1] int64, the first atom, bond and count of each molecule.
        index: [k] int64, the molecules of this view.
    """

    packed: PackedInputs
    pointers: tuple[np.ndarray, ...]
    index: np.ndarray

    @classmethod
    def of(cls, packed: PackedInputs) -> PackedView:
        """Return a view of all molecules."""
        lengths = (*packed.molecules.sizes, packed.counts.lengths)
        pointers = (np.append(0, each.cumsum(dtype=np.int64)) for each in lengths)
        return cls(packed, tuple(pointers), np.arange(len(packed.molecules.smiles)))

    def __len__(self) -> int:
        return len(self.index)

    def _take(self, index: Tensor) -> PackedView:
        return replace(self, index=self.index[index.numpy()])

    @property
    def molecules(self) -> Molecules:
        """Graphs of the k molecules, which are unpacked at each access."""
        stored, index = self.packed.molecules, self.index.tolist()
        atoms, atom_counts = _ranges(self.pointers[0], self.index)
        bonds, bond_counts = _ranges(self.pointers[1], self.index)
        return PackedMolecules(
            [stored.smiles[i] for i in index],
            [stored.rows[i] for i in index],
            PackedRows(stored.atoms.order[atoms], stored.atoms.table),
            PackedRows(stored.bonds.order[bonds], stored.bonds.table),
            stored.ends[bonds],
            np.stack([atom_counts, bond_counts]),
        ).unpack()

    @property
    def counts(self) -> Tensor:
        """Counts of Morgan environments, [k, 2048] uint8, which are unpacked at each access."""
        stored = self.packed.counts
        entries, lengths = _ranges(self.pointers[2], self.index)
        counts = PackedCounts(lengths, stored.columns[entries], stored.counts[entries])
        return torch.from_numpy(counts.unpack())

    @property
    def descriptors(self) -> Tensor:
        """Descriptors, [k, len(DESCRIPTORS)] float32, which are copied at each access."""
        return torch.from_numpy(self.packed.descriptors[self.index])


def _ranges(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers from ``ptr[i]`` to ``ptr[i + 1] - 1`` for each i in ``index``, and the
    length of each of these ranges.
    """
    start = ptr[index]
    length = ptr[index + 1] - start
    end = length.cumsum()
    return (start - end + length).repeat(length) + np.arange(length.sum()), length
