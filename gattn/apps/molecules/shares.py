"""Division of a molecule's descriptors among its atoms."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.data import DESCRIPTORS
from gattn.data.molecules.descriptors import (
    DONOR,
    LOGP,
    REFRACTIVITY,
    descriptor_row,
    in_settled_order,
)

if TYPE_CHECKING:
    from rdkit.Chem import Bond, Mol

__all__ = ["descriptor_shares"]

# These are the boundaries of the partial charges in RDKit's PEOE_VSA descriptors. Each descriptor
# is the surface area of the atoms in one range of charges.
_CHARGE = (-0.3, -0.25, -0.2, -0.15, -0.1, -0.05, 0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)

_PATTERNS = {
    "NumHBD": DONOR,
    "NumAmideBonds": "C(=[O;!R])N",
    "NumRotatableBonds": "[!$(*#*)&!D1]-&!@[!$(*#*)&!D1]",
}
"""SMARTS pattern that RDKit counts for each descriptor. Each match is divided equally among its
atoms.
"""


def descriptor_shares(molecule: Mol) -> Tensor:
    """Divide each descriptor of a molecule among its atoms.

    Masses, surface areas, counts, Crippen's sums and the polar surface area are sums over atoms:
    the share of an atom is its term. A ring, a bond or a group is divided equally among its atoms.
    The remainder,
    for example of shape indices, is divided equally among all atoms.

    Args:
        molecule: n atoms, sanitised.

    Returns:
        [n, len(DESCRIPTORS)] float64, whose columns sum to the descriptors.

    >>> from rdkit import Chem
    >>> shares = descriptor_shares(Chem.MolFromSmiles("CCO"))
    >>> shares[:, DESCRIPTORS.index("tpsa")].round(decimals=2).tolist()
    [0.0, 0.0, 20.23]
    """
    terms = _terms(molecule)
    atoms = molecule.GetNumAtoms()
    blank = np.zeros(atoms)
    shares = np.stack([terms.get(name, blank) for name in DESCRIPTORS], 1)
    shares = np.nan_to_num(shares, nan=0.0, posinf=0.0, neginf=0.0)
    shares += (descriptor_row(molecule) - shares.sum(0)) / atoms
    return torch.from_numpy(shares)


def _terms(molecule: Mol) -> dict[str, np.ndarray]:
    """Return the contribution of each of n atoms, [n], to each descriptor that can be divided."""
    terms = _counts(molecule) | _rings(molecule) | _connectivity(molecule) | _surfaces(molecule)
    for name, pattern in _patterns().items():
        # RDKit's default limit is 1,000 matches, which a polymer can exceed.
        most = 4 * molecule.GetNumAtoms()
        matches = molecule.GetSubstructMatches(pattern, maxMatches=most)
        terms[name] = _spread(molecule, matches)
    return terms


@functools.cache
def _patterns() -> dict[str, Mol]:
    from rdkit import Chem

    return {name: Chem.MolFromSmarts(smarts) for name, smarts in _PATTERNS.items()}


def _spread(molecule: Mol, groups: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """Divide 1 equally among the atoms of each group; return the sum for each of n atoms, [n]."""
    terms = np.zeros(molecule.GetNumAtoms())
    for group in groups:
        terms[list(group)] += 1 / len(group)
    return terms


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


def _rings(molecule: Mol) -> dict[str, np.ndarray]:
    rings = molecule.GetRingInfo()
    named: dict[str, list[tuple[int, ...]]] = {}
    for atoms, bonds in zip(rings.AtomRings(), rings.BondRings()):
        carbocycle = all(molecule.GetAtomWithIdx(i).GetAtomicNum() == 6 for i in atoms)
        for kind in _kinds([molecule.GetBondWithIdx(i) for i in bonds]):
            names = [f"Num{kind}Rings", *([] if carbocycle else [f"Num{kind}Heterocycles"])]
            for name in names:
                named.setdefault(name, []).append(atoms)
    return {name: _spread(molecule, tuple(groups)) for name, groups in named.items()}


def _kinds(bonds: list[Bond]) -> list[str]:
    """Return the types of a ring, given its bonds. The types are words that occur in the names of
    RDKit's descriptors.

    The first type is always "", because a descriptor such as RingCount counts all rings.
    """
    if all(bond.GetIsAromatic() for bond in bonds):
        return ["", "Aromatic"]
    single = all(bond.GetBondTypeAsDouble() == 1 for bond in bonds)
    return ["", "Aliphatic", *(["Saturated"] if single else [])]


def _connectivity(molecule: Mol) -> dict[str, np.ndarray]:
    """Return the term of each atom in Kier and Hall's indices. Each bond contributes half to
    both of its atoms.
    """
    from rdkit.Chem import GetPeriodicTable
    from rdkit.Chem.rdMolDescriptors import CalcHallKierAlpha

    valence, simple = [], []
    for atom in molecule.GetAtoms():
        number = atom.GetAtomicNum()
        outer = GetPeriodicTable().GetNOuterElecs(number)
        free = outer - atom.GetTotalNumHs()
        valence.append(free if number <= 10 else free / (number - outer - 1))
        simple.append(free)
    terms = {}
    for name, degrees in {"v": valence, "n": simple}.items():
        root = np.array([degree**-0.5 if degree > 0 else 0.0 for degree in degrees])
        terms[f"chi0{name}"], ends = root, np.zeros(len(root))
        for bond in molecule.GetBonds():
            pair = [bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]
            ends[pair] += root[pair].prod() / 2
        terms[f"chi1{name}"] = ends
    alpha = [0.0] * molecule.GetNumAtoms()
    CalcHallKierAlpha(molecule, atomContribs=alpha)  # pyright: ignore[reportArgumentType]
    return {**terms, "hallKierAlpha": np.array(alpha)}


def _surfaces(molecule: Mol) -> dict[str, np.ndarray]:
    """Return the term of each atom in Crippen's sums, the polar surface area and Labute's surface
    area.

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
    terms = {
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
