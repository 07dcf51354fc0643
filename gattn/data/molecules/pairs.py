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
WORD = 64
"""Number of atoms whose distances from one atom are computed at once, each as one bit."""
ROWS = 2048
"""Maximum number of atoms whose pairs are listed at once, which limits the memory."""


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
    counts = np.zeros(molecules * COUNTS, np.int32)
    rows = np.arange(0, molecules * COUNTS, COUNTS).repeat(np.diff(arrays.ptr))
    for first, _, columns in _pieces(arrays):
        # A number of another type would be added a hundred times slower.
        np.add.at(counts, rows[first] + columns, np.int32(1))
    return np.minimum(counts, 255, out=counts).astype(np.uint8).reshape(molecules, COUNTS)


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
    """Yield the pairs of :func:`atom_pairs` in pieces, each from atoms of at most :data:`ROWS`."""
    x, edges, bonds, ptr, edge_ptr = (
        np.asarray(getattr(arrays, name))
        for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr")
    )
    sizes = np.diff(ptr)
    source, destination = edges + ptr[:-1].repeat(np.diff(edge_ptr))
    heavy = x[:, ATOM_FEATURES.index("element=H")] == 0
    edges = np.flatnonzero(heavy[source] & heavy[destination])
    degrees = np.bincount(source[edges], minlength=len(x))
    multiple = bonds[:, _DOUBLE] + 2 * bonds[:, _TRIPLE]
    codes = _codes(x, degrees, np.bincount(source, multiple, len(x)))
    for first, second, steps in _close_atoms(sizes, source[edges], destination[edges]):
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
    """Compute the fingerprint column of each pair, [p] int64: RDKit's hash code modulo the number
    of columns.

    Args:
        codes: [p] int64, the code of one atom of each pair (:func:`_codes`).
        others: [p] int64, the code of the other atom; the order of the two has no influence.
        steps: [p] int64, the number of bonds between them.
    """
    value = np.zeros(len(codes), np.uint32)
    for part in (np.minimum(codes, others), steps, np.maximum(codes, others)):
        mixed = part.astype(np.uint32) + np.uint32(0x9E3779B9)
        value ^= mixed + (value << np.uint32(6)) + (value >> np.uint32(2))
    return (value % np.uint32(COUNTS)).astype(np.int64)


def _close_atoms(
    sizes: np.ndarray, source: np.ndarray, destination: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Search the pairs of atoms with 1 to :data:`PAIR_DISTANCE` bonds between them.

    Each atom has a set of atoms, stored as the bits of a word. In each step, the sets of its
    neighbours from the previous step are added to its own set.

    Args:
        sizes: [k], the number of atoms of each molecule.
        source: [e], the first atom of each bond, numbered over all molecules; each bond is listed
            in both directions.
        destination: [e], the second atom.

    Yields:
        The first atoms, the second atoms and the numbers of bonds, [p] int64 each.
    """
    widths = sizes.repeat(sizes)
    atoms = np.arange(len(widths))
    places = atoms - (sizes.cumsum() - sizes).repeat(sizes)
    for word in range(-(-sizes.max(initial=0) // WORD)):
        # The bits are the atoms of one word, so smaller molecules have none.
        large = widths > word * WORD
        edges, number = large[source], large.cumsum() - 1
        source, destination = number[source[edges]], number[destination[edges]]
        atoms, widths, places = atoms[large], widths[large], places[large]
        bits = places - word * WORD
        bit = np.uint64(1) << (bits % WORD).astype(np.uint64)
        reached = [np.where(bits // WORD == 0, bit, np.uint64(0)).astype("<u8")]
        loops = np.arange(len(atoms))
        order = np.concatenate([source, loops]).argsort(kind="stable")
        ends = np.concatenate([destination, loops])[order]
        begin = np.append(0, (np.bincount(source, minlength=len(atoms)) + 1).cumsum()[:-1])
        for _ in range(PAIR_DISTANCE):
            reached.append(np.bitwise_or.reduceat(reached[-1][ends], begin))
        for rows in np.split(loops, range(ROWS, len(loops), ROWS)):
            later = np.arange(WORD) > bits[rows, None]
            within = np.zeros(later.size, np.uint8)
            for each in reached[1:]:
                within += np.unpackbits(each[rows].view(np.uint8), bitorder="little")
            pairs = np.flatnonzero(within.astype(bool) & later.ravel())
            first = rows[pairs // WORD]
            second = atoms[first] - bits[first] + pairs % WORD
            yield atoms[first], second, PAIR_DISTANCE + 1 - within[pairs].astype(np.int64)
