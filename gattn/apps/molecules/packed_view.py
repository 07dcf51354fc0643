"""Compact storage of the model inputs of molecules.

A molecule takes about one kilobyte in this form, and ten kilobytes as tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gattn.data import ATOM_FEATURES, BOND_FEATURES, DESCRIPTORS, Molecules
from gattn.data.molecules.building import PackedMolecules, PackedRows
from gattn.data.molecules.counts import PackedCounts
from gattn.data.molecules.dataset import Positions, indices_of
from gattn.data.molecules.packing import PackedInputs
from gattn.data.molecules.pairs import count_pairs

__all__ = ["LAYOUT", "PackedView", "decode_texts", "join_pieces"]

UTF8 = ("utf-8", "surrogatepass")
"""Encoding of strings; invalid bytes of a table are stored as lone surrogates."""

POINTERS = ("atom_ptr", "bond_ptr", "count_ptr", "smiles_ptr", "canonical_ptr", "errors_ptr")
"""Names of the arrays of offsets. They have k + 1 entries for k molecules; the offsets of the
errors have n + 1 entries for n SMILES.
"""
LAYOUT: Mapping[str, tuple[type[np.generic], tuple[int, ...]]] = {
    "row_index": (np.int64, ()),  # [k]: index of each valid molecule among the n SMILES
    **dict.fromkeys(POINTERS, (np.int64, ())),
    "atoms": (np.int32, ()),  # for each atom, its row in atom_table
    "bonds": (np.int32, ()),  # for each bond, its row in bond_table
    "ends": (np.int32, (2,)),  # the two atoms of each bond, numbered within the molecule
    "atom_table": (np.float32, (len(ATOM_FEATURES),)),
    "bond_table": (np.float32, (len(BOND_FEATURES),)),
    "descriptors": (np.float32, (len(DESCRIPTORS),)),  # one row per molecule
    "columns": (np.int16, ()),  # fingerprint column of each nonzero count
    "counts": (np.uint8, ()),  # nonzero counts, in the order of ``columns``
    "smiles": (np.uint8, ()),
    "canonical": (np.uint8, ()),  # canonical SMILES of each molecule, as bytes
    "errors": (np.uint8, ()),  # error of each SMILES; empty if the SMILES is valid
}
Arrays = Mapping[str, np.ndarray]


def _increments(pieces: Iterable[PackedInputs]) -> Iterator[Arrays]:
    """Yield the rows to append to each array: first the initial rows, then the rows of each
    chunk.
    """
    yield {
        name: np.zeros((int(name in POINTERS), *shape), dtype)
        for name, (dtype, shape) in LAYOUT.items()
    }
    ends: dict[str, int] = dict.fromkeys((*POINTERS, "texts", "atom_table", "bond_table"), 0)
    for piece in pieces:
        molecules, counts = piece.molecules, piece.counts
        texts = {"smiles": molecules.smiles, "canonical": piece.canonical, "errors": piece.errors}
        encoded = {name: [text.encode(*UTF8) for text in lines] for name, lines in texts.items()}
        lengths = {
            "atom_ptr": molecules.sizes[0],
            "bond_ptr": molecules.sizes[1],
            "count_ptr": counts.lengths,
            **{f"{name}_ptr": np.array([*map(len, lines)]) for name, lines in encoded.items()},
        }
        increment = {
            "row_index": ends["texts"] + np.array(molecules.rows, np.int64),
            "atoms": molecules.atoms.order + np.int32(ends["atom_table"]),
            "bonds": molecules.bonds.order + np.int32(ends["bond_table"]),
            "ends": molecules.ends,
            "atom_table": molecules.atoms.table,
            "bond_table": molecules.bonds.table,
            "descriptors": piece.descriptors,
            "columns": counts.columns,
            "counts": counts.counts,
            **{name: np.frombuffer(b"".join(lines), np.uint8) for name, lines in encoded.items()},
        }
        for name, length in lengths.items():
            increment[name] = ends[name] + length.cumsum(dtype=np.int64)
            ends[name] += int(length.sum())
        ends["texts"] += len(piece.errors)
        for name in ("atom_table", "bond_table"):
            ends[name] += len(increment[name])
        yield increment


def join_pieces(pieces: Iterable[PackedInputs]) -> Arrays:
    """Concatenate chunks of packed molecules that have canonical SMILES; return one array for
    each name.
    """
    increments = list(_increments(pieces))
    return {name: np.concatenate([each[name] for each in increments]) for name in LAYOUT}


@dataclass(frozen=True, eq=False)
class PackedView:
    """View of selected molecules; the data remain in the arrays of all molecules.

    It has the interface of :class:`gattn.apps.molecules.inputs.MoleculeInputs`. Indexing copies no
    molecule. Graphs, counts and descriptors are expanded at each access, so read them one batch at
    a time.

    Attributes:
        arrays: all molecules, as :data:`LAYOUT` describes.
        index: [k] int64, the molecules of this view.
    """

    arrays: Arrays
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, positions: Positions) -> PackedView:
        """Return a view of the selected molecules; ``positions`` is a slice, a list, a tensor or
        a mask.
        """
        index = np.atleast_1d(indices_of(positions, len(self)).numpy())
        return PackedView(self.arrays, self.index[index])

    @property
    def molecules(self) -> Molecules:
        """Graphs of the k molecules, which are unpacked at each access."""
        arrays = self.arrays
        atoms, atom_counts = _ranges(arrays["atom_ptr"], self.index)
        bonds, bond_counts = _ranges(arrays["bond_ptr"], self.index)
        return PackedMolecules(
            decode_texts(arrays, "smiles", self.index),
            arrays["row_index"][self.index].tolist(),
            PackedRows(arrays["atoms"][atoms], arrays["atom_table"]),
            PackedRows(arrays["bonds"][bonds], arrays["bond_table"]),
            arrays["ends"][bonds],
            np.stack([atom_counts, bond_counts]),
        ).unpack()

    @property
    def counts(self) -> Tensor:
        """Counts of Morgan environments, [k, 2048] uint8, which are unpacked at each access."""
        entries, lengths = _ranges(self.arrays["count_ptr"], self.index)
        columns, counts = self.arrays["columns"][entries], self.arrays["counts"][entries]
        return torch.from_numpy(PackedCounts(lengths, columns, counts).unpack())

    @property
    def pairs(self) -> Tensor:
        """Counts of atom pairs, [k, 2048] uint8, which are counted at each access."""
        return torch.from_numpy(count_pairs(self.molecules.arrays))

    @property
    def descriptors(self) -> Tensor:
        """Descriptors, [k, len(DESCRIPTORS)] float32, which are copied at each access."""
        return torch.from_numpy(self.arrays["descriptors"][self.index])

    @property
    def extra_descriptors(self) -> Tensor:
        """Empty matrix [k, 0], because these inputs have no descriptor columns of the user."""
        return torch.empty(len(self), 0, dtype=torch.float64)

    @property
    def molecule_sizes(self) -> None:
        """None, because the graph of each row is one molecule."""
        return


def decode_texts(arrays: Arrays, name: str, index: np.ndarray | None = None) -> list[str]:
    """Return the strings in a packed array: all of them, or those at ``index``."""
    data, ptr = arrays[name], arrays[f"{name}_ptr"]
    starts, ends = (ptr[:-1], ptr[1:]) if index is None else (ptr[index], ptr[index + 1])
    return [
        data[start:end].tobytes().decode(*UTF8)
        for start, end in zip(starts.tolist(), ends.tolist())
    ]


def _ranges(ptr: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the integers from ``ptr[i]`` to ``ptr[i + 1] - 1`` for each i in ``index``, and the
    length of each of these ranges.
    """
    start = ptr[index]
    length = ptr[index + 1] - start
    end = length.cumsum()
    return (start - end + length).repeat(length) + np.arange(length.sum()), length
