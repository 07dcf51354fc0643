"""Molecules with their labels, and the rows of those that could not be read."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gattn.data import BadRow
from gattn.molecules.inputs import MoleculeInputs, Read
from gattn.pipeline.text import plural

__all__ = [
    "Labelled",
    "UnreadableMolecules",
    "bad_rows",
    "marks",
    "spread",
    "warn_of",
    "warn_of_overlap",
]


class UnreadableMolecules(UserWarning):
    """Some SMILES could not be read: their rows hold NaN."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Molecules that could be read, with their labels.

    Attributes:
        inputs: k molecules.
        y: [k, t] float64, NaN where nothing was measured; 0 and 1 for classes.
        rows: [k] int64, the rows that they came from.
        canonical: k texts, equal for equal molecules (:func:`gattn.data.molecule_identities`).
        bad: the rows that could not be read.
    """

    inputs: MoleculeInputs
    y: Tensor
    rows: Tensor
    canonical: list[str]
    bad: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.canonical)

    def __getitem__(self, positions: Tensor) -> Labelled:
        chosen = [self.canonical[i] for i in positions.tolist()]
        return Labelled(
            self.inputs[positions], self.y[positions], self.rows[positions], chosen, self.bad
        )


def bad_rows(texts: Sequence[object], found: Read, start: int = 0) -> list[BadRow]:
    """The rows of texts that could not be read, where ``found`` begins at row ``start``."""
    return [
        BadRow(start + i, str(texts[start + i]), error)
        for i, error in enumerate(found.errors)
        if error
    ]


def warn_of(bad: Sequence[BadRow]) -> None:
    """Tell of all unreadable rows in one warning."""
    if not bad:
        return
    shown = "".join(f"\n  {row}" for row in bad[:10])
    more = f"\n  and {len(bad) - 10} more" if len(bad) > 10 else ""
    message = f"{len(bad)} SMILES could not be read, and their rows hold NaN:{shown}{more}"
    warnings.warn(message, UnreadableMolecules, stacklevel=4)


def warn_of_overlap(train: Labelled, val: Labelled) -> None:
    """Warn of molecules that are in the training and in the validation part of a caller's own."""
    both = set(train.canonical) & set(val.canonical)
    if both:
        example = next(text for text in val.canonical if text in both)
        message = (
            f"{plural(len(both), 'molecule')} in both the training and the validation part, for "
            f"example {example}: the intervals come out too narrow"
        )
        warnings.warn(message, UserWarning, stacklevel=3)


def spread(made: Tensor, found: Read) -> Tensor:
    """The rows [k, ...] of readable molecules among those of all n texts, NaN elsewhere."""
    everything = torch.full((len(found.errors), *made.shape[1:]), torch.nan, dtype=made.dtype)
    everything[found.rows] = made.detach().cpu()
    return everything


def marks(canonical: Sequence[str]) -> Tensor:
    """A number for each identity, [k] int64, by which a model knows what it was trained on.

    The first eight bytes of SHA-256: of a million molecules two share one with a chance of 3e-8.
    """
    found = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in canonical)
    return torch.from_numpy(np.frombuffer(found, ">i8").astype(np.int64))
