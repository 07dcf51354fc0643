"""Hash codes of atoms and their neighbours, and a cache of atom properties by these codes.

RDKit assigns atom types by matching about a hundred patterns, which takes longer than parsing the
molecule. An atom's environment is the atom with its bonds and neighbours. Only few distinct
environments occur in a data set, so the types are computed once for each environment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rdkit.Chem import Mol

MOST = 2**17
"""Maximum number of environments in the cache. It is cleared when it contains more."""


def environments(
    atoms: np.ndarray, seen: np.ndarray, wide: np.ndarray, bonds: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Compute a hash code of each atom together with its bonds and neighbours.

    Two different environments have the same code with a probability of 2^-64.

    Args:
        atoms: [n] uint64, a code of each atom's properties.
        seen: [n] uint64, a code of the properties that enter the codes of the atom's neighbours.
        wide: [n] bool, True for atoms whose code also depends on the environments of their
            neighbours.
        bonds: [b] uint64, a code of each bond's properties.
        ends: [b, 2] int64, the two atoms of each bond.

    Returns:
        [n] uint64, independent of the order of atoms and bonds.
    """
    one, other, over = ends.T.ravel(), ends.T[::-1].ravel(), np.tile(_mix(bonds), 2)
    near = _gather(atoms, seen, one, other, over)
    whose = wide[one]
    far = _gather(near, near, one[whose], other[whose], over[whose])
    return np.where(wide, far, near)


def atom_keys(atoms: np.ndarray, bonds: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Compute a hash code of each atom and its bonds. The order of the bonds has no influence.

    Args:
        atoms: [n] uint64, a code of each atom's properties.
        bonds: [b] uint64, a code of each bond's properties.
        ends: [b, 2] int64, the two atoms of each bond.

    Returns:
        [n] uint64; different atoms have the same code with a probability of 2^-64.
    """
    total, codes = np.zeros_like(atoms), _mix(bonds)
    for end in ends.T:
        np.add.at(total, end, codes)
    return _mix(np.uint64(3) * _mix(atoms) + total)


def _gather(
    codes: np.ndarray, seen: np.ndarray, one: np.ndarray, other: np.ndarray, over: np.ndarray
) -> np.ndarray:
    """Combine each atom's code with the sum of the hashed codes of its bonds and neighbours.

    Args:
        codes: [n] uint64, the code of each atom for its own result.
        seen: [n] uint64, the code of each atom for the results of its neighbours.
        one: [k] int64, the atom to whose sum a bond is added.
        other: [k] int64, the other atom of the bond.
        over: [k] uint64, the hashed code of the bond.
    """
    total = np.zeros_like(codes)
    # The factor 3 makes the hash of atom and bond asymmetric: atom code 1 with bond code 2 differs
    # from atom code 2 with bond code 1.
    np.add.at(total, one, _mix((np.uint64(3) * _mix(seen))[other] + over))
    return _mix(np.uint64(3) * _mix(codes) + total)


def _mix(codes: np.ndarray) -> np.ndarray:
    """Hash 64-bit integers with the last step (finaliser) of the random generator SplitMix64.

    Reference: Steele et al., "Fast splittable pseudorandom number generators" (2014).
    """
    codes = codes + np.uint64(0x9E3779B97F4A7C15)
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


class AtomMemory:
    """Cache of a function of atoms, whose result depends only on an atom and its neighbours.

    Args:
        describe: function that returns ``width`` numbers for each atom of a molecule.
        width: number of values per atom.
    """

    def __init__(self, describe: Callable[[Mol], Sequence[Sequence[float]]], width: int) -> None:
        self._describe, self._width = describe, width
        self._rows_by_key: dict[int, Sequence[float]] = {}

    def rows(self, keys: np.ndarray, molecules: Sequence[Mol], sizes: np.ndarray) -> np.ndarray:
        """Return the function's value for every atom, from the cache or newly computed. New values
        are added to the cache; a full cache is emptied before.

        Args:
            keys: [n], the result of :func:`environments`.
            molecules: k molecules.
            sizes: [k], the number of atoms of each.

        Returns:
            [n, width] float64.
        """
        if len(self._rows_by_key) > MOST:
            self._rows_by_key.clear()
        kinds, first, place = np.unique(keys, return_index=True, return_inverse=True)
        ends = np.cumsum(sizes)
        for kind, atom in zip(kinds.tolist(), first):
            if kind not in self._rows_by_key:
                which = int(ends.searchsorted(atom, side="right"))
                of = slice(ends[which] - sizes[which], ends[which])
                self._rows_by_key.update(zip(keys[of].tolist(), self._describe(molecules[which])))
        rows = [self._rows_by_key[kind] for kind in kinds.tolist()]
        return np.array(rows, np.float64).reshape(-1, self._width)[place]
