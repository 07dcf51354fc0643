"""Molecules from RDKit's: their atoms and bonds as rows of features, laid side by side.

Few kinds of atoms occur: HIV's million have some hundred. So a kind, which is what
:func:`~gattn.data.features.atom_features` looks at, is described once, and every further atom of
it costs a look into a table. Bonds likewise.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import torch

from gattn.data._arrays import MoleculeArrays
from gattn.data.features import ATOM_FEATURES, BOND_FEATURES, atom_features, bond_features
from gattn.data.molecules import Molecules

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["MoleculeBuilder"]

Described = TypeVar("Described")


class _Table(Generic[Described]):
    """The rows of the kinds met so far; ``kinds`` gives each kind's place among them."""

    def __init__(self, describe: Callable[[Described], list[float]], width: int) -> None:
        self.kinds: dict[Hashable, int] = {}
        self._describe = describe
        self._rows = np.empty((64, width), np.float32)
        self._lock = threading.Lock()

    def add(self, kind: Hashable, example: Described) -> int:
        """Describe a kind by one of it, and give its place."""
        with self._lock:
            place = self.kinds.get(kind, len(self.kinds))
            if place == len(self._rows):
                self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._rows[place] = self._describe(example)
            self.kinds[kind] = place  # last, as others look here without the lock
        return place

    def take(self, places: list[int]) -> np.ndarray:
        return self._rows[np.array(places, np.int64)]


_ATOMS = _Table(atom_features, len(ATOM_FEATURES))
_BONDS = _Table(bond_features, len(BOND_FEATURES))


class MoleculeBuilder:
    """Takes RDKit's molecules one by one and lays their graphs side by side."""

    def __init__(self) -> None:
        self._smiles: list[str] = []
        self._rows: list[int] = []
        self._atoms: list[int] = []
        self._bonds: list[int] = []
        self._ends: list[int] = []
        self._ptr = [0]
        self._bond_ptr = [0]

    def add(self, molecule: Mol, smiles: str, row: int = 0) -> None:
        """Add the molecule that RDKit made of this SMILES, which stood in this row."""
        self._smiles.append(smiles.strip())
        self._rows.append(row)
        self._add_atoms(molecule, chiral="@" in smiles)
        self._add_bonds(molecule, stereo="/" in smiles or "\\" in smiles)
        self._ptr.append(len(self._atoms))
        self._bond_ptr.append(len(self._bonds))

    def _add_atoms(self, molecule: Mol, *, chiral: bool) -> None:
        """Look up the kind of every atom; ``chiral`` is whether any has a handedness.

        A name of an enumeration takes RDKit as long as four numbers: none is asked for in vain.
        """
        known, places = _ATOMS.kinds.get, self._atoms
        for atom in map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())):
            kind = (
                atom.GetAtomicNum(),
                atom.GetDegree(),
                atom.GetFormalCharge(),
                atom.GetTotalNumHs(),
                atom.GetHybridization(),
                atom.GetIsAromatic(),
                atom.IsInRing(),
                atom.GetIsotope(),
                chiral and atom.GetChiralTag(),
            )
            place = known(kind)
            places.append(_ATOMS.add(kind, atom) if place is None else place)

    def _add_bonds(self, molecule: Mol, *, stereo: bool) -> None:
        """Look up the kind of every bond; ``stereo`` is whether any has one drawn."""
        known, places, ends = _BONDS.kinds.get, self._bonds, self._ends
        rare = molecule.HasSubstructMatch(_rare_bond())
        for bond in map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())):
            kind = (
                bond.GetBondType() if rare else bond.GetBondTypeAsDouble(),
                bond.GetIsConjugated(),
                bond.IsInRing(),
                stereo and bond.GetStereo(),
                rare,  # an enumeration's value may equal a bond's order
            )
            place = known(kind)
            places.append(_BONDS.add(kind, bond) if place is None else place)
            ends.append(bond.GetBeginAtomIdx())
            ends.append(bond.GetEndAtomIdx())

    def build(self) -> Molecules:
        """The molecules that were added, without targets."""
        forth = np.array(self._ends, np.int64).reshape(-1, 2)
        edges = np.stack([forth, forth[:, ::-1]], 1).reshape(-1, 2)
        arrays = MoleculeArrays(
            torch.from_numpy(_ATOMS.take(self._atoms)),
            torch.from_numpy(np.ascontiguousarray(edges.T)),
            torch.from_numpy(_BONDS.take(self._bonds).repeat(2, axis=0)),
            torch.tensor(self._ptr),
            2 * torch.tensor(self._bond_ptr),
        )
        y = torch.empty(len(self._smiles), 0)
        return Molecules(self._smiles, arrays, y, (), tuple(self._rows))


@functools.cache
def _rare_bond() -> Mol:
    """A query for a bond that its order alone does not name, such as a dative one (order 1)."""
    from rdkit import Chem

    return Chem.MolFromSmarts("*!-;!=;!#;!:*")
