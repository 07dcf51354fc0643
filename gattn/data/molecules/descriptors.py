"""Descriptors of whole molecules. RDKit computes them about as fast as it parses a SMILES.

Slower descriptors are omitted, such as chi and kappa indices over paths of three and four bonds,
and so are descriptors that are functions of the graph's size. Crippen's logP and molar refractivity
are summed over heavy atoms only: with explicit hydrogens they take three times as long and are
equally useful to models.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gattn.data.molecules.environments import AtomMemory
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import need_rdkit, parse_any_size

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from rdkit.Chem.rdMolDescriptors import Properties
    from torch import Tensor

    from gattn.data.molecules.building import Skeletons
    from gattn.data.molecules.dataset import Molecules

PROPERTIES = (
    "exactmw", "NumHeavyAtoms", "NumHeteroatoms", "lipinskiHBA", "lipinskiHBD", "NumHBD",
    "NumAmideBonds", "FractionCSP3", "NumRings", "NumAromaticRings", "NumAliphaticRings",
    "NumSaturatedRings", "NumHeterocycles", "NumAromaticHeterocycles", "NumSaturatedHeterocycles",
    "NumAliphaticHeterocycles", "NumSpiroAtoms", "NumBridgeheadAtoms", "NumAtomStereoCenters",
    "NumUnspecifiedAtomStereoCenters", "labuteASA", "tpsa", "chi0v", "chi1v", "chi0n", "chi1n",
    "hallKierAlpha", "kappa1",
)  # fmt: skip
"""Names of the descriptors that are computed by RDKit's class ``Properties``."""

DESCRIPTORS = (
    *PROPERTIES,
    "NumRotatableBonds",
    "CrippenClogPHeavy",
    "CrippenMRHeavy",
    *(f"SlogP_VSA{bin}" for bin in range(1, 13)),
    *(f"SMR_VSA{bin}" for bin in range(1, 11)),
    *(f"PEOE_VSA{bin}" for bin in range(1, 15)),
)
"""Name of each column of :func:`molecule_descriptors`, which is RDKit's name in most cases.

A VSA column is the surface area of the atoms whose contribution to logP (SlogP) or to molar
refractivity (SMR), or whose partial charge (PEOE), lies in one interval.
"""


