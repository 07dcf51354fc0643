"""Features of atoms and bonds. They are computed from RDKit's properties, mostly as one-hot
codes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gattn.data.molecules.stereo import CHIRALITIES, STEREOS, atom_configuration, bond_configuration

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond

ELEMENTS = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")
DEGREES = (0, 1, 2, 3, 4, 5)
CHARGES = (-2, -1, 0, 1, 2)
HYDROGENS = (0, 1, 2, 3, 4)
HYBRIDISATIONS = ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
ORDERS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")


FEATURISER = "2"
"""Version of the features. Increase it when features change, so that models of other features
are refused.
"""


def _names(field: str, values: Sequence[object]) -> tuple[str, ...]:
    return (*(f"{field}={value}" for value in values), f"{field}=other")


ATOM_FEATURES = (
    *_names("element", ELEMENTS),
    *_names("degree", DEGREES),
    *_names("charge", CHARGES),
    *_names("chirality", CHIRALITIES),
    *_names("hydrogens", HYDROGENS),
    *_names("hybridisation", HYBRIDISATIONS),
    "aromatic",
    "ring",
    "mass/100",
)
"""Name of each column of :func:`atom_features`."""

BOND_FEATURES = (*_names("order", ORDERS), *_names("stereo", STEREOS), "conjugated", "ring")
"""Name of each column of :func:`bond_features`."""


@functools.cache
def _one_hot(values: tuple[object, ...]) -> tuple[dict[object, list[float]], list[float]]:
    """Return a dict from each value to its one-hot row, and the row for all other values."""
    rows = [[float(i == j) for j in range(len(values) + 1)] for i in range(len(values) + 1)]
    return dict(zip(values, rows)), rows[-1]


def _encode(value: object, values: tuple[object, ...]) -> list[float]:
    rows, other = _one_hot(values)
    return rows.get(value, other)


def atom_features(atom: Atom) -> list[float]:
    """Compute the features of one atom; their names are in :data:`ATOM_FEATURES`.

    These properties are one-hot codes, each with a last column for "other": element, degree (bonds
    to other atoms of the molecule), formal charge, chirality, implicit hydrogens and hybridisation.
    They are followed by two flags, aromatic and in a ring (0 or 1), and by the atomic mass in units
    of 100 Da, which distinguishes isotopes of heavy atoms. The chirality is the CIP label, which
    does not depend on the order of the atoms (:func:`gattn.data.molecules.stereo.configurations`).

    Args:
        atom: an RDKit ``Atom`` of a sanitised molecule.

    Returns:
        ``len(ATOM_FEATURES)`` numbers.

    >>> from rdkit import Chem
    >>> values = atom_features(Chem.MolFromSmiles("CO").GetAtomWithIdx(1))
    >>> [name for name, value in zip(ATOM_FEATURES, values) if value == 1]
    ['element=O', 'degree=1', 'charge=0', 'chirality=none', 'hydrogens=1', \
'hybridisation=SP3']

    Raises:
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.
    """
    return atom_row(atom, atom_configuration(atom))


def atom_row(atom: Atom, configuration: str) -> list[float]:
    """Compute the features of an atom (:func:`atom_features`), given the atom and its stereo label,
    one of :data:`CHIRALITIES`; another label counts as "other".
    """
    return [
        *_encode(atom.GetSymbol(), ELEMENTS),
        *_encode(atom.GetDegree(), DEGREES),
        *_encode(atom.GetFormalCharge(), CHARGES),
        *_encode(configuration, CHIRALITIES),
        *_encode(atom.GetTotalNumHs(), HYDROGENS),
        *_encode(atom.GetHybridization().name, HYBRIDISATIONS),
        float(atom.GetIsAromatic()),
        float(atom.IsInRing()),
        atom.GetMass() / 100,
    ]


def bond_features(bond: Bond) -> list[float]:
    """Compute the features of one bond; their names are in :data:`BOND_FEATURES`.

    The bond order and the stereo label are one-hot codes, each with a last column for "other". They
    are followed by two flags, conjugated and in a ring. The stereo label is the CIP label.

    Args:
        bond: an RDKit ``Bond`` of a sanitised molecule.

    Returns:
        ``len(BOND_FEATURES)`` numbers.

    >>> from rdkit import Chem
    >>> values = bond_features(Chem.MolFromSmiles("C=C").GetBondWithIdx(0))
    >>> [name for name, value in zip(BOND_FEATURES, values) if value == 1]
    ['order=DOUBLE', 'stereo=none']

    Raises:
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.
    """
    return bond_row(bond, bond_configuration(bond))


def bond_row(bond: Bond, configuration: str) -> list[float]:
    """Compute the features of a bond (:func:`bond_features`), given the bond and its stereo label,
    one of :data:`STEREOS`; another label counts as "other".
    """
    return [
        *_encode(bond.GetBondType().name, ORDERS),
        *_encode(configuration, STEREOS),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
    ]
