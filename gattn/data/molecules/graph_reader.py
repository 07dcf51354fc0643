"""Conversion of many RDKit molecules to graphs at once, with few calls of RDKit.

One call of RDKit returns 32-bit invariants of all atoms of a molecule (element, charge, hydrogens,
mass, rings). Together with an atom's bonds they determine most properties that
:func:`~gattn.data.molecules.features.atom_features` uses. The other properties (stereo, isotopes,
unusual bonds) are read atom by atom, but only in the few molecules whose SMILES contains a mark for
them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gattn.data.molecules.environments import atom_keys
from gattn.data.molecules.kinds import ATOMS, BONDS
from gattn.data.molecules.stereo import (
    CHIRALITIES,
    NONE,
    OTHER,
    STEREOS,
    Configurations,
    configurations,
)

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol


class Graphs(NamedTuple):
    """Concatenated graphs of k molecules, with n atoms and b bonds.

    Attributes:
        atoms: [n] int32, the row of each atom in :data:`gattn.data.molecules.kinds.ATOMS`.
        bonds: [b] int32, the row of each bond in :data:`gattn.data.molecules.kinds.BONDS`.
        ends: [b, 2] int32, the two atoms of each bond, numbered from 0 in each molecule.
        sizes: [k, 2] int64, the number of atoms and the number of bonds of each molecule.
    """

    atoms: np.ndarray
    bonds: np.ndarray
    ends: np.ndarray
    sizes: np.ndarray

    def first_atoms(self) -> np.ndarray:
        """For each bond, the index of the first atom of its molecule, [b] int64."""
        atoms, bonds = self.sizes.T
        return (atoms.cumsum() - atoms).repeat(bonds)


CHIRALITY, HYBRIDISATION, AROMATIC, ISOTOPE = 1 << 32, 1 << 36, 1 << 40, 1 << 41
"""Positions of the bit fields in an atom's 64-bit key. They follow the 32 bits of RDKit's invariant
of the atom.
"""
CONJUGATED, ORDER, STEREO, TYPE = 2, 4, 1 << 8, 1 << 12
"""Positions of the bit fields in the 64-bit key of a bond. The lowest bit of the key is set if the
bond is in a ring.
"""
CENTRES, PLANES = (
    {label: code for code, label in enumerate((*labels, OTHER))}
    for labels in (CHIRALITIES, STEREOS)
)
"""Integer codes of the stereo labels of atoms and of bonds; the code of ``"none"`` is 0."""
CENTRED, PLANAR = re.compile(r"[@|]"), re.compile(r"[/\\|]")
"""Regular expressions that match SMILES with possible stereo centres, and with possible E/Z
double bonds.
"""
RARE = re.compile(r"[\[~$<>]")
"""Regular expression that matches SMILES with bonds whose type does not follow from their order.
For example, a dative bond has the order 1.0, like a single bond.
"""
ISOTOPES = re.compile(r"\[\d")


class GraphReader:
    """Reader that collects RDKit molecules and then returns their concatenated graphs.

    Attributes:
        labels: the configurations of molecules that have any, by the index of the molecule.
    """

    def __init__(self) -> None:
        self._molecules: list[Mol] = []
        self._sizes: list[tuple[int, int]] = []
        self._invariants: list[int] = []
        self._aromatic: list[int] = []
        self._orders: list[float] = []
        self._conjugated: list[bool] = []
        self._ring: list[bool] = []
        self._begin: list[int] = []
        self._end: list[int] = []
        self._atom_marks: list[tuple[int, int]] = []
        self._bond_marks: list[tuple[int, int]] = []
        self.labels: dict[int, Configurations] = {}
        self._centres: dict[int, str] = {}
        self._planes: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._molecules)

    def add(self, molecule: Mol, smiles: str) -> None:
        """Add an RDKit molecule and its SMILES, which is searched for marks of rare properties. The
        molecule is one that :func:`gattn.data.molecules.plain.plain` returned, and must not change
        before :meth:`finish`. Raises RuntimeError if RDKit cannot read the canonical SMILES that it
        wrote.
        """
        get, invariants, rare_bond = _rdkit()
        bonds = list(map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())))
        # RDKit's methods of single atoms and bonds are slow. They are called only if the SMILES
        # contains a mark of stereochemistry, an isotope or an unusual bond.
        if CENTRED.search(smiles) or PLANAR.search(smiles):
            self._note_configurations(molecule, bonds if PLANAR.search(smiles) else [])
        if ISOTOPES.search(smiles):
            # Isotopes are recorded here, because RDKit's atom invariant contains only the rounded
            # mass.
            self._note_isotopes(molecule)
        if RARE.search(smiles) and molecule.HasSubstructMatch(rare_bond):
            self._note_rare(molecule, bonds)
        self._invariants += invariants(molecule)
        self._orders += map(get.GetBondTypeAsDouble, bonds)
        self._conjugated += map(get.GetIsConjugated, bonds)
        self._ring += map(get.IsInRing, bonds)
        self._begin += map(get.GetBeginAtomIdx, bonds)
        self._end += map(get.GetEndAtomIdx, bonds)
        self._aromatic.append(len(molecule.GetAromaticAtoms()))
        self._sizes.append((molecule.GetNumAtoms(), len(bonds)))
        self._molecules.append(molecule)

    def _note_configurations(self, molecule: Mol, bonds: list[Bond]) -> None:
        """Record the stereo labels of a molecule's stereo centres and of these bonds. Like all
        marks, they are recorded before :meth:`add` appends the molecule's atoms and bonds. Raises
        RuntimeError if RDKit cannot read the SMILES that it wrote.
        """
        labels = configurations(molecule, bonds)
        if labels.atoms or labels.bonds:
            self.labels[len(self._molecules)] = labels
        start = len(self._invariants)
        for i, label in labels.atoms.items():
            self._atom_marks.append((start + i, CHIRALITY * CENTRES[label]))
            self._centres[start + i] = label
        start = len(self._orders)
        for i, label in labels.bonds.items():
            self._bond_marks.append((start + i, STEREO * PLANES[label]))
            self._planes[start + i] = label

    def _note_isotopes(self, molecule: Mol) -> None:
        """Record the isotope of each atom of the molecule that is being added."""
        start = len(self._invariants)
        self._atom_marks += [
            (start + atom.GetIdx(), ISOTOPE * atom.GetIsotope()) for atom in molecule.GetAtoms()
        ]

    def _note_rare(self, molecule: Mol, bonds: list[Bond]) -> None:
        """Record the type of each bond and the hybridisation of each atom of a molecule that has
        an unusual bond, for example a dative one.
        """
        start = len(self._invariants)
        self._atom_marks += [
            (start + atom.GetIdx(), HYBRIDISATION * (1 + int(atom.GetHybridization())))
            for atom in molecule.GetAtoms()
        ]
        start = len(self._orders)
        self._bond_marks += [
            (start + i, TYPE * (1 + int(bond.GetBondType()))) for i, bond in enumerate(bonds)
        ]

    def finish(self) -> Graphs:
        """Look up the features of all added atoms and bonds, and return the concatenated graphs.
        Kinds of atoms and bonds that have not occurred before are added to the tables of the
        process, ``ATOMS`` and ``BONDS``.
        """
        sizes = np.array(self._sizes, np.int64).reshape(-1, 2)
        ends = np.stack([np.array(each, np.int32) for each in (self._begin, self._end)], 1)
        orders = np.array(self._orders, np.float64)
        bonds = (2 * orders).astype(np.uint64) * np.uint64(ORDER)
        bonds += np.uint64(CONJUGATED) * np.array(self._conjugated, np.uint64)
        bonds += np.array(self._ring, np.uint64)
        _mark(bonds, self._bond_marks)
        atoms = np.array(self._invariants, np.uint64)
        graphs = Graphs(atoms, bonds, ends, sizes)
        over = ends + graphs.first_atoms()[:, None]
        _mark(atoms, self._atom_marks)
        _mark(atoms, self._aromatic_alone(orders == 1.5, over, sizes[:, 0]))
        # The shift removes the bit of ring membership from the bond codes, because the atoms'
        # invariants already contain ring membership.
        keys = atom_keys(atoms, bonds >> np.uint64(1), over)
        return graphs._replace(
            atoms=ATOMS.places(keys, self._atom), bonds=BONDS.places(bonds, self._bond)
        )

    def _aromatic_alone(
        self, aromatic: np.ndarray, ends: np.ndarray, sizes: np.ndarray
    ) -> list[tuple[int, int]]:
        """For molecules that have an aromatic atom without aromatic bonds, return a mark (index,
        value) for each of their aromatic atoms.

        An example of such an atom is the central nitrogen of a cyclazine: it is shared by rings
        that are only aromatic together.

        Args:
            aromatic: [b] bool, whether each bond is aromatic.
            ends: [b, 2], the two atoms of each bond, numbered over all molecules.
            sizes: [k], the number of atoms of each molecule.
        """
        touched = np.zeros(sizes.sum(), np.bool_)
        touched[ends[aromatic]] = True
        seen = np.bincount(np.arange(len(sizes)).repeat(sizes), touched, len(sizes))
        starts = sizes.cumsum() - sizes
        return [
            (int(starts[i]) + atom.GetIdx(), AROMATIC)
            for i in np.flatnonzero(seen != np.array(self._aromatic))
            for atom in self._molecules[i].GetAromaticAtoms()
        ]

    def _atom(self, number: int) -> tuple[Atom, str]:
        which, within = self._place(number, 0)
        return self._molecules[which].GetAtomWithIdx(within), self._centres.get(number, NONE)

    def _bond(self, number: int) -> tuple[Bond, str]:
        which, within = self._place(number, 1)
        return self._molecules[which].GetBondWithIdx(within), self._planes.get(number, NONE)

    def _place(self, number: int, column: int) -> tuple[int, int]:
        """Return the molecule of an atom (column 0) or of a bond (column 1), and the index
        within this molecule.
        """
        ends = np.array(self._sizes, np.int64)[:, column].cumsum()
        which = int(ends.searchsorted(number, side="right"))
        return which, number - int(ends[which]) + self._sizes[which][column]


def _mark(keys: np.ndarray, marks: list[tuple[int, int]]) -> None:
    """Add the value of each mark (index, value) to the key at its index, in place; the keys are [n]
    uint64. Several marks can have the same index.
    """
    if marks:
        places, added = np.array(marks, np.uint64).T
        np.add.at(keys, places.astype(np.int64), added)


@functools.cache
def _rdkit() -> tuple[type[Bond], Callable[[Mol], Iterable[int]], Mol]:
    """Return RDKit's class of bonds, RDKit's function for atom invariants, and a pattern that
    matches all bonds except single, double, triple and aromatic ones.
    """
    from rdkit.Chem import Bond, MolFromSmarts
    from rdkit.Chem.rdMolDescriptors import GetConnectivityInvariants

    return Bond, GetConnectivityInvariants, MolFromSmarts("*!-;!=;!#;!:*")
