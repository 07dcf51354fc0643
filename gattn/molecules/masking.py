"""Predictions for molecules in which some atoms are masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.data.molecules.dataset import Molecules
from gattn.data.molecules.fingerprints import COUNTS, atom_codes, morgan_counter
from gattn.data.molecules.plain import plain, written_places
from gattn.data.molecules.smiles import parse_any_size
from gattn.data.molecules.stereo import configurations
from gattn.molecules.inputs import DescribedInputs, ExpandedInputs, MoleculeInputs
from gattn.molecules.shares import descriptor_shares

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from gattn.molecules.predictor import MoleculePredictor

__all__ = [
    "Environments",
    "Masked",
    "MoleculeAtoms",
    "atoms_of",
    "counts_without",
    "masked_inputs",
    "predict_masked",
]

BUDGET = 1 << 16
"""Maximum number of atoms in a batch of masked copies, which limits the memory."""


@dataclass(frozen=True, eq=False)
class Environments:
    """Morgan environments of a molecule that its fingerprint counts.

    Attributes:
        places: [E] int64, the fingerprint column that counts each environment.
        members: [2, I] int64, pairs of an environment and an atom in it.
    """

    places: Tensor
    members: Tensor


@dataclass(frozen=True, eq=False)
class MoleculeAtoms:
    """Atoms of one molecule, with their symmetry, environments and shares of the descriptors.

    Attributes:
        symbols: the elements of its n atoms.
        places: [n], the number of each atom in the SMILES; hydrogens written as atoms count.
        classes: [n] int64, equal for symmetric atoms, and independent of how the SMILES is
            written.
        order: [n] int64, the atoms in canonical order. It does not depend on how the SMILES is
            written, except for the order of symmetric atoms.
        environments: the Morgan environments of the molecule.
        shares: [n, d] float64, each atom's share of each descriptor.
    """

    symbols: tuple[str, ...]
    places: tuple[int, ...]
    classes: Tensor
    order: Tensor
    environments: Environments
    shares: Tensor


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


def atoms_of(inputs: MoleculeInputs) -> list[MoleculeAtoms]:
    """Describe the atoms of each of k molecules: symmetry, environments and shares of
    descriptors.
    """
    from rdkit import rdBase

    result = []
    with rdBase.BlockLogs():
        for smiles in inputs.molecules.smiles:
            molecule = plain(parse_any_size(smiles), smiles)
            symbols = tuple(atom.GetSymbol() for atom in molecule.GetAtoms())
            places = tuple(written_places(smiles, len(symbols)))
            environments = _environments(molecule)
            shares = descriptor_shares(molecule)
            result.append(MoleculeAtoms(symbols, places, *_ranks(molecule), environments, shares))
    return result


def _ranks(molecule: Mol) -> tuple[Tensor, Tensor]:
    """Return the symmetry classes of the atoms, and the indices of the atoms in canonical order."""
    from rdkit.Chem import CanonicalRankAtoms

    classes, ranks = (
        torch.tensor(list(CanonicalRankAtoms(molecule, breakTies=ties))) for ties in (False, True)
    )
    return classes, ranks.argsort()


def masked_inputs(
    inputs: MoleculeInputs, atoms: Sequence[MoleculeAtoms], masks: Sequence[tuple[int, Tensor]]
) -> MoleculeInputs:
    """Return copies of molecules in which some atoms are masked.

    A masked atom sends no messages and is left out of the readout. The other atoms keep their
    features, such as the number of bonds before masking: only the masked atom is unknown.
    Fingerprints lose every environment that contains the atom, and descriptors its share. The
    descriptor columns of the user do not change.

    Args:
        inputs: k molecules.
        atoms: the result of :func:`atoms_of`.
        masks: indices of molecules, each with [m, n] bool: the atoms to mask in m copies.

    Returns:
        The copies, in order; a copy may have no atoms.
    """
    positions = [place for place, mask in masks for _ in range(len(mask))]
    copies = inputs[torch.tensor(positions, dtype=torch.int64)]
    masked = torch.cat([torch.zeros(0, dtype=torch.bool), *(mask.flatten() for _, mask in masks)])
    counts = [counts_without(atoms[place].environments, mask) for place, mask in masks]
    lost = [mask.double() @ atoms[place].shares for place, mask in masks]
    width = copies.descriptors.shape[1]
    masked_copies = ExpandedInputs(
        _without(copies.molecules, masked),
        torch.cat([torch.zeros(0, COUNTS, dtype=torch.uint8), *counts]),
        (copies.descriptors - torch.cat([torch.zeros(0, width).double(), *lost])).float(),
    )
    if not copies.extra_descriptors.shape[1]:
        return masked_copies
    return DescribedInputs(masked_copies, copies.extra_descriptors)


def predict_masked(
    predictor: MoleculePredictor, inputs: MoleculeInputs, masks: Sequence[Tensor], target: int,
    atoms: Sequence[MoleculeAtoms] | None = None,
) -> list[Masked]:  # fmt: skip
    """Predict copies of molecules in which some atoms are masked, in batches of bounded memory.

    The predictions are those of the transformed targets, on the scale of the training.

    Args:
        predictor: the model.
        inputs: k molecules.
        masks: for each molecule [m, n] bool, for one or more copies; True masks an atom.
        target: index of the target.
        atoms: the result of :func:`atoms_of` if already computed.

    Returns:
        For each molecule the predictions of its copies.
    """
    atoms = atoms_of(inputs) if atoms is None else atoms
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
    """Yield batches of (molecule, masks), in which the copies have at most BUDGET atoms."""
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
    """Return the molecules without the masked atoms and their bonds; the mask is [n] bool over all
    atoms.
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
    """Return the counts [m, COUNTS] of environments without masked atoms, for masks [m, n]."""
    which, atom = environments.members
    hit = torch.zeros(len(mask), len(environments.places)).index_add_(
        1, which, mask[:, atom].float()
    )
    counts = torch.zeros(len(mask), COUNTS).index_add_(1, environments.places, (hit == 0).float())
    return counts.clamp(max=255).to(torch.uint8)


def _environments(molecule: Mol) -> Environments:
    """Return the Morgan environments of a molecule that its fingerprint counts."""
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


def _neighbourhoods(molecule: Mol) -> list[list[set[int]]]:
    """Return the atoms within 0, 1 and 2 bonds of each atom."""
    near = [
        {atom.GetIdx(), *(other.GetIdx() for other in atom.GetNeighbors())}
        for atom in molecule.GetAtoms()
    ]
    far = [set().union(*(near[other] for other in atoms)) for atoms in near]
    return [[{i} for i in range(len(near))], near, far]
