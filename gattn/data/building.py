"""Molecules from RDKit's: their atoms and bonds as rows of features, laid side by side.

Few kinds of atoms occur: HIV's million have some hundred. So a kind, which is what
:func:`~gattn.data.features.atom_features` looks at, is described once, and every further atom of
it costs a look into a table. Bonds likewise.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from gattn.data._arrays import MoleculeArrays
from gattn.data.environments import environments
from gattn.data.features import ATOM_FEATURES, BOND_FEATURES, atom_features, bond_features
from gattn.data.molecules import Molecules

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol

__all__ = ["MoleculeBuilder", "PackedMolecules", "PackedRows", "ranges"]

Described = TypeVar("Described")


class _Table(Generic[Described]):
    """The rows of the kinds met so far; ``kinds`` gives each kind's place among them.

    ``described`` holds the kinds themselves, by place.
    """

    def __init__(self, describe: Callable[[Described], list[float]], width: int) -> None:
        self.kinds: dict[tuple[Hashable, ...], int] = {}
        self.described: list[tuple[Hashable, ...]] = []
        self._describe = describe
        self._rows = np.empty((64, width), np.float32)
        self._lock = threading.Lock()

    def places(self, kinds: list[tuple[Hashable, ...]], things: list[Described]) -> list[int]:
        """The place of each thing's kind; a kind that is new is described."""
        found = list(map(self.kinds.get, kinds))
        if None in found:
            return [self._add(kind, thing) for kind, thing in zip(kinds, things)]
        return found  # pyright: ignore[reportReturnType]

    def _add(self, kind: tuple[Hashable, ...], thing: Described) -> int:
        with self._lock:
            place = self.kinds.get(kind)
            if place is None:
                place = len(self.kinds)
                if place == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
                self._rows[place] = self._describe(thing)
                self.described.append(kind)
                self.kinds[kind] = place  # last, as others look here without the lock
        return place

    def pack(self, places: list[int]) -> PackedRows:
        held, order = np.unique(np.array(places, np.int32), return_inverse=True)
        return PackedRows(order.astype(np.int32), self._rows[held])


_ATOMS: _Table[Atom] = _Table(atom_features, len(ATOM_FEATURES))
_BONDS: _Table[Bond] = _Table(bond_features, len(BOND_FEATURES))
OXYGEN = 8


class PackedRows(NamedTuple):
    """Rows of which few differ: ``table[order]`` is all of them."""

    order: np.ndarray
    table: np.ndarray

    @classmethod
    def join(cls, parts: Sequence[PackedRows]) -> PackedRows:
        """Put several one after the other."""
        starts = itertools.accumulate((len(part.table) for part in parts), initial=0)
        orders = [part.order + start for part, start in zip(parts, starts)]
        return cls(np.concatenate(orders), np.concatenate([part.table for part in parts]))


class PackedMolecules(NamedTuple):
    """Molecules in a tenth of their memory, as they go from one process to another.

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

    @classmethod
    def join(cls, parts: Sequence[PackedMolecules], starts: Sequence[int]) -> PackedMolecules:
        """Put several one after the other; ``starts`` is what each one's rows count from."""
        return cls(
            [text for part in parts for text in part.smiles],
            [start + row for part, start in zip(parts, starts) for row in part.rows],
            PackedRows.join([part.atoms for part in parts]),
            PackedRows.join([part.bonds for part in parts]),
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.sizes for part in parts], 1),
        )

    def take(self, index: np.ndarray) -> PackedMolecules:
        """Copy out the molecules at these positions, in this order."""
        atoms, bonds = (ranges(sizes, index) for sizes in self.sizes)
        return PackedMolecules(
            [self.smiles[i] for i in index],
            [self.rows[i] for i in index],
            self.atoms._replace(order=self.atoms.order[atoms]),
            self.bonds._replace(order=self.bonds.order[bonds]),
            self.ends[bonds],
            self.sizes[:, index],
        )

    def unpack(self) -> Molecules:
        """The molecules, without targets."""
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


