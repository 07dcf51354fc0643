"""Graphs of RDKit molecules: rows of atom and bond features, joined for many molecules."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import torch

from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.dataset import Molecules
from gattn.data.molecules.environments import environments
from gattn.data.molecules.graph_reader import GraphReader, Graphs
from gattn.data.molecules.kinds import ATOMS, BONDS, Table
from gattn.data.molecules.smiles_text import text_with_marks
from gattn.data.molecules.stereo import Configurations

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["MoleculeBuilder", "PackedMolecules", "PackedRows", "Skeletons"]

READ = 1024
"""Number of molecules whose atoms and bonds are looked up together."""
OXYGEN = 8
Described = TypeVar("Described")
Kind = TypeVar("Kind", bound=Hashable)


class PackedRows(NamedTuple):
    """Rows with many repetitions: ``table[order]`` are all rows."""

    order: np.ndarray
    table: np.ndarray


class PackedMolecules(NamedTuple):
    """Molecules packed to a tenth of their memory, to send them between processes.

    Attributes:
        smiles: k texts.
        rows: k numbers of rows.
        atoms: of n atoms.
        bonds: of b bonds.
        ends: [b, 2] int32, the two atoms of each bond.
        sizes: [2, k] int32, how many atoms and bonds each molecule has.
    """

    smiles: list[str]
    rows: list[int]
    atoms: PackedRows
    bonds: PackedRows
    ends: np.ndarray
    sizes: np.ndarray

    def unpack(self) -> Molecules:
        """Expand the molecules, without targets."""
        forth = torch.from_numpy(self.ends).long()
        edges = torch.stack([forth, forth.flip(1)], 1).reshape(-1, 2)
        ptr = torch.zeros(2, len(self.smiles) + 1, dtype=torch.int64)
        ptr[:, 1:] = torch.from_numpy(self.sizes).cumsum(1)
        arrays = MoleculeArrays(
            torch.from_numpy(self.atoms.table[self.atoms.order]),
            edges.t().contiguous(),
            torch.from_numpy(self.bonds.table[self.bonds.order.repeat(2)]),
            ptr[0].clone(),
            2 * ptr[1],
        )
        return Molecules(
            self.smiles, arrays, torch.empty(len(self.smiles), 0), (), tuple(self.rows)
        )


class Skeletons(NamedTuple):
    """Columns of n atoms and b bonds of k molecules, from which descriptors are computed.

    Attributes:
        sizes: [k, 2] int64, how many atoms and bonds each has.
        elements: [n] int64, of each atom.
        charges: [n] int64, formal charges.
        degrees: [n] int64, bonds drawn.
        environments: [n] uint64, by which an atom with its neighbours is remembered.
        ends: [b, 2] int64, the two atoms of each bond, numbered through all molecules.
        orders: [b] int64, RDKit's numbers of bond types.
        in_ring: [b] bool.
    """

    sizes: np.ndarray
    elements: np.ndarray
    charges: np.ndarray
    degrees: np.ndarray
    environments: np.ndarray
    ends: np.ndarray
    orders: np.ndarray
    in_ring: np.ndarray


class MoleculeBuilder:
    """Collects RDKit molecules one by one, and joins their graphs."""

    def __init__(self) -> None:
        self._smiles: list[str] = []
        self._rows: list[int] = []
        self._reader = GraphReader()
        self._read: list[Graphs] = []
        self._labels: dict[int, Configurations] = {}

    def __len__(self) -> int:
        return len(self._smiles)

    def add(self, molecule: Mol, smiles: str, row: int = 0) -> None:
        """Add the RDKit molecule of a SMILES, and the number of its row."""
        self._reader.add(molecule, text_with_marks(smiles))
        self._smiles.append(smiles.strip())
        self._rows.append(row)
        if len(self._reader) == READ:
            self._finish()

    def pack(self) -> PackedMolecules:
        """Pack the molecules that were added."""
        graphs = self._graphs()
        return PackedMolecules(
            self._smiles,
            self._rows,
            _pack(ATOMS, graphs.atoms),
            _pack(BONDS, graphs.bonds),
            graphs.ends,
            np.ascontiguousarray(graphs.sizes.T, np.int32),
        )

    def skeletons(self) -> Skeletons:
        """Return the columns from which descriptors of the added molecules are computed.

        An environment names the element, degree, charge, hydrogens and aromaticity of an atom, the
        orders of its bonds, and the element, charge and aromaticity of its neighbours; of an
        oxygen, whose kind depends on what else its carbon holds, also the neighbours' own
        surroundings.
        """
        graphs = self._graphs()
        atoms, bonds, ends = graphs.atoms, graphs.bonds, graphs.ends + graphs.first_atoms()[:, None]
        element, degree, charge, _, aromatic = np.array(ATOMS.kinds, np.int64).reshape(-1, 5).T
        order, ring = np.array(BONDS.kinds, np.int64).reshape(-1, 2).T
        whole = _codes(ATOMS.kinds)
        seen = _codes(list(zip(element.tolist(), charge.tolist(), aromatic.tolist())))
        oxygen = element[atoms] == OXYGEN
        over = order.astype(np.uint64)[bonds]
        named = environments(whole[atoms], seen[atoms], oxygen, over, ends)
        return Skeletons(
            graphs.sizes, element[atoms], charge[atoms], degree[atoms], named, ends,
            order[bonds], ring[bonds].astype(np.bool_),
        )  # fmt: skip

    def labels(self) -> dict[int, Configurations]:
        """Return the configurations of molecules that have any, by the index of the molecule."""
        self._graphs()
        return self._labels

    def _finish(self) -> None:
        first = len(self) - len(self._reader)
        self._labels |= {first + place: some for place, some in self._reader.labels.items()}
        self._read.append(self._reader.finish())
        self._reader = GraphReader()

    def _graphs(self) -> Graphs:
        """Join the graphs of all added molecules."""
        if len(self._reader) or not self._read:
            self._finish()
        if len(self._read) > 1:
            self._read = [Graphs(*map(np.concatenate, zip(*self._read)))]
        return self._read[0]


def _pack(table: Table[Described, Kind], places: np.ndarray) -> PackedRows:
    kinds, order = np.unique(places, return_inverse=True)
    return PackedRows(order.astype(np.int32), table.rows(kinds))


def _codes(things: Sequence[Hashable]) -> np.ndarray:
    """Number the distinct things in order of appearance, so that a longer list keeps its codes."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], np.uint64)