DONOR = "[N&!H0&v3,N&!H0&+1&v4,O&H1&+0,S&H1&+0,n&H1&+0]"
"""SMARTS pattern of the hydrogen bond donors that the descriptor ``NumHBD`` counts."""
SINGLE, TRIPLE = 1, 3
"""RDKit's type numbers of single and triple bonds."""
LOGP = (-0.4, -0.2, 0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
REFRACTIVITY = (1.29, 1.82, 2.24, 2.45, 2.75, 3.05, 3.63, 3.8, 4.0)
"""Bounds of the intervals of logP and molar refractivity in which RDKit's VSA descriptors sum
surface areas.
"""


def molecule_descriptors(molecules: Sequence[str] | Molecules) -> Tensor:
    """Compute descriptors of whole molecules; their names are in :data:`DESCRIPTORS`.

    Args:
        molecules: ``Molecules`` or a list of SMILES.

    Returns:
        [k, len(DESCRIPTORS)] float32, not scaled. Undefined descriptors are 0, for example of a
        molecule of dummy atoms. An empty list gives no rows.

    Raises:
        ValueError: RDKit cannot read a SMILES.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

    >>> ethanol = molecule_descriptors(["CCO"])[0]
    >>> dict(zip(DESCRIPTORS, ethanol.tolist()))["NumHBD"]
    1.0
    """
    need_rdkit()
    # The imports are inside the function, because the processes that read SMILES need no torch.
    import torch
    from rdkit import rdBase

    from gattn.data.molecules.dataset import smiles_of

    smiles = smiles_of(molecules)
    rows = np.empty((len(smiles), len(DESCRIPTORS)), np.float32)
    with rdBase.BlockLogs():
        for row, text in zip(rows, smiles):
            row[:] = descriptor_row(plain(parse_any_size(text), text))
    return torch.from_numpy(_defined(rows))


COUNTED = ("NumHeteroatoms", "NumHBD", "NumRotatableBonds")
"""Names of the descriptors that :func:`descriptor_rows` counts with array operations. They are
faster than RDKit's substructure search, which runs once per molecule.
"""


def descriptor_rows(molecules: Sequence[Mol], skeletons: Skeletons) -> np.ndarray:
    """Compute the descriptors of many molecules.

    Contributions of atoms, for example to logP, are computed once for each distinct environment.

    Args:
        molecules: k RDKit molecules.
        skeletons: the result of
            :meth:`gattn.data.molecules.building.MoleculeBuilder.skeletons` for these molecules.

    Returns:
        [k, len(DESCRIPTORS)] float32; undefined descriptors are 0.
    """
    from rdkit.Chem.rdMolDescriptors import PEOE_VSA_

    count = len(molecules)
    if not count:
        return np.empty((0, len(DESCRIPTORS)), np.float32)
    atoms = skeletons.sizes[:, 0]
    terms = _atom_terms().rows(skeletons.environments, molecules, atoms)
    logp, refractivity, surface, donors = terms.T
    which = np.arange(count).repeat(atoms)
    hetero = (skeletons.elements != 1) & (skeletons.elements != 6)
    properties = _properties(tuple(name for name in PROPERTIES if name not in COUNTED))
    columns = dict(zip(properties.GetPropertyNames(), _properties_of(molecules, properties).T))
    columns["NumHeteroatoms"] = np.bincount(which, hetero, count)
    columns["NumHBD"] = np.bincount(which, donors, count)
    columns["NumRotatableBonds"] = _rotatable(molecules, skeletons)
    whole = [columns[name] for name in (*PROPERTIES, "NumRotatableBonds")]
    sums = [np.bincount(which, term, count) for term in (logp, refractivity)]
    surfaces = [
        _in_intervals(which, surface, values, bounds, count)
        for values, bounds in ((logp, LOGP), (refractivity, REFRACTIVITY))
    ]
    several = np.bincount(which, skeletons.charges != 0, count) > 1
    charged = [
        PEOE_VSA_(in_settled_order(molecule)[0] if more else molecule)
        for molecule, more in zip(molecules, several)
    ]
    rows = np.concatenate([np.stack([*whole, *sums], 1), *surfaces, charged], 1)
    return _defined(rows.astype(np.float32))


def _properties_of(molecules: Sequence[Mol], properties: Properties) -> np.ndarray:
    """Return the values of RDKit's properties, [k, properties] float64, for k >= 1 molecules."""
    places = range(len(properties.GetPropertyNames()))
    values = map(properties.ComputeProperties, molecules)
    # Elements are read by index, because iterating over RDKit's vectors would take half as long as
    # computing the descriptors.
    return np.array([list(map(numbers.__getitem__, places)) for numbers in values])


MANY = 400
"""Above this number of rotatable bonds, RDKit's own function counts them, because RDKit stops after
1,000 matches (two per bond) and the descriptor must have the same value as in RDKit.
"""


def _rotatable(molecules: Sequence[Mol], skeletons: Skeletons) -> np.ndarray:
    """Count the rotatable bonds of each molecule: [k] float64.

    A rotatable bond is a single bond outside rings. Each of its two atoms has further bonds, none
    of them triple.
    """
    ends, orders = skeletons.ends, skeletons.orders
    fixed = skeletons.degrees == 1
    fixed[ends[orders == TRIPLE]] = True
    turns = (orders == SINGLE) & ~skeletons.in_ring & ~fixed[ends].any(1)
    count = len(molecules)
    counts = np.bincount(np.arange(count).repeat(skeletons.sizes[:, 1]), turns, count)
    for i, many in enumerate(counts > MANY):
        if many:
            counts[i] = _rotatable_bonds(molecules[i])
    return counts


def _in_intervals(
    which: np.ndarray, surface: np.ndarray, values: np.ndarray, bounds: Sequence[float], count: int
) -> np.ndarray:
    """For each molecule, sum the surface areas of its atoms by the intervals into which the values
    of the atoms fall.

    Args:
        which: [n], the index of each atom's molecule.
        surface: [n], the surface area of each atom.
        values: [n], the value of each atom, for example its contribution to logP.
        bounds: ascending bounds of the intervals; a value equal to a bound is in the upper one.
        count: number of molecules.

    Returns:
        [count, intervals] float64.
    """
    intervals = len(bounds) + 1
    cell = which * intervals + np.searchsorted(bounds, values, side="right")
    return np.bincount(cell, surface, count * intervals).reshape(count, intervals)


@functools.cache
def _atom_terms() -> AtomMemory:
    """Return the cache, one for the process, for the logP, the molar refractivity, the surface area
    and the donor flag of atoms.
    """
    from rdkit.Chem import MolFromSmarts
    from rdkit.Chem import rdMolDescriptors as rd

    donor = MolFromSmarts(DONOR)

    def terms(molecule: Mol) -> list[tuple[float, ...]]:
        """Return, for each atom, its Crippen contributions to logP and to the molar refractivity,
        its surface area, and 1.0 if it is a donor of hydrogen bonds.
        """
        surface, _ = rd._CalcLabuteASAContribs(molecule)
        crippen = rd._CalcCrippenContribs(molecule)
        donors = set(molecule.GetSubstructMatches(donor, maxMatches=molecule.GetNumAtoms()))
        return [
            (*pair, area, float((i,) in donors))
            for i, (pair, area) in enumerate(zip(crippen, surface))
        ]

    return AtomMemory(terms, 4)


def descriptor_row(molecule: Mol) -> list[float]:
    """Compute the descriptors of one molecule with RDKit, in the order of :data:`DESCRIPTORS`;
    some of them may be NaN or infinite.
    """
    from rdkit.Chem import rdMolDescriptors as rd

    return [
        *_properties(PROPERTIES).ComputeProperties(molecule),
        _rotatable_bonds(molecule),
        *rd.CalcCrippenDescriptors(molecule, includeHs=False),
        *rd.SlogP_VSA_(molecule),
        *rd.SMR_VSA_(molecule),
        *rd.PEOE_VSA_(in_settled_order(molecule)[0]),
    ]


def _rotatable_bonds(molecule: Mol) -> int:
    from rdkit.Chem import rdMolDescriptors as rd

    return rd.CalcNumRotatableBonds(molecule, rd.NumRotatableBondsOptions.NonStrict)


def in_settled_order(molecule: Mol) -> tuple[Mol, list[int]]:
    """Renumber atoms in canonical order, so that partial charges do not depend on the order of the
    atoms.

    RDKit divides a formal charge among the atoms of the same element in a conjugated system. If
    two such systems overlap, the result depends on the order of the atoms.

    Args:
        molecule: a sanitised molecule of n atoms.

    Returns:
        The molecule in canonical order, and the previous index of each atom [n]. The molecule
        itself is returned if no two atoms of the same element are charged.
    """
    from rdkit.Chem import CanonicalRankAtoms, RenumberAtoms

    charged = [atom.GetAtomicNum() for atom in molecule.GetAtoms() if atom.GetFormalCharge()]
    if len(charged) == len(set(charged)):
        return molecule, list(range(molecule.GetNumAtoms()))
    ranks = list(CanonicalRankAtoms(molecule, includeChirality=False))
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    return RenumberAtoms(molecule, order), order


def _defined(rows: np.ndarray) -> np.ndarray:
    """Replace undefined descriptors by 0.

    For example, a surface area is 0 / 0 if all atoms are dummy atoms, and the partial charge of a
    metal is undefined.
    """
    return np.where(np.isfinite(rows), rows, np.float32(0))


@functools.cache
def _properties(names: tuple[str, ...]) -> Properties:
    from rdkit.Chem.rdMolDescriptors import Properties

    return Properties(names)
