"""Molecules of which some atoms are unknown: what a model predicts without them."""

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
from gattn.molecules.inputs import ExpandedInputs, MoleculeInputs
from gattn.molecules.shares import descriptor_shares

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from gattn.molecules.predictor import MoleculePredictor

__all__ = ["Environments", "Masked", "MoleculeAtoms", "atoms_of", "masked_inputs", "predict_masked"]

BUDGET = 1 << 16
"""Atoms of all masked copies in a batch: what bounds the memory, whatever the molecule's size."""


@dataclass(frozen=True, eq=False)
class Environments:
    """The Morgan environments of a molecule that its counts count.

    Attributes:
        places: [E] int64, the column of each in the counts.
        members: [2, I] int64, pairs of an environment and an atom that it holds.
    """

    places: Tensor
    members: Tensor


@dataclass(frozen=True, eq=False)
class MoleculeAtoms:
    """What each atom of one molecule is part of.

    Attributes:
        symbols: the elements of its n atoms.
        places: [n], the number of each atom in the text, hydrogens that are written counted.
        classes: [n] int64, equal for atoms that the symmetry of the molecule exchanges, and the
            same however the molecule is written.
        order: [n] int64, the atoms in an order that is the same, up to that symmetry, however the
            molecule is written.
        environments: that hold them.
        shares: [n, d] float64, their shares of the descriptors.
    """

    symbols: tuple[str, ...]
    places: tuple[int, ...]
    classes: Tensor
    order: Tensor
    environments: Environments
    shares: Tensor


@dataclass(frozen=True, eq=False)
class Masked:
    """What is predicted of m copies of a molecule, for one target.

    Attributes:
        mean: [m] float64.
        std: [m] float64.
        parts: [m] of each part, by its name.
        members: [K, m], of each network.
    """

    mean: Tensor
    std: Tensor
    parts: dict[str, Tensor]
    members: Tensor


def atoms_of(inputs: MoleculeInputs) -> list[MoleculeAtoms]:
    """Find out what the atoms of k molecules are part of, by their SMILES."""
    from rdkit import rdBase

    made = []
    with rdBase.BlockLogs():
        for smiles in inputs.molecules.smiles:
            molecule = plain(parse_any_size(smiles), smiles)
            symbols = tuple(atom.GetSymbol() for atom in molecule.GetAtoms())
            places = tuple(written_places(smiles, len(symbols)))
            environments = _environments(molecule)
            shares = descriptor_shares(molecule)
            made.append(MoleculeAtoms(symbols, places, *_ranks(molecule), environments, shares))
    return made


def _ranks(molecule: Mol) -> tuple[Tensor, Tensor]:
    """The classes of the atoms of a molecule, and the atoms in canonical order."""
    from rdkit.Chem import CanonicalRankAtoms

    classes, ranks = (
        torch.tensor(list(CanonicalRankAtoms(molecule, breakTies=ties))) for ties in (False, True)
    )
    return classes, ranks.argsort()


def masked_inputs(
    inputs: MoleculeInputs, atoms: Sequence[MoleculeAtoms], masks: Sequence[tuple[int, Tensor]]
) -> MoleculeInputs:
    """Copy molecules and take some of their atoms out of each copy.

    An atom that is taken out neither sends messages nor is it read out. The other atoms keep their
    own features, as the number of bonds they had: what they are is known, and only what the atom
    was is not. Fingerprints lose every environment that holds the atom, descriptors its share.

    Args:
        inputs: k molecules.
        atoms: what their atoms are part of.
        masks: positions of molecules, each with [m, n] bool: the atoms to take out of m copies.

    Returns:
        The copies, in order; one may have no atom left.
    """
    positions = [place for place, mask in masks for _ in range(len(mask))]
    copies = inputs[torch.tensor(positions, dtype=torch.int64)]
    taken = torch.cat([torch.zeros(0, dtype=torch.bool), *(mask.flatten() for _, mask in masks)])
    counts = [_counts_without(atoms[place].environments, mask) for place, mask in masks]
    lost = [mask.double() @ atoms[place].shares for place, mask in masks]
    width = copies.descriptors.shape[1]
    return ExpandedInputs(
        _without(copies.molecules, taken),
        torch.cat([torch.zeros(0, COUNTS, dtype=torch.uint8), *counts]),
        (copies.descriptors - torch.cat([torch.zeros(0, width).double(), *lost])).float(),
    )


