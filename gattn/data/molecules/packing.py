"""Compact model inputs without torch tensors, which are sent between processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gattn.data.molecules.building import MoleculeBuilder, PackedMolecules
from gattn.data.molecules.counts import PackedCounts, count_environments
from gattn.data.molecules.descriptors import descriptor_rows
from gattn.data.molecules.identity import identity
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import parse_or_reason
from gattn.data.molecules.standardise import standardise

if TYPE_CHECKING:
    from rdkit.Chem import Mol


class PackedInputs(NamedTuple):
    """Model inputs of n SMILES in compact form. See
    :class:`gattn.apps.molecules.inputs.FeaturizedSmiles`.

    Attributes:
        molecules: the k valid molecules.
        counts: counts of the Morgan environments of the valid molecules.
        descriptors: [k, len(DESCRIPTORS)] float32.
        errors: the error message of each of the n SMILES; empty for valid ones.
        canonical: the identity of each of the k molecules
            (:func:`gattn.data.molecule_identities`), or an empty list if not requested.
    """

    molecules: PackedMolecules
    counts: PackedCounts
    descriptors: np.ndarray
    errors: list[str]
    canonical: list[str]


def read_packed(
    smiles: Sequence[str], *, max_atoms: int, canonical: bool, standardize: Sequence[str] = (),
    add_h: bool = False,
) -> PackedInputs:  # fmt: skip
    """Compute the model inputs of SMILES in this process.

    Args:
        smiles: n texts.
        max_atoms: larger molecules are errors.
        canonical: whether to compute the identity of each molecule.
        standardize: steps of :data:`gattn.data.molecules.standardise.STEPS`. The SMILES of the
            result are those of the standardised molecules; a SMILES whose molecule does not change
            is left as it is.
        add_h: whether hydrogens are atoms of the graphs, after the other atoms of a molecule.

    Returns:
        The inputs of the valid molecules, and the error message of every other SMILES; an unknown
            step of ``standardize`` is an error of each molecule.

    Raises:
        ImportError: RDKit is not installed.
    """
    from rdkit import rdBase

    with rdBase.BlockLogs():
        parsed = [parse_or_reason(text, max_atoms) for text in smiles]
        if standardize:
            smiles, parsed = _standardised(smiles, parsed, standardize)
        errors = [molecule if isinstance(molecule, str) else "" for molecule in parsed]
        read = [(row, mol) for row, mol in enumerate(parsed) if not isinstance(mol, str)]
        # Each step processes all molecules before the next step begins, so that its code and tables
        # stay in the CPU caches.
        builder = MoleculeBuilder()
        molecules = [plain(molecule, smiles[row]) for row, molecule in read]
        for (row, _), molecule in zip(read, molecules):
            builder.add(molecule, smiles[row], row)
        counts = count_environments(molecules, builder.labels())
        descriptors = descriptor_rows(molecules, builder.skeletons())
        written = [identity(molecule) for _, molecule in read] if canonical else []
        if add_h:
            builder = MoleculeBuilder()
            for (row, _), molecule in zip(read, molecules):
                builder.add(_with_hydrogens(molecule), smiles[row], row)
    return PackedInputs(builder.pack(), counts, descriptors, errors, written)


def _standardised(
    smiles: Sequence[str], parsed: Sequence[Mol | str], steps: Sequence[str]
) -> tuple[list[str], list[Mol | str]]:
    """Return the SMILES and the molecules after standardisation. A molecule that RDKit cannot
    standardise, or cannot read afterwards, is replaced by the error message. Earlier error
    messages, and the SMILES of molecules that do not change, stay as they are.
    """
    texts = list(smiles)
    molecules = list(parsed)
    for row, molecule in enumerate(parsed):
        if isinstance(molecule, str):
            continue
        try:
            text = standardise(molecule, steps)
        except ValueError as error:
            molecules[row] = str(error)
            continue
        again = parse_or_reason(text, molecule.GetNumAtoms() + len(text))
        if isinstance(again, str) or identity(again) != identity(molecule):
            texts[row], molecules[row] = text, again
    return texts, molecules


def _with_hydrogens(molecule: Mol) -> Mol:
    from rdkit.Chem import AddHs

    return AddHs(molecule)
