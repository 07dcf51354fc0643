"""Counts of pairs of atoms that are close to each other, computed from the graphs of molecules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gattn.data.molecules.counts import COUNTS
from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES, ELEMENTS

if TYPE_CHECKING:
    from gattn.data.molecules.arrays import MoleculeArrays

PAIR_DISTANCE = 6
"""Maximum number of bonds between the two atoms of a pair that is counted."""
CODED = ("B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "As", "Se", "Br", "Sb", "Te", "I")
"""Elements in the order of RDKit's codes for atom pairs."""
ELEMENT_CODES = tuple(CODED.index(name) if name in CODED else 15 for name in (*ELEMENTS, "other"))
"""Code of each element among the features of atoms. Elements without a code of their own share
15.
"""
CELLS = 1 << 17
"""Maximum number of entries in the table of pairs, unless one atom needs more; it limits the
memory.
"""


class AtomPairs(NamedTuple):
    """Pairs of atoms with at most :data:`PAIR_DISTANCE` bonds between them, each pair once.

    Attributes:
        first: [p] int64, the first atom of each pair, numbered over all molecules.
        second: [p] int64, the second atom, whose number is larger.
        columns: [p] int64, the fingerprint column that counts each pair.
    """

    first: np.ndarray
    second: np.ndarray
    columns: np.ndarray


def count_pairs(arrays: MoleculeArrays) -> np.ndarray:
    """Count the atom pairs of each of k molecules (:func:`atom_pairs`): [k, COUNTS] uint8. A count
    is at most 255.
    """
    molecules = len(arrays.ptr) - 1
    counts = np.zeros((molecules, COUNTS), np.uint8)
    owners = np.arange(molecules).repeat(np.diff(arrays.ptr))
    for first, _, columns in _pieces(arrays):
        if len(first):
            owner = owners[first]
            begin, end = int(owner.min()), int(owner.max()) + 1
            places = (owner - begin) * COUNTS + columns
            some = np.bincount(places, minlength=(end - begin) * COUNTS).reshape(-1, COUNTS)
            counts[begin:end] = np.minimum(counts[begin:end] + some, 255)
    return counts


def atom_pairs(arrays: MoleculeArrays) -> AtomPairs:
    """Return the pairs of atoms that the fingerprint counts.

    Two pairs have the same column if the elements, the numbers of neighbours and of pi electrons,
    and the number of bonds between the atoms are equal. The columns are those of RDKit, but
    hydrogen atoms are left out, and arsenic, antimony and tellurium count as other elements.
    Charges, isotopes and stereochemistry have no influence.

    Args:
        arrays: the graphs of molecules.

    Reference: Carhart et al., "Atom pairs as molecular features in structure-activity studies" (J.
    Chem. Inf. Comput. Sci. 1985).
    """
    none = np.zeros(0, np.int64)
    pieces = [AtomPairs(none, none, none), *_pieces(arrays)]
    return AtomPairs(*map(np.concatenate, zip(*pieces)))


def _pieces(arrays: MoleculeArrays) -> Iterator[AtomPairs]:
    """Yield the pairs in pieces, in the order of the first atoms' molecules."""
    x, edges, bonds, ptr, edge_ptr = (
        np.asarray(getattr(arrays, name))
        for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr")
    )
    sizes = np.diff(ptr)
    source, destination = edges + ptr[:-1].repeat(np.diff(edge_ptr))
    heavy = x[:, ATOM_FEATURES.index("element=H")] == 0
    edges = np.flatnonzero(heavy[source] & heavy[destination])
    edges = edges[source[edges].argsort(kind="stable")]
    degrees = np.bincount(source[edges], minlength=len(x))
    multiple = bonds[:, _DOUBLE] + 2 * bonds[:, _TRIPLE]
    codes = _codes(x, degrees, np.bincount(source, multiple, len(x)))
    for first, second, steps in _close_atoms(sizes, degrees, destination[edges]):
        yield AtomPairs(first, second, _columns(codes[first], codes[second], steps))


_DOUBLE, _TRIPLE = (BOND_FEATURES.index(f"order={name}") for name in ("DOUBLE", "TRIPLE"))
_AROMATIC, _TETRAHEDRAL = map(ATOM_FEATURES.index, ("aromatic", "hybridisation=SP3"))


def _codes(x: np.ndarray, degrees: np.ndarray, multiple: np.ndarray) -> np.ndarray:
    """Compute RDKit's code of each atom for atom pairs: [n] int64.

    Args:
        x: [n, d], the features of the atoms.
        degrees: [n], the number of neighbours.
        multiple: [n], the sum of the bond orders minus the number of bonds.
    """
    elements = x[:, : len(ELEMENT_CODES)] @ np.array(ELEMENT_CODES, np.float32)
    electrons = np.where(x[:, _TETRAHEDRAL] == 1, 0, multiple)
    electrons = np.where(x[:, _AROMATIC] == 1, 1, electrons).astype(np.int64)
    return elements.astype(np.int64) << 5 | electrons % 3 << 3 | degrees % 7


def _columns(codes: np.ndarray, others: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Compute RDKit's hash code of each pair, modulo the number of columns."""
    value = np.zeros(len(codes), np.uint32)
    for part in (np.minimum(codes, others), steps, np.maximum(codes, others)):
        mixed = part.astype(np.uint32) + np.uint32(0x9E3779B9)
        value ^= mixed + (value << np.uint32(6)) + (value >> np.uint32(2))
    return (value % np.uint32(COUNTS)).astype(np.int64)


def _close_atoms(
    sizes: np.ndarray, degrees: np.ndarray, neighbours: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Find the pairs by a breadth-first search from all atoms of a piece at once.

    Args:
        sizes: [k], the number of atoms of each molecule.
        degrees: [n], the number of neighbours of each atom.
        neighbours: [e], the neighbours of each atom, in the order of the atoms.

    Yields:
        The first atoms, the second atoms and the numbers of bonds, [p] int64 each.
    """
    begin = degrees.cumsum() - degrees
    # Each atom has a row in a table, with one entry for each atom of its molecule.
    widths = sizes.repeat(sizes)
    ends = widths.cumsum()
    atom_of_molecule = (sizes.cumsum() - sizes).repeat(sizes)
    start = 0
    while start < len(degrees):
        base = ends[start] - widths[start]
        stop = max(int(np.searchsorted(ends, base + CELLS, side="right")), start + 1)
        atoms = np.arange(start, stop)
        rows = ends[atoms] - widths[atoms] - base - atom_of_molecule[atoms]
        visits = np.full(int(ends[stop - 1] - base), -1, np.int32)
        visits[rows + atoms] = 0
        owner, place = np.arange(len(atoms)), atoms
        firsts, seconds, steps = [], [], []
        for step in range(1, PAIR_DISTANCE + 1):
            count = degrees[place]
            total = count.cumsum()
            edges = np.arange(int(total[-1]) if len(total) else 0)
            edges += (begin[place] - total + count).repeat(count)
            owner, place = owner.repeat(count), neighbours[edges]
            cells = rows[owner] + place
            new = np.flatnonzero(visits[cells] < 0)
            # Several paths can lead to an atom in the same step. The last one is kept.
            cells = cells[new]
            visits[cells] = new
            new = new[visits[cells] == new]
            owner, place = owner[new], place[new]
            later = place > atoms[owner]
            firsts.append(atoms[owner[later]])
            seconds.append(place[later])
            steps.append(np.full(int(later.sum()), step))
        yield np.concatenate(firsts), np.concatenate(seconds), np.concatenate(steps)
        start = stop
