"""Division of a molecule's descriptors among its atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.data import DESCRIPTORS
from gattn.data.molecules.descriptors import (
    LOGP,
    REFRACTIVITY,
    descriptor_row,
    in_settled_order,
)

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["descriptor_shares"]

# These are the boundaries of the partial charges in RDKit's PEOE_VSA descriptors. Each descriptor
# is the surface area of the atoms in one range of charges.
_CHARGE = (-0.3, -0.25, -0.2, -0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


def descriptor_shares(molecule: Mol) -> Tensor:
    """Divide each descriptor of a molecule among its atoms.

    Masses, surface areas, counts of atoms, Crippen's sums and the polar surface area are sums over
    atoms: the share of an atom is its term. The rest, for example of shape indices and of counts of
    rings, is divided equally among all atoms.

    Args:
        molecule: n atoms, sanitised.

    Returns:
        [n, len(DESCRIPTORS)] float64, whose columns sum to the descriptors.

    >>> from rdkit import Chem
    >>> shares = descriptor_shares(Chem.MolFromSmiles("CCO"))
    >>> shares[:, DESCRIPTORS.index("tpsa")].round(decimals=2).tolist()
    [0.0, 0.0, 20.23]
    """
    terms = _counts(molecule) | _surfaces(molecule)
    atoms = molecule.GetNumAtoms()
    blank = np.zeros(atoms)
    shares = np.stack([terms.get(name, blank) for name in DESCRIPTORS], 1)
    shares = np.nan_to_num(shares, nan=0.0, posinf=0.0, neginf=0.0)
    shares += (descriptor_row(molecule) - shares.sum(0)) / atoms
    return torch.from_numpy(shares)


def _counts(molecule: Mol) -> dict[str, np.ndarray]:
    from rdkit.Chem import GetPeriodicTable

    hydrogen = GetPeriodicTable().GetMostCommonIsotopeMass(1)
    rows = []
    for atom in molecule.GetAtoms():
        number, hydrogens = atom.GetAtomicNum(), atom.GetTotalNumHs()
        polar, carbon = number in (7, 8), number == 6
        mass = _isotope_mass(number, atom.GetIsotope()) + hydrogens * hydrogen
        saturated = carbon and atom.GetHybridization().name == "SP3"
        rows.append(
            (mass, number > 1, number not in (1, 6), polar, polar * hydrogens, saturated, carbon)
        )
    mass, heavy, hetero, acceptors, donors, saturated, carbons = np.array(rows, float).T
    return {
        "exactmw": mass,
        "NumHeavyAtoms": heavy,
        "NumHeteroatoms": hetero,
        "lipinskiHBA": acceptors,
        "lipinskiHBD": donors,
        "FractionCSP3": saturated / max(carbons.sum(), 1.0),
    }


def _isotope_mass(number: int, isotope: int) -> float:
    from rdkit.Chem import GetPeriodicTable

    if number == 0:
        return 0.0
    table = GetPeriodicTable()
    mass = table.GetMassForIsotope(number, isotope) if isotope else 0.0
    return mass or table.GetMostCommonIsotopeMass(number)


def _surfaces(molecule: Mol) -> dict[str, np.ndarray]:
    """Return the term of each atom in Crippen's sums, the polar surface area, Hall and Kier's alpha
    and Labute's surface area.

    Labute's surface area is also divided by intervals of logP, refractivity and charge.
    """
    from rdkit.Chem import rdMolDescriptors as rd
    from rdkit.Chem.rdPartialCharges import ComputeGasteigerCharges

    logp, refractivity = np.array(rd._CalcCrippenContribs(molecule)).T
    surface, _ = rd._CalcLabuteASAContribs(molecule)
    surface = np.array(surface)
    settled, order = in_settled_order(molecule)
    copy = type(molecule)(settled)
    ComputeGasteigerCharges(copy)
    charge = np.empty(len(order))
    charge[order] = [atom.GetDoubleProp("_GasteigerCharge") for atom in copy.GetAtoms()]
    alpha = [0.0] * molecule.GetNumAtoms()
    rd.CalcHallKierAlpha(molecule, atomContribs=alpha)  # pyright: ignore[reportArgumentType]
    terms = {
        "hallKierAlpha": np.array(alpha),
        "CrippenClogPHeavy": logp,
        "CrippenMRHeavy": refractivity,
        "tpsa": np.array(rd._CalcTPSAContribs(molecule)),
        "labuteASA": surface,
    }
    for name, values, bounds in (
        ("SlogP", logp, LOGP), ("SMR", refractivity, REFRACTIVITY), ("PEOE", charge, _CHARGE),
    ):  # fmt: skip
        interval = np.searchsorted(bounds, values, side="right")
        for number in range(len(bounds) + 1):
            terms[f"{name}_VSA{number + 1}"] = surface * (interval == number)
    return terms
