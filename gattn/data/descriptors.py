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

from gattn.data.molecules import Molecules, smiles_of
from gattn.data.smiles import need_rdkit

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from rdkit.Chem.rdMolDescriptors import Properties

__all__ = ["DESCRIPTORS", "defined", "descriptor_row", "molecule_descriptors"]

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
    return torch.from_numpy(defined(rows))


def descriptor_row(molecule: Mol) -> list[float]:
    """The descriptors of one molecule, of which :func:`defined` makes finite numbers."""
    from rdkit.Chem import rdMolDescriptors as rd

    return [
        *_properties().ComputeProperties(molecule),
        rd.CalcNumRotatableBonds(molecule, rd.NumRotatableBondsOptions.NonStrict),
        *rd.CalcCrippenDescriptors(molecule, includeHs=False),
        *rd.SlogP_VSA_(molecule),
        *rd.SMR_VSA_(molecule),
        *rd.PEOE_VSA_(molecule),
    ]


def defined(rows: np.ndarray) -> np.ndarray:
    """Rows of descriptors in which what is undefined is 0.

    The surface of dummy atoms alone is 0 / 0, and a metal has no partial charge.
    """
    return np.where(np.isfinite(rows), rows, np.float32(0))


@functools.cache
def _properties() -> Properties:
    from rdkit.Chem.rdMolDescriptors import Properties

    return Properties(PROPERTIES)
