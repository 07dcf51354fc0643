"""Inputs of models as they go from one process to another: small, and without torch's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gattn.data.molecules.building import MoleculeBuilder, PackedMolecules
from gattn.data.molecules.descriptors import descriptor_rows
from gattn.data.molecules.fingerprints import PackedCounts, count_environments
from gattn.data.molecules.identity import identity
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import parse_or_reason

__all__ = ["PackedInputs", "read_packed"]


class PackedInputs(NamedTuple):
    """What came of n texts; see :class:`gattn.molecules.inputs.Featurised`.

    Attributes:
        molecules: those that could be read.
        counts: of their Morgan environments.
        descriptors: [k, len(DESCRIPTORS)] float32.
        errors: n texts, empty where the text could be read.
        canonical: k texts, one a molecule (:func:`gattn.data.molecule_identities`), or none.
    """

    molecules: PackedMolecules
    counts: PackedCounts
    descriptors: np.ndarray
    errors: list[str]
    canonical: list[str]


def read_packed(smiles: Sequence[str], *, max_atoms: int, canonical: bool) -> PackedInputs:
    """Read texts in this process, each parsed once."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        found = [parse_or_reason(text, max_atoms) for text in smiles]
        errors = [molecule if isinstance(molecule, str) else "" for molecule in found]
        read = [(row, mol) for row, mol in enumerate(found) if not isinstance(mol, str)]
        # One kind of work after the other: what it needs stays in the processor's caches.
        builder = MoleculeBuilder()
        molecules = [plain(molecule, smiles[row]) for row, molecule in read]
        for (row, _), molecule in zip(read, molecules):
            builder.add(molecule, smiles[row], row)
        counts = count_environments(molecules, builder.labels())
        held = descriptor_rows(molecules, builder.skeletons())
        written = [identity(molecule) for _, molecule in read] if canonical else []
    return PackedInputs(builder.pack(), counts, held, errors, written)
