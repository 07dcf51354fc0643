"""Descriptors of whole molecules that RDKit computes in C++, as fast as it reads one.

Left out is what costs more than that, as the paths of three and four bonds (chi, kappa), and what
the graph's size says already. Crippen's logP and molar refractivity are sums over heavy atoms:
with hydrogens of their own they take three times as long, and models learn the same from both.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.data.environments import AtomMemory
from gattn.data.molecules import Molecules, smiles_of
from gattn.data.smiles import need_rdkit

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from rdkit.Chem.rdMolDescriptors import Properties

__all__ = [
    "DESCRIPTORS",
    "LOGP",
    "REFRACTIVITY",
    "descriptor_row",
    "descriptor_rows",
    "molecule_descriptors",
]

PROPERTIES = (
    "exactmw",
    "NumHeavyAtoms",
    "NumHeteroatoms",
    "lipinskiHBA",
    "lipinskiHBD",
    "NumHBD",
    "NumAmideBonds",
    "FractionCSP3",
    "NumRings",
    "NumAromaticRings",
    "NumAliphaticRings",
    "NumSaturatedRings",
    "NumHeterocycles",
    "NumAromaticHeterocycles",
    "NumSaturatedHeterocycles",
    "NumAliphaticHeterocycles",
    "NumSpiroAtoms",
    "NumBridgeheadAtoms",
    "NumAtomStereoCenters",
    "NumUnspecifiedAtomStereoCenters",
    "labuteASA",
    "tpsa",
    "chi0v",
    "chi1v",
    "chi0n",
    "chi1n",
    "hallKierAlpha",
    "kappa1",
)
"""As RDKit's ``Properties`` names them."""

DESCRIPTORS = (
    *PROPERTIES,
    "NumRotatableBonds",
    "CrippenClogPHeavy",
    "CrippenMRHeavy",
    *(f"SlogP_VSA{bin}" for bin in range(1, 13)),
    *(f"SMR_VSA{bin}" for bin in range(1, 11)),
    *(f"PEOE_VSA{bin}" for bin in range(1, 15)),
)
"""The name of each column of :func:`molecule_descriptors`, most as RDKit has it.

Of the VSA columns each is the surface of the atoms whose share of logP, of molar refractivity or
whose partial charge lies in one interval.
"""


LOGP = (-0.4, -0.2, 0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
REFRACTIVITY = (1.29, 1.82, 2.24, 2.45, 2.75, 3.05, 3.63, 3.8, 4.0)
"""Bounds of the intervals that RDKit sorts atoms by, for the surfaces by logP and refractivity."""


def molecule_descriptors(molecules: Sequence[str] | Molecules) -> Tensor:
    """Compute numbers that describe whole molecules, named in :data:`DESCRIPTORS`.

    Args:
        molecules: what was read, or SMILES.

    Returns:
        [k, len(DESCRIPTORS)] float32, not scaled, all of them finite; no molecules give no rows.

    Raises:
        ValueError: a SMILES that RDKit cannot read.
        ImportError: RDKit is not installed.

    >>> ethanol = molecule_descriptors(["CCO"])[0]
    >>> dict(zip(DESCRIPTORS, ethanol.tolist()))["NumHBD"]
    1.0
    """
    need_rdkit()
    from rdkit import Chem, rdBase

    smiles = smiles_of(molecules)
    rows = np.empty((len(smiles), len(DESCRIPTORS)), np.float32)
    with rdBase.BlockLogs():
        for row, text in zip(rows, smiles):
            molecule = Chem.MolFromSmiles(text)
            if molecule is None:
                raise ValueError(f"RDKit cannot read the SMILES {text!r}")
            row[:] = descriptor_row(molecule)
    return torch.from_numpy(_defined(rows))


def descriptor_rows(
    molecules: Sequence[Mol], atoms: np.ndarray, environments: np.ndarray
) -> np.ndarray:
    """The descriptors of many molecules, where environments of atoms are typed once.

    Args:
        molecules: k of them.
        atoms: [k], how many each has.
        environments: of all atoms, :meth:`gattn.data.building.MoleculeBuilder.environments`.

    Returns:
        [k, len(DESCRIPTORS)] float32, finite.
    """
    if not molecules:
        return np.empty((0, len(DESCRIPTORS)), np.float32)
    terms = _atom_terms().rows(environments, molecules, atoms)
    logp, refractivity, surface = terms.T
    which = np.arange(len(atoms)).repeat(atoms)
    whole = [_whole(molecule) for molecule in molecules]
    charged = [_by_charge(molecule) for molecule in molecules]
    sums = [np.bincount(which, term, len(atoms))[:, None] for term in (logp, refractivity)]
    surfaces = [
        _in_intervals(which, surface, values, bounds, len(atoms))
        for values, bounds in ((logp, LOGP), (refractivity, REFRACTIVITY))
    ]
    return _defined(np.concatenate([whole, *sums, *surfaces, charged], 1).astype(np.float32))


def _in_intervals(
    which: np.ndarray, surface: np.ndarray, values: np.ndarray, bounds: Sequence[float], count: int
) -> np.ndarray:
    """Each molecule's surface by the interval that an atom's value lies in: [count, intervals]."""
    intervals = len(bounds) + 1
    cell = which * intervals + np.searchsorted(bounds, values, side="right")
    return np.bincount(cell, surface, count * intervals).reshape(count, intervals)


@functools.cache
def _atom_terms() -> AtomMemory:
    """Each atom's share of logP, its share of the molar refractivity, and its surface."""
    from rdkit.Chem import rdMolDescriptors as rd

    def terms(molecule: Mol) -> list[tuple[float, ...]]:
        surface, _ = rd._CalcLabuteASAContribs(molecule)
        return [(*pair, area) for pair, area in zip(rd._CalcCrippenContribs(molecule), surface)]

    return AtomMemory(terms, 3)


def descriptor_row(molecule: Mol) -> list[float]:
    """The descriptors of one molecule as RDKit gives them; some may not be finite."""
    from rdkit.Chem import rdMolDescriptors as rd

    return [
        *_whole(molecule),
        *rd.CalcCrippenDescriptors(molecule, includeHs=False),
        *rd.SlogP_VSA_(molecule),
        *rd.SMR_VSA_(molecule),
        *_by_charge(molecule),
    ]


def _whole(molecule: Mol) -> list[float]:
    """The descriptors that are not sums over atoms by Crippen's types or by charges."""
    from rdkit.Chem import rdMolDescriptors as rd

    rotatable = rd.CalcNumRotatableBonds(molecule, rd.NumRotatableBondsOptions.NonStrict)
    return [*_properties().ComputeProperties(molecule), rotatable]


def _by_charge(molecule: Mol) -> Sequence[float]:
    from rdkit.Chem.rdMolDescriptors import PEOE_VSA_

    return PEOE_VSA_(molecule)


def _defined(rows: np.ndarray) -> np.ndarray:
    """Rows of descriptors in which what is undefined is 0.

    The surface of dummy atoms alone is 0 / 0, and a metal has no partial charge.
    """
    return np.where(np.isfinite(rows), rows, np.float32(0))


@functools.cache
def _properties() -> Properties:
    from rdkit.Chem.rdMolDescriptors import Properties

    return Properties(PROPERTIES)
