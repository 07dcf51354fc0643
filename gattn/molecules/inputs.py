"""What models of molecules read, made from SMILES: graphs, Morgan counts and descriptors."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gattn.data import DESCRIPTORS, Molecules
from gattn.data.building import MoleculeBuilder
from gattn.data.descriptors import descriptor_row
from gattn.data.fingerprints import COUNTS, count_morgan
from gattn.data.molecules import Positions, positions_of
from gattn.data.smiles import MAX_ATOMS, need_rdkit, parse_or_reason

__all__ = ["Featurised", "MoleculeInputs", "featurise", "stream"]


@dataclass(frozen=True, eq=False)
class MoleculeInputs:
    """Molecules as models read them; ``inputs[positions]`` takes some of them.

    Attributes:
        molecules: the k graphs; their ``y`` has no columns.
        counts: [k, 2048] uint8, how often each Morgan environment of radius 2 occurs, at most 255.
        descriptors: [k, len(DESCRIPTORS)] float32, not scaled, finite.
    """

    molecules: Molecules
    counts: Tensor
    descriptors: Tensor

    def __len__(self) -> int:
        return len(self.molecules)

    def __getitem__(self, positions: Positions) -> MoleculeInputs:
        """Take the molecules at these positions (a slice, a list, a tensor or a mask)."""
        where = torch.atleast_1d(torch.as_tensor(positions_of(positions, len(self))))
        return MoleculeInputs(self.molecules[where], self.counts[where], self.descriptors[where])


@dataclass(frozen=True, eq=False)
class Featurised:
    """What came of n texts, r of which could be read.

    Attributes:
        inputs: the r molecules, in order.
        rows: [r] int64, the place of each among the n.
        errors: n texts, why a text could not be read, and "" where it could.
        canonical: r canonical SMILES.
    """

    inputs: MoleculeInputs
    rows: Tensor
    errors: list[str]
    canonical: list[str]


def featurise(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS, workers: int = 1) -> Featurised:
    """Make a model's inputs from SMILES; one that cannot be read costs its own row.

    Args:
        smiles: n texts.
        max_atoms: larger molecules are errors.
        workers: how many processes share the work; the result is the same. A list that one
            process reads sooner than others start is not shared.

    Returns:
        The molecules that could be read, and why the others could not; no texts give none.

    Raises:
        ValueError: ``max_atoms`` or ``workers`` below 1, or one text in place of a list.
        ImportError: RDKit is not installed.

    >>> found = featurise(["CCO", "C1CC", "OCC"])
    >>> found.rows.tolist(), found.canonical, found.errors[1]
    ([0, 2], ['CCO', 'CCO'], 'not valid SMILES; unclosed ring')
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of texts; got the one text {smiles!r}")
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")
    need_rdkit()
    return _read(smiles, max_atoms)


def stream(
    smiles: Iterable[str], *, chunk: int = 4096, max_atoms: int = MAX_ATOMS, workers: int = 2
) -> Iterator[Featurised]:
    """Make a model's inputs piece by piece, in order, whatever the number of texts.

    Args:
        smiles: texts, taken as they are needed.
        chunk: how many texts make one piece.
        max_atoms: larger molecules are errors.
        workers: how many processes share the work.

    Yields:
        What came of every ``chunk`` texts; ``rows`` counts within the piece.

    Raises:
        ValueError: ``chunk``, ``max_atoms`` or ``workers`` below 1.
        ImportError: RDKit is not installed.

    >>> [len(piece.inputs) for piece in stream(["C", "CC", "CCC"], chunk=2)]
    [2, 1]
    """
    for name, value in (("chunk", chunk), ("max_atoms", max_atoms), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}")
    need_rdkit()
    texts = iter(smiles)
    pieces = iter(lambda: list(itertools.islice(texts, chunk)), [])
    return (_read(piece, max_atoms) for piece in pieces)


def _read(smiles: Sequence[str], max_atoms: int) -> Featurised:
    """Read texts in this process."""
    from rdkit import Chem, rdBase

    builder = MoleculeBuilder()
    counts = np.zeros((len(smiles), COUNTS), np.uint8)
    descriptors = np.empty((len(smiles), len(DESCRIPTORS)), np.float32)
    errors: list[str] = []
    canonical: list[str] = []
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            molecule = parse_or_reason(text, max_atoms)
            if isinstance(molecule, str):
                errors.append(molecule)
                continue
            errors.append("")
            builder.add(molecule, text, row)
            count_morgan(molecule, counts[len(canonical)])
            descriptors[len(canonical)] = descriptor_row(molecule)
            canonical.append(Chem.MolToSmiles(molecule))
    molecules, k = builder.build(), len(canonical)
    inputs = MoleculeInputs(
        molecules, torch.from_numpy(counts[:k]), torch.from_numpy(descriptors[:k])
    )
    return Featurised(inputs, torch.tensor(molecules.rows, dtype=torch.int64), errors, canonical)