def ranges(sizes: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The places that the ranges at these positions take, where ranges lie side by side."""
    length = sizes[index].astype(np.int64)
    starts = sizes.cumsum(dtype=np.int64)[index] - length
    return (starts - length.cumsum() + length).repeat(length) + np.arange(length.sum())


class MoleculeBuilder:
    """Takes RDKit's molecules one by one and lays their graphs side by side."""

    def __init__(self) -> None:
        self._smiles: list[str] = []
        self._rows: list[int] = []
        self._atoms: list[int] = []
        self._bonds: list[int] = []
        self._ends: list[tuple[int, int]] = []
        self._sizes: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._smiles)

    def add(self, molecule: Mol, smiles: str, row: int = 0) -> None:
        """Add the molecule that RDKit made of this SMILES, which stood in this row."""
        atoms = list(map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())))
        bonds = list(map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())))
        get = _getters()
        # The name in an enumeration takes RDKit as long as four numbers: none is asked for in vain.
        chiral = map(get.chirality, atoms) if "@" in smiles else _NOTHING
        kinds = zip(*(map(of, atoms) for of in get.atom), chiral)
        self._atoms += _ATOMS.places(list(kinds), atoms)
        stereo = map(get.stereo, bonds) if "/" in smiles or "\\" in smiles else _NOTHING
        rare = molecule.HasSubstructMatch(get.rare_bond)
        order = map(get.order if rare else get.number, bonds)
        kinds = zip(order, *(map(of, bonds) for of in get.bond), stereo, itertools.repeat(rare))
        self._bonds += _BONDS.places(list(kinds), bonds)
        self._ends += zip(map(get.begin, bonds), map(get.end, bonds))
        self._sizes.append((len(atoms), len(bonds)))
        self._smiles.append(smiles.strip())
        self._rows.append(row)

    def pack(self) -> PackedMolecules:
        """The molecules that were added."""
        return PackedMolecules(
            self._smiles,
            self._rows,
            _ATOMS.pack(self._atoms),
            _BONDS.pack(self._bonds),
            np.array(self._ends, np.int32).reshape(-1, 2),
            np.array(self._sizes, np.int32).reshape(-1, 2).T,
        )

    def sizes(self) -> np.ndarray:
        """How many atoms and bonds each molecule has: [k, 2] int64."""
        return np.array(self._sizes, np.int64).reshape(-1, 2)

    def environments(self) -> np.ndarray:
        """Number every atom by what tables of atoms look at: [n] uint64.

        That is its element, degree, charge, hydrogens and aromaticity, the orders of its bonds, and
        the element, charge and aromaticity of its neighbours; of an oxygen, whose kind depends on
        what else its carbon holds, also the neighbours' own surroundings.
        """
        atoms, bonds = np.array(self._atoms, np.int64), np.array(self._bonds, np.int64)
        whole = _codes([(*kind[:4], kind[5]) for kind in _ATOMS.described])
        seen = _codes([(kind[0], kind[2], kind[5]) for kind in _ATOMS.described])
        oxygen = np.array([kind[0] == OXYGEN for kind in _ATOMS.described], np.bool_)
        orders = _codes([kind[0] for kind in _BONDS.described])
        sizes = self.sizes()
        first = (sizes[:, 0].cumsum() - sizes[:, 0]).repeat(sizes[:, 1])
        ends = np.array(self._ends, np.int64).reshape(-1, 2) + first[:, None]
        return environments(whole[atoms], seen[atoms], oxygen[atoms], orders[bonds], ends)


def _codes(things: Sequence[Hashable]) -> np.ndarray:
    """A number for each thing, the same for equal ones as long as the list only grows."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(thing, len(numbers)) for thing in things], np.uint64)


_NOTHING = itertools.repeat(None)


class _Getters(NamedTuple):
    """RDKit's functions of an atom or a bond; what ``atom_features`` and ``bond_features`` read."""

    atom: tuple[Callable[[Atom], Hashable], ...]
    chirality: Callable[[Atom], Hashable]
    bond: tuple[Callable[[Bond], Hashable], ...]
    stereo: Callable[[Bond], Hashable]
    order: Callable[[Bond], Hashable]
    number: Callable[[Bond], Hashable]
    begin: Callable[[Bond], int]
    end: Callable[[Bond], int]
    rare_bond: Mol
    """A query for a bond that its number alone does not name, such as a dative one (1.0)."""


@functools.cache
def _getters() -> _Getters:
    from rdkit.Chem import Atom, Bond, MolFromSmarts

    return _Getters(
        atom=(
            Atom.GetAtomicNum,
            Atom.GetDegree,
            Atom.GetFormalCharge,
            Atom.GetTotalNumHs,
            Atom.GetHybridization,
            Atom.GetIsAromatic,
            Atom.IsInRing,
            Atom.GetIsotope,
        ),
        chirality=Atom.GetChiralTag,
        bond=(Bond.GetIsConjugated, Bond.IsInRing),
        stereo=Bond.GetStereo,
        order=Bond.GetBondType,
        number=Bond.GetBondTypeAsDouble,
        begin=Bond.GetBeginAtomIdx,
        end=Bond.GetEndAtomIdx,
        rare_bond=MolFromSmarts("*!-;!=;!#;!:*"),
    )
