"""Inputs of models side by side in a few arrays, and views that expand what a batch asks for.

Packed a molecule takes about a kilobyte, expanded ten. The arrays lie in memory, or in a file that
is mapped and not read (:mod:`gattn.molecules.store`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gattn.data import ATOM_FEATURES, BOND_FEATURES, DESCRIPTORS, Molecules
from gattn.data.molecules.building import PackedMolecules, PackedRows
from gattn.data.molecules.dataset import Positions
from gattn.data.molecules.fingerprints import PackedCounts
from gattn.data.molecules.packing import PackedInputs
from gattn.molecules.expanded import places_of

__all__ = ["FIELDS", "POINTERS", "InputsView", "PackedArrays", "additions", "decoded", "joined"]


class PackedArrays(NamedTuple):
    """Of n texts the k molecules that could be read, side by side.

    A pointer says where each one begins in the array that it belongs to, and where the last ends:
    [k + 1] int64, of ``errors`` [n + 1].

    Attributes:
        rows: [k] int64, the place of each among the n texts.
        atom_ptr: into ``atoms``.
        bond_ptr: into ``bonds`` and ``ends``.
        count_ptr: into ``places`` and ``counts``.
        smiles_ptr: into ``smiles``.
        canonical_ptr: into ``canonical``.
        errors_ptr: into ``errors``.
        atoms: int32, the row of each atom in ``atom_table``.
        bonds: int32, the row of each bond in ``bond_table``.
        ends: [., 2] int32, the two atoms of each bond, counted within the molecule.
        atom_table: [., len(ATOM_FEATURES)] float32.
        bond_table: [., len(BOND_FEATURES)] float32.
        descriptors: [k, len(DESCRIPTORS)] float32.
        places: int16, the Morgan environments that occur.
        counts: uint8, how often.
        smiles: uint8, texts in UTF-8.
        canonical: uint8, canonical SMILES.
        errors: uint8, why a text could not be read; empty where it could.
    """

    rows: np.ndarray
    atom_ptr: np.ndarray
    bond_ptr: np.ndarray
    count_ptr: np.ndarray
    smiles_ptr: np.ndarray
    canonical_ptr: np.ndarray
    errors_ptr: np.ndarray
    atoms: np.ndarray
    bonds: np.ndarray
    ends: np.ndarray
    atom_table: np.ndarray
    bond_table: np.ndarray
    descriptors: np.ndarray
    places: np.ndarray
    counts: np.ndarray
    smiles: np.ndarray
    canonical: np.ndarray
    errors: np.ndarray


POINTERS = {
    "atom_ptr": ("atoms",),
    "bond_ptr": ("bonds", "ends"),
    "count_ptr": ("places", "counts"),
    "smiles_ptr": ("smiles",),
    "canonical_ptr": ("canonical",),
    "errors_ptr": ("errors",),
}
"""What each pointer points into."""

FIELDS: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
    **dict.fromkeys(("rows", *POINTERS), (np.int64, ())),
    "atoms": (np.int32, ()),
    "bonds": (np.int32, ()),
    "ends": (np.int32, (2,)),
    "atom_table": (np.float32, (len(ATOM_FEATURES),)),
    "bond_table": (np.float32, (len(BOND_FEATURES),)),
    "descriptors": (np.float32, (len(DESCRIPTORS),)),
    "places": (np.int16, ()),
    **dict.fromkeys(("counts", "smiles", "canonical", "errors"), (np.uint8, ())),
}
"""The type of each array and the shape of its rows; larger types come first, which aligns them."""


def additions(pieces: Iterable[PackedInputs]) -> Iterator[PackedArrays]:
    """What each piece of a list of texts adds to the arrays of all of it.

    Args:
        pieces: in order, with canonical SMILES.

    Yields:
        The beginning, in which every pointer is 0, then what comes behind it of every piece.
    """
    yield PackedArrays(
        *(np.zeros((int(n in POINTERS), *row), kind) for n, (kind, row) in FIELDS.items())
    )
    ends = dict.fromkeys((*POINTERS, "texts", "atom_table", "bond_table"), 0)
    for piece in pieces:
        molecules, held = piece.molecules, piece.counts
        texts = {"smiles": molecules.smiles, "canonical": piece.canonical, "errors": piece.errors}
        encoded = {name: [text.encode(*UTF8) for text in some] for name, some in texts.items()}
        lengths = {
            "atom_ptr": molecules.sizes[0],
            "bond_ptr": molecules.sizes[1],
            "count_ptr": held.columns,
            **{f"{name}_ptr": np.array([*map(len, some)]) for name, some in encoded.items()},
        }
        added = {
            "rows": ends["texts"] + np.array(molecules.rows, np.int64),
            "atoms": molecules.atoms.order + np.int32(ends["atom_table"]),
            "bonds": molecules.bonds.order + np.int32(ends["bond_table"]),
            "ends": molecules.ends,
            "atom_table": molecules.atoms.table,
            "bond_table": molecules.bonds.table,
            "descriptors": piece.descriptors,
            "places": held.places,
            "counts": held.counts,
            **{name: np.frombuffer(b"".join(some), np.uint8) for name, some in encoded.items()},
        }
        for name, length in lengths.items():
            added[name] = ends[name] + length.cumsum(dtype=np.int64)
            ends[name] += int(length.sum())
        ends["texts"] += len(piece.errors)
        for name in ("atom_table", "bond_table"):
            ends[name] += len(added[name])
        yield PackedArrays(**added)


def joined(pieces: Iterable[PackedInputs]) -> PackedArrays:
    """Put the pieces of a list of texts together in memory."""
    return PackedArrays(*(np.concatenate(parts) for parts in zip(*additions(pieces))))


@dataclass(frozen=True, eq=False)
class InputsView:
    """Some molecules of packed arrays; see
    :class:`gattn.molecules.expanded.MoleculeInputs`.

    Taking some of them copies no molecule. What they consist of is expanded at each access, so it
    is asked for a batch at a time.

    Attributes:
        arrays: of all molecules.
        positions: [k] int64, of those viewed.
    """

    arrays: PackedArrays
    positions: np.ndarray

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, positions: Positions) -> InputsView:
        """View the molecules at these positions (a slice, a list, a tensor or a mask)."""
        where = places_of(positions, len(self)).numpy()
        return InputsView(self.arrays, self.positions[where])

    @property
    def molecules(self) -> Molecules:
        """The k graphs, made anew."""
        held, where = self.arrays, self.positions
        atoms, bonds = _Ranges.of(held.atom_ptr, where), _Ranges.of(held.bond_ptr, where)
        return PackedMolecules(
            decoded(held.smiles, held.smiles_ptr, where),
            held.rows[where].tolist(),
            PackedRows(held.atoms[atoms.places], held.atom_table),
            PackedRows(held.bonds[bonds.places], held.bond_table),
            held.ends[bonds.places],
            np.stack([atoms.lengths, bonds.lengths]),
        ).unpack()

    @property
    def counts(self) -> Tensor:
        """[k, 2048] uint8, made anew."""
        held, found = self.arrays, _Ranges.of(self.arrays.count_ptr, self.positions)
        return PackedCounts(
            found.lengths, held.places[found.places], held.counts[found.places]
        ).unpack()

    @property
    def descriptors(self) -> Tensor:
        """[k, len(DESCRIPTORS)] float32, made anew."""
        return torch.from_numpy(self.arrays.descriptors[self.positions])


def decoded(data: np.ndarray, ptr: np.ndarray, where: np.ndarray) -> list[str]:
    """The texts at these positions."""
    ends: Sequence[tuple[int, int]] = list(zip(ptr[where].tolist(), ptr[where + 1].tolist()))
    return [data[begin:end].tobytes().decode(*UTF8) for begin, end in ends]


UTF8 = ("utf-8", "surrogatepass")
"""Tables may carry bytes that are no text through as lone surrogates."""


class _Ranges(NamedTuple):
    """Ranges side by side: the places that they take, and their lengths."""

    places: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, ptr: np.ndarray, where: np.ndarray) -> _Ranges:
        """The ranges ``ptr[i]..ptr[i + 1]`` of some i."""
        begin = ptr[where]
        length = ptr[where + 1] - begin
        end = length.cumsum()
        first = begin - end + length
        return cls(first.repeat(length) + np.arange(length.sum()), length)
