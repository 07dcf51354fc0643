"""Compact storage of the model inputs of molecules.

A molecule takes about one kilobyte in this form, and ten kilobytes as tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.data import Molecules
from gattn.data.molecules.building import PackedMolecules, PackedRows
from gattn.data.molecules.counts import PackedCounts
from gattn.data.molecules.dataset import Positions, indices_of
from gattn.data.molecules.packing import PackedInputs

__all__ = ["PackedView", "join_pieces"]


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
    starts = np.cumsum([0, *(len(part.table) for part in parts)])
    order = [part.order + np.int32(start) for part, start in zip(parts, starts)]
    return PackedRows(np.concatenate(order), np.concatenate([part.table for part in parts]))


@dataclass(frozen=True, eq=False)
class PackedView(MoleculeInputs):
    """View of selected molecules; the data remain in the arrays of all molecules.

    Indexing copies no
    molecule. Graphs, counts and descriptors are expanded at each access, so read them one batch at
    a time.

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

    def __getitem__(self, positions: Positions) -> PackedView:
        """Return a view of the selected molecules; ``positions`` is a slice, a list, a tensor or
        a mask.
        """
        index = np.atleast_1d(indices_of(positions, len(self)).numpy())
        return replace(self, index=self.index[index])

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
