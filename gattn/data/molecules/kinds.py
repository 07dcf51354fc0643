"""Tables that contain the feature row of each distinct kind of atom or bond.

The features of each kind are computed once. For example, the million atoms of the data set HIV have
a few thousand kinds; an atom of a known kind needs only one look-up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES, atom_row, bond_row

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond

Described = TypeVar("Described")
Kind = TypeVar("Kind", bound=Hashable)


class AtomKind(NamedTuple):
    """Properties of an atom from which descriptors are computed."""

    element: int
    degree: int
    charge: int
    hydrogens: int
    aromatic: bool


class BondKind(NamedTuple):
    """Properties of a bond from which descriptors are computed: RDKit's type number, and ring
    membership.
    """

    order: int
    ring: bool


class Table(Generic[Described, Kind]):
    """Table that contains the feature row of each kind of atom, or bond, that has occurred so far.

    Args:
        describe: function that returns the ``width`` features of an atom or bond.
        tell: function that returns the properties of an atom or bond; the attribute ``kinds`` lists
            them in the order of the rows.
        width: number of columns.
    """

    def __init__(
        self,
        describe: Callable[[Described], list[float]],
        tell: Callable[[Described], Kind],
        width: int,
    ) -> None:
        self.kinds: list[Kind] = []
        self._places: dict[int, int] = {}
        self._describe, self._tell = describe, tell
        self._rows = np.empty((64, width), np.float32)
        self._lock = threading.Lock()

    def places(self, keys: np.ndarray, find: Callable[[int], Described]) -> np.ndarray:
        """Return the row index of each of n keys, [n] int32. Rows for new keys are added.

        Args:
            keys: [n] uint64, a code of the kind of each atom or bond.
            find: function that returns the atom or bond with a given index below n.
        """
        kinds, first, which = np.unique(keys, return_index=True, return_inverse=True)
        rows = [self._places.get(kind) for kind in kinds.tolist()]
        for i, place in enumerate(rows):
            if place is None:
                rows[i] = self._add(int(kinds[i]), find(int(first[i])))
        return np.array(rows, np.int32)[which]

    def _add(self, key: int, thing: Described) -> int:
        """Return the row index of the kind with this key. If the key is new, first add a row with
        the features of ``thing``.
        """
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = len(self.kinds)
                if place == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
                self._rows[place] = self._describe(thing)
                self.kinds.append(self._tell(thing))
                # The key is added after the value, because other threads look up keys without the
                # lock.
                self._places[key] = place
        return place

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return the feature rows at the given row indices."""
        return self._rows[places]


def _atom_kind(labelled: tuple[Atom, str]) -> AtomKind:
    """Return the kind of an atom; its CIP label is not part of it."""
    atom, _ = labelled
    return AtomKind(
        atom.GetAtomicNum(),
        atom.GetDegree(),
        atom.GetFormalCharge(),
        atom.GetTotalNumHs(),
        atom.GetIsAromatic(),
    )


def _bond_kind(labelled: tuple[Bond, str]) -> BondKind:
    bond, _ = labelled
    return BondKind(int(bond.GetBondType()), bond.IsInRing())


ATOMS: Table[tuple[Atom, str], AtomKind] = Table(
    lambda labelled: atom_row(*labelled), _atom_kind, len(ATOM_FEATURES)
)
"""Table of atom features. A row is computed from an RDKit atom and its stereo label."""
BONDS: Table[tuple[Bond, str], BondKind] = Table(
    lambda labelled: bond_row(*labelled), _bond_kind, len(BOND_FEATURES)
)
"""Table of bond features. A row is computed from an RDKit bond and its stereo label."""
