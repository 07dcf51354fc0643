"""Counts of the Morgan environments of molecules."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gattn.data.molecules.stereo import CHIRALITIES, OTHER, STEREOS, Configurations

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from rdkit.Chem.rdFingerprintGenerator import FingerprintGenerator64

COUNTS = 2048
"""Number of columns of a Morgan count vector."""
RADIUS = 2
"""Radius, in bonds, of the atom environments that are counted in the count vectors."""


class PackedCounts(NamedTuple):
    """Morgan count vectors, stored as sparse rows.

    Attributes:
        lengths: [k] int32, the number of entries of each row.
        columns: int16, the column of each entry.
        counts: uint8, the value of each entry.
    """

    lengths: np.ndarray
    columns: np.ndarray
    counts: np.ndarray

    def unpack(self) -> np.ndarray:
        """Return the count vectors as a dense matrix, [k, COUNTS] uint8."""
        rows = np.zeros((len(self.lengths), COUNTS), np.uint8)
        rows[np.arange(len(rows)).repeat(self.lengths), self.columns] = self.counts
        return rows


def count_environments(
    molecules: Sequence[Mol], labels: Mapping[int, Configurations]
) -> PackedCounts:
    """Count the Morgan environments of radius 2 in each molecule. A count is at most 255.

    Each environment is counted twice: without stereochemistry, and with the configurations of its
    atoms (:func:`atom_codes`). For an environment without configurations, both counts are in the
    same column. Stereoisomers therefore share the counts without stereochemistry and differ only
    in those around their stereo centres, and a molecule without stereo marks is more similar to
    each stereoisomer than the stereoisomers are to one another.

    Args:
        molecules: k molecules that :func:`gattn.data.molecules.plain.plain` returned.
        labels: the configurations of molecules that have any, by the index of the molecule.

    Returns:
        The counts of all molecules in sparse form.
    """
    lengths, columns, counts = [], [], []
    # A single call of RDKit for all molecules takes two thirds of the time of one call per
    # molecule.
    flat = morgan_counter().GetCountFingerprints(molecules, numThreads=1)
    for position, fingerprint in enumerate(flat):
        environments = fingerprint.GetNonzeroElements()
        if position in labels:
            molecule = molecules[position]
            codes = atom_codes(molecule, labels[position])
            marked = morgan_counter().GetCountFingerprint(molecule, customAtomInvariants=codes)
            for column, count in marked.GetNonzeroElements().items():
                environments[column] = environments.get(column, 0) + count
        lengths.append(len(environments))
        columns += environments.keys()
        counts += environments.values()
    factors = np.full(len(lengths), 2)
    # Without stereo labels, the counts with and without labels are equal, so they are counted once
    # and doubled. For molecules with stereo labels, both were counted.
    factors[list(labels)] = 1
    totals = np.array(counts, np.int64) * factors.repeat(lengths)
    return PackedCounts(
        np.array(lengths, np.int32),
        np.array(columns, np.int16),
        np.minimum(totals, 255).astype(np.uint8),
    )


def atom_codes(molecule: Mol, labels: Configurations) -> list[int]:
    """Compute integer codes of atoms that include the stereo labels of atoms and double bonds.

    Args:
        molecule: a molecule of n atoms that :func:`gattn.data.molecules.plain.plain` returned.
        labels: the configurations of the molecule.

    Returns:
        [n] integers of 32 bits for RDKit's fingerprint generator. Without configurations they are
        the generator's default invariants.
    """
    from rdkit.Chem.rdMolDescriptors import GetConnectivityInvariants

    codes = list(GetConnectivityInvariants(molecule))
    for atom, label in labels.atoms.items():
        codes[atom] = (codes[atom] + CENTRE_CODES[label]) % 2**32
    for number, label in labels.bonds.items():
        bond = molecule.GetBondWithIdx(number)
        for atom in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()):
            codes[atom] = (codes[atom] + PLANE_CODES[label]) % 2**32
    return codes


CENTRE_CODES, PLANE_CODES = (
    {label: place * unit for place, label in enumerate((*labels, OTHER))}
    for labels, unit in ((CHIRALITIES, 0x9E3779B1), (STEREOS, 0x85EBCA6B))
)
"""Integers that are added to the code of an atom, for each stereo label of the atom and of its
bonds.
"""


@functools.cache
def morgan_counter() -> FingerprintGenerator64:
    """Return RDKit's generator of Morgan count vectors, which have :data:`COUNTS` columns."""
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=COUNTS)
