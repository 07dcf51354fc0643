"""An atom with its neighbours as one number, by which what RDKit says of it is remembered.

RDKit types atoms by a hundred patterns, which takes longer than to read the molecule. Few kinds of
environments occur, and so each is typed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["AtomMemory", "atom_keys", "environments"]

MOST = 2**17
"""So many environments are remembered; then all are forgotten, as memory is to be bounded."""


def environments(
    atoms: np.ndarray, seen: np.ndarray, wide: np.ndarray, bonds: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Give every atom a number that names it, its bonds and its neighbours.

    Two environments that differ share a number with a chance of 2^-64.

    Args:
        atoms: [n] uint64, codes of what an atom is.
        seen: [n] uint64, codes of what its neighbours see of it.
        wide: [n] bool, whose numbers name the numbers of their neighbours in place of their codes.
        bonds: [b] uint64, codes of what a bond is.
        ends: [b, 2] int64, the two atoms of each bond.

    Returns:
        [n] uint64, whatever the order of atoms and bonds.
    """
    one, other, over = ends.T.ravel(), ends.T[::-1].ravel(), np.tile(_mix(bonds), 2)
    near = _gather(atoms, seen, one, other, over)
    whose = wide[one]
    far = _gather(near, near, one[whose], other[whose], over[whose])
    return np.where(wide, far, near)


def atom_keys(atoms: np.ndarray, bonds: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Give every atom a number that names it and its bonds, whatever their order.

    Args:
        atoms: [n] uint64, codes of what an atom is.
        bonds: [b] uint64, codes of what a bond is.
        ends: [b, 2] int64, the two atoms of each bond.

    Returns:
        [n] uint64; two that differ share a number with a chance of 2^-64.
    """
    total, codes = np.zeros_like(atoms), _mix(bonds)
    for end in ends.T:
        np.add.at(total, end, codes)
    return _mix(np.uint64(3) * _mix(atoms) + total)


def _gather(
    codes: np.ndarray, seen: np.ndarray, one: np.ndarray, other: np.ndarray, over: np.ndarray
) -> np.ndarray:
    """Each atom's own code, and the sum of what it sees over its bonds."""
    total = np.zeros_like(codes)
    # Three times, as code 1 over a bond of code 2 is not code 2 over a bond of code 1.
    np.add.at(total, one, _mix((np.uint64(3) * _mix(seen))[other] + over))
    return _mix(np.uint64(3) * _mix(codes) + total)


def _mix(codes: np.ndarray) -> np.ndarray:
    """Spread 64 bits: Steele et al., "Fast splittable pseudorandom number generators" (2014)."""
    codes = codes + np.uint64(0x9E3779B97F4A7C15)
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


class AtomMemory:
    """Cache of a function of atoms whose result depends only on the atom's environment.

    Args:
        describe: returns ``width`` numbers for each atom of a molecule.
        width: number of values per atom.
    """

    def __init__(self, describe: Callable[[Mol], Sequence[Sequence[float]]], width: int) -> None:
        self._describe, self._width = describe, width
        self._rows_by_key: dict[int, Sequence[float]] = {}

    def rows(self, keys: np.ndarray, molecules: Sequence[Mol], sizes: np.ndarray) -> np.ndarray:
        """Return the numbers of all atoms of some molecules.

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