def predict_masked(
    predictor: MoleculePredictor, inputs: MoleculeInputs, masks: Sequence[Tensor], target: int,
    atoms: Sequence[MoleculeAtoms] | None = None,
) -> list[Masked]:  # fmt: skip
    """Predict copies of molecules without some of their atoms, in batches of bounded memory.

    Args:
        predictor: of t targets.
        inputs: k molecules.
        masks: for each molecule [m, n] bool, one or more copies; what is True is taken out.
        target: the position of the target.
        atoms: what :func:`atoms_of` says, where it is known already.

    Returns:
        For each molecule what is predicted of its copies.
    """
    atoms = atoms_of(inputs) if atoms is None else atoms
    found: list[list[Masked]] = [[] for _ in masks]
    for batch in _batches(masks):
        made = predictor.predict(masked_inputs(inputs, atoms, batch))
        begin = 0
        for place, mask in batch:
            rows = slice(begin, begin := begin + len(mask))
            parts = {name: part[rows, target] for name, part in made.component_means.items()}
            members = made.member_predictions[:, rows, target]
            found[place].append(
                Masked(made.mean[rows, target], made.std[rows, target], parts, members)
            )
    return [_joined(pieces) for pieces in found]


def _joined(pieces: Sequence[Masked]) -> Masked:
    return Masked(
        torch.cat([piece.mean for piece in pieces]),
        torch.cat([piece.std for piece in pieces]),
        {name: torch.cat([piece.parts[name] for piece in pieces]) for name in pieces[0].parts},
        torch.cat([piece.members for piece in pieces], 1),
    )


def _batches(masks: Sequence[Tensor]) -> Iterator[list[tuple[int, Tensor]]]:
    """Cut masks into pieces, and put pieces together while their atoms are within the budget."""
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


def _without(molecules: Molecules, taken: Tensor) -> Molecules:
    """Molecules without some of all their atoms, [n] bool, and without these atoms' bonds."""
    arrays, kept = molecules.arrays, ~taken
    before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
    first = arrays.ptr[:-1].repeat_interleave(arrays.edge_ptr.diff())
    ends = arrays.edge_index + first
    bonds = kept[ends].all(0)
    bonds_before = torch.cat([bonds.new_zeros(1, dtype=torch.int64), bonds.cumsum(0)])
    left = replace(
        arrays,
        x=arrays.x[kept],
        edge_index=(before[ends] - before[first])[:, bonds],
        edge_attr=arrays.edge_attr[bonds],
        ptr=before[arrays.ptr],
        edge_ptr=bonds_before[arrays.edge_ptr],
    )
    return replace(molecules, arrays=left)


def _counts_without(environments: Environments, mask: Tensor) -> Tensor:
    """Count the environments that hold no masked atom: [m, COUNTS] uint8 for masks [m, n]."""
    which, atom = environments.members
    hit = torch.zeros(len(mask), len(environments.places)).index_add_(
        1, which, mask[:, atom].float()
    )
    counts = torch.zeros(len(mask), COUNTS).index_add_(1, environments.places, (hit == 0).float())
    return counts.clamp(max=255).to(torch.uint8)


def _environments(molecule: Mol) -> Environments:
    """Name the environments that ``gattn.data.molecules.fingerprints`` counts."""
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
    """The atoms at most 0, 1 and 2 bonds from each atom."""
    near = [
        {atom.GetIdx(), *(other.GetIdx() for other in atom.GetNeighbors())}
        for atom in molecule.GetAtoms()
    ]
    far = [set().union(*(near[other] for other in atoms)) for atoms in near]
    return [[{i} for i in range(len(near))], near, far]
