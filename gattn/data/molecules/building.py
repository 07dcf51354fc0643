"""Conversion of RDKit molecules to compact arrays of atom and bond features."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from gattn.data.molecules.environments import environments
from gattn.data.molecules.graph_reader import GraphReader, Graphs
from gattn.data.molecules.kinds import ATOMS, BONDS, Table
from gattn.data.molecules.smiles_text import text_with_marks
from gattn.data.molecules.stereo import Configurations

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from gattn.data.molecules.dataset import Molecules

BLOCK = 1024
"""Number of molecules whose atom and bond features are computed at once."""
OXYGEN = 8
Described = TypeVar("Described")
Kind = TypeVar("Kind", bound=Hashable)


class PackedRows(NamedTuple):
    """Compressed matrix with repeated rows: ``table`` has the distinct rows, and ``table[order]``
    is the matrix.
    """

    order: np.ndarray
    table: np.ndarray


class PackedMolecules(NamedTuple):
    """Compact form of ``Molecules`` for sending to other processes. It needs a tenth of the memory.

    Attributes:
        smiles: the SMILES of the k molecules.
        rows: the row index of each molecule in the input.
        atoms: the features of the n atoms.
        bonds: the features of the b bonds.
        ends: [b, 2] int32, the two atoms of each bond, numbered from 0 in each molecule.
        sizes: [2, k] int32, the number of atoms and the number of bonds of each molecule.
    """

    smiles: list[str]
    rows: list[int]
    atoms: PackedRows
    bonds: PackedRows
    ends: np.ndarray
    sizes: np.ndarray

    def unpack(self) -> Molecules:
        """Convert the compact form to ``Molecules`` without targets."""
        # The imports are inside the function, because the processes that read SMILES need no
        # torch.
        import torch

        from gattn.data.molecules.arrays import MoleculeArrays
        from gattn.data.molecules.dataset import Molecules

        ends = self.ends.astype(np.int64)
        ptr = np.zeros((2, len(self.smiles) + 1), np.int64)
        ptr[:, 1:] = self.sizes.cumsum(1)
        arrays = (
            self.atoms.table[self.atoms.order],
            np.ascontiguousarray(np.stack([ends, ends[:, ::-1]], 1).reshape(-1, 2).T),
            self.bonds.table[self.bonds.order.repeat(2)],
            ptr[0],
            2 * ptr[1],
        )
        graphs = MoleculeArrays(*map(torch.from_numpy, arrays))
        return Molecules(
            self.smiles, graphs, torch.empty(len(self.smiles), 0), (), tuple(self.rows)
        )


class Skeletons(NamedTuple):
    """Atoms (n) and bonds (b) of k molecules, with the properties from which descriptors are
    computed.

    Attributes:
        sizes: [k, 2] int64, the number of atoms and the number of bonds of each molecule.
        elements: [n] int64, the atomic number of each atom.
        charges: [n] int64, the formal charge of each atom.
        degrees: [n] int64, the number of explicit bonds of each atom.
        environments: [n] uint64, a hash code of each atom with its neighbours.
        ends: [b, 2] int64, the two atoms of each bond, as indices below n.
        orders: [b] int64, RDKit's type number of each bond.
        in_ring: [b] bool, whether each bond is in a ring.
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
    """Builder that collects RDKit molecules one by one and concatenates their graphs."""

    def __init__(self) -> None:
        self._smiles: list[str] = []
        self._rows: list[int] = []
        self._reader = GraphReader()
        self._read: list[Graphs] = []
        self._labels: dict[int, Configurations] = {}

    def __len__(self) -> int:
        return len(self._smiles)

    def add(self, molecule: Mol, smiles: str, row: int = 0) -> None:
        """Add an RDKit molecule that :func:`gattn.data.molecules.plain.plain` returned, with its
        SMILES and its row index in the input. Raises RuntimeError if RDKit cannot read the
        canonical SMILES that it wrote.
        """
        self._reader.add(molecule, text_with_marks(smiles))
        self._smiles.append(smiles.strip())
        self._rows.append(row)
        if len(self._reader) == BLOCK:
            self._finish()

    def pack(self) -> PackedMolecules:
        """Return all added molecules in compact form."""
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
        """Return the atom and bond properties of the added molecules, from which descriptors are
        computed.

        The environment of an atom is its element, degree, charge, hydrogens and aromaticity, the
        orders of its bonds, and the element, charge and aromaticity of its neighbours. For an
        oxygen it also includes the neighbours of its neighbours, because the type of an oxygen
        depends on the other atoms at its carbon.
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
        """Return the stereo labels of those molecules that have any, as a dictionary by molecule
        index. The molecules that were added so far are finished first; the dictionary is the
        builder's own and grows with later molecules.
        """
        self._graphs()
        return self._labels

    def _finish(self) -> None:
        """Store the arrays and configurations of the current block of molecules, and begin a new
        block.
        """
        first = len(self) - len(self._reader)
        self._labels |= {first + place: some for place, some in self._reader.labels.items()}
        self._read.append(self._reader.finish())
        self._reader = GraphReader()

    def _graphs(self) -> Graphs:
        """Finish the current block, concatenate the graphs of all added molecules, store and return
        them; without molecules, they have no atoms.
        """
        if len(self._reader) or not self._read:
            self._finish()
        if len(self._read) > 1:
            self._read = [Graphs(*map(np.concatenate, zip(*self._read)))]
        return self._read[0]


def _pack(table: Table[Described, Kind], places: np.ndarray) -> PackedRows:
    kinds, order = np.unique(places, return_inverse=True)
    return PackedRows(order.astype(np.int32), table.rows(kinds))


def _codes(things: Sequence[Hashable]) -> np.ndarray:
    """Number the distinct items in the order in which they first occur."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], np.uint64)
