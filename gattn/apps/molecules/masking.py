"""Predictions for molecules in which some atoms are masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.model_inputs import ExpandedInputs, MoleculeInputs
from gattn.data import DESCRIPTORS
from gattn.data.molecules.building import MoleculeBuilder
from gattn.data.molecules.counts import COUNTS, atom_codes, morgan_counter
from gattn.data.molecules.dataset import Molecules
from gattn.data.molecules.descriptors import LOGP, REFRACTIVITY, descriptor_row, in_settled_order
from gattn.data.molecules.pairs import atom_pairs
from gattn.data.molecules.plain import plain, written_places
from gattn.data.molecules.smiles import parse_any_size
from gattn.data.molecules.stereo import configurations

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from gattn.apps.molecules.predictor import MoleculePredictor

BUDGET = 1 << 16
"""Maximum number of atoms in a batch of masked copies, which limits the memory."""


@dataclass(frozen=True, eq=False)
class Environments:
    """Morgan environments or atom pairs of a molecule that are counted in its fingerprint.

    Attributes:
        places: [E] int64, the fingerprint column that counts each environment.
        members: [2, I] int64, pairs of an environment and an atom in it.
    """

    places: Tensor
    members: Tensor


@dataclass(frozen=True, eq=False)
class MoleculeAtoms:
    """Properties of the n atoms of a molecule: symmetry, environments, and shares of the
    descriptors.

    Attributes:
        symbols: the elements of its n atoms.
        places: [n], the number of each atom in the SMILES, in which explicit hydrogen atoms are
            counted.
        classes: [n] int64, equal for symmetric atoms, and independent of how the SMILES is
            written.
        order: [n] int64, the atoms in canonical order. It does not depend on how the SMILES is
            written, except for the order of symmetric atoms.
        environments: the Morgan environments of the molecule.
        pairs: the pairs of atoms that are counted, each with two members.
        shares: [n, d] float64, each atom's share of each descriptor.
        owners: [m] int64, the atom of each node of the graph, in which added hydrogens are nodes;
            None if the nodes are the atoms.
    """

    symbols: tuple[str, ...]
    places: tuple[int, ...]
    classes: Tensor
    order: Tensor
    environments: Environments
    pairs: Environments
    shares: Tensor
    owners: Tensor | None = None

    def nodes(self, mask: Tensor) -> Tensor:
        """Convert masks of atoms [m, n] to masks of the graph's nodes [m, nodes], which include
        added hydrogens.
        """
        return mask if self.owners is None else mask[:, self.owners]


@dataclass(frozen=True, eq=False)
class Masked:
    """Predictions for m masked copies of a molecule, for one target.

    Attributes:
        mean: [m] float64, the predicted means.
        std: [m] float64, their standard deviations.
        parts: [m] predicted means of each component of the model, by its name.
        members: [K, m], predictions of each network.
    """

    mean: Tensor
    std: Tensor
    parts: dict[str, Tensor]
    members: Tensor


def atoms_of(inputs: MoleculeInputs, *, add_h: bool = False) -> list[MoleculeAtoms]:
    """Return the properties of the atoms of each of k molecules; see :class:`MoleculeAtoms`.

    Args:
        inputs: k molecules.
        add_h: whether hydrogens are nodes of the graphs.

    Raises:
        ValueError: RDKit cannot read a SMILES.
    """
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return [_atoms(smiles, add_h) for smiles in inputs.molecules.smiles]


def _atoms(smiles: str, add_h: bool) -> MoleculeAtoms:
    """Return the atoms of a SMILES with their symmetry classes, their environments and their shares
    of the descriptors. Raises ValueError if RDKit cannot parse it.
    """
    from rdkit.Chem import CanonicalRankAtoms

    molecule = plain(parse_any_size(smiles), smiles)
    classes, ranks = (
        torch.tensor(list(CanonicalRankAtoms(molecule, breakTies=ties))) for ties in (False, True)
    )
    symbols = tuple(atom.GetSymbol() for atom in molecule.GetAtoms())
    places = tuple(written_places(smiles, len(symbols)))
    environments, shares = _environments(molecule), descriptor_shares(molecule)
    owners = _owners(molecule) if add_h else None
    return MoleculeAtoms(
        symbols, places, classes, ranks.argsort(), environments, _pairs(molecule, smiles), shares,
        owners,
    )  # fmt: skip


def _owners(molecule: Mol) -> Tensor:
    """Return the atom to which each of m nodes belongs in a graph with added hydrogens: [m]
    int64.
    """
    from rdkit.Chem import AddHs

    count = molecule.GetNumAtoms()
    added = [atom.GetNeighbors()[0].GetIdx() for atom in list(AddHs(molecule).GetAtoms())[count:]]
    return torch.tensor([*range(count), *added])


def masked_inputs(
    inputs: MoleculeInputs, atoms: Sequence[MoleculeAtoms], masks: Sequence[tuple[int, Tensor]]
) -> MoleculeInputs:
    """Return copies of molecules in which some atoms are masked.

    A masked atom sends no messages and is left out of the readout. The features of the other atoms
    do not change; for example, their number of bonds still counts the bonds to masked atoms.
    Fingerprints lose every environment and every pair that contains the atom, and descriptors its
    share. The descriptor columns of the user do not change.

    Args:
        inputs: k molecules.
        atoms: the result of :func:`atoms_of`.
        masks: indices of molecules, each with [m, n] bool: the atoms to mask in m copies.

    Returns:
        The copies, in order; a copy may have no atoms.
    """
    positions = [place for place, mask in masks for _ in range(len(mask))]
    copies = inputs[torch.tensor(positions, dtype=torch.int64)]
    nodes = [atoms[place].nodes(mask).flatten() for place, mask in masks]
    masked = torch.cat([torch.zeros(0, dtype=torch.bool), *nodes])
    counts = [counts_without(atoms[place].environments, mask) for place, mask in masks]
    pairs = [counts_without(atoms[place].pairs, mask) for place, mask in masks]
    lost = [mask.double() @ atoms[place].shares for place, mask in masks]
    described = copies.descriptors
    width = described.shape[1]
    masked_copies = ExpandedInputs(
        _without(copies.molecules, masked),
        torch.cat([torch.zeros(0, COUNTS, dtype=torch.uint8), *counts]),
        (described - torch.cat([torch.zeros(0, width).double(), *lost])).float(),
        torch.cat([torch.zeros(0, COUNTS, dtype=torch.uint8), *pairs]),
    )
    return masked_copies.described(copies.extra_descriptors)


def predict_masked(
    predictor: MoleculePredictor, inputs: MoleculeInputs, masks: Sequence[Tensor], target: int,
    atoms: Sequence[MoleculeAtoms],
) -> list[Masked]:  # fmt: skip
    """Predict copies of molecules in which some atoms are masked, in batches of bounded memory.

    The predictions are those of the transformed targets, on the scale of the training.

    Args:
        predictor: the model.
        inputs: k molecules.
        masks: for each molecule [m, n] bool, for one or more copies; True masks an atom.
        target: index of the target.
        atoms: the result of :func:`atoms_of`.

    Returns:
        For each molecule the predictions of its copies.
    """
    predictions = [
        predictor.predict_transformed(masked_inputs(inputs, atoms, batch))
        for batch in _batches(masks)
    ]
    if not predictions:
        return []
    sizes = [len(mask) for mask in masks]
    mean = torch.cat([each.mean[:, target] for each in predictions]).split(sizes)
    std = torch.cat([each.std[:, target] for each in predictions]).split(sizes)
    members = torch.cat([each.member_predictions[:, :, target] for each in predictions], 1)
    parts = {
        name: torch.cat([each.component_means[name][:, target] for each in predictions])
        for name in predictions[0].component_means
    }
    split = {name: part.split(sizes) for name, part in parts.items()}
    return [
        Masked(mean[i], std[i], {name: pieces[i] for name, pieces in split.items()}, of_members)
        for i, of_members in enumerate(members.split(sizes, 1))
    ]


def _batches(masks: Sequence[Tensor]) -> Iterator[list[tuple[int, Tensor]]]:
    """Yield batches of pairs (molecule, masks). The masked copies in a batch have at most BUDGET
    atoms.
    """
    batch: list[tuple[int, Tensor]] = []
    room = BUDGET
    for place, mask in enumerate(masks):
        for piece in mask.split(max(BUDGET // max(mask.shape[1], 1), 1)):
            if batch and piece.numel() > room:
                yield batch
                batch, room = [], BUDGET
            batch.append((place, piece))
            room -= piece.numel()
    if batch:
        yield batch


def _without(molecules: Molecules, masked: Tensor) -> Molecules:
    """Return the molecules without the masked atoms and without the bonds of the masked atoms. The
    mask is [n] bool over the atoms of all molecules.
    """
    arrays, remaining = molecules.arrays, ~masked
    before = torch.cat([remaining.new_zeros(1, dtype=torch.int64), remaining.cumsum(0)])
    first = arrays.ptr[:-1].repeat_interleave(arrays.edge_ptr.diff())
    ends = arrays.edge_index + first
    bonds = remaining[ends].all(0)
    bonds_before = torch.cat([bonds.new_zeros(1, dtype=torch.int64), bonds.cumsum(0)])
    left = replace(
        arrays,
        x=arrays.x[remaining],
        edge_index=(before[ends] - before[first])[:, bonds],
        edge_attr=arrays.edge_attr[bonds],
        ptr=before[arrays.ptr],
        edge_ptr=bonds_before[arrays.edge_ptr],
    )
    return replace(molecules, arrays=left)


def counts_without(environments: Environments, mask: Tensor) -> Tensor:
    """Count the environments that contain no masked atom: [m, COUNTS] uint8, at most 255, for masks
    [m, n].
    """
    which, atom = environments.members
    hit = torch.zeros(len(mask), len(environments.places)).index_add_(
        1, which, mask[:, atom].float()
    )
    counts = torch.zeros(len(mask), COUNTS)
    counts.index_add_(1, environments.places, (hit == 0).float())
    return counts.clamp(max=255).to(torch.uint8)


def _environments(molecule: Mol) -> Environments:
    """Return the Morgan environments that are counted in the fingerprint of a molecule: first
    those without stereochemistry, then those with the configurations of the atoms.
    """
    from rdkit.Chem import rdFingerprintGenerator

    within = _neighbourhoods(molecule)
    places: list[int] = []
    members: list[tuple[int, int]] = []
    for codes in ([], atom_codes(molecule, configurations(molecule))):
        output = rdFingerprintGenerator.AdditionalOutput()
        output.AllocateBitInfoMap()
        morgan_counter().GetCountFingerprint(
            molecule, customAtomInvariants=codes, additionalOutput=output
        )
        for place, where in output.GetBitInfoMap().items():
            for centre, radius in where:
                members += [(len(places), atom) for atom in within[radius][centre]]
                places.append(place)
    pairs = torch.tensor(members, dtype=torch.int64).reshape(-1, 2)
    return Environments(torch.tensor(places, dtype=torch.int64), pairs.t().contiguous())


def _pairs(molecule: Mol, smiles: str) -> Environments:
    """Return the pairs of atoms that are counted in the second fingerprint of a molecule."""
    builder = MoleculeBuilder()
    builder.add(molecule, smiles)
    pairs = atom_pairs(builder.pack().unpack().arrays)
    members = torch.from_numpy(np.concatenate([pairs.first, pairs.second]))
    which = torch.arange(len(pairs.columns)).repeat(2)
    return Environments(torch.from_numpy(pairs.columns), torch.stack([which, members]))


def _neighbourhoods(molecule: Mol) -> list[list[set[int]]]:
    """Return the atoms within 0, 1 and 2 bonds of each atom: a list by radius of lists by atom."""
    near = [
        {atom.GetIdx(), *(other.GetIdx() for other in atom.GetNeighbors())}
        for atom in molecule.GetAtoms()
    ]
    far = [set().union(*(near[other] for other in atoms)) for atoms in near]
    return [[{i} for i in range(len(near))], near, far]


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
    """Return the share of each atom in the descriptors that are sums over atoms, by descriptor."""
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
    """Return the mass of an isotope in u: of the most common one if ``isotope`` is 0 or unknown,
    and 0 for a dummy atom.
    """
    from rdkit.Chem import GetPeriodicTable

    if number == 0:
        return 0.0
    table = GetPeriodicTable()
    mass = table.GetMassForIsotope(number, isotope) if isotope else 0.0
    return mass or table.GetMostCommonIsotopeMass(number)


def _surfaces(molecule: Mol) -> dict[str, np.ndarray]:
    """Return the term of each atom in Crippen's sums, the polar surface area, Hall and Kier's alpha
    and Labute's surface area.

    Labute's surface area is also divided by intervals of logP, refractivity and charge. The arrays
    [n] have the names of their descriptors as keys.
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
