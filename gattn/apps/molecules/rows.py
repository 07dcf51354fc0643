"""Molecules with their labels, and lists of the rows that could not be parsed."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.inputs import ParsedSmiles
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.run.text import plural
from gattn.data import BadRow
from gattn.data.molecules.arrays import ranges
from gattn.data.splits import number_groups

Self = TypeVar("Self", bound="LabelledMolecules")


class UnreadableMolecules(UserWarning):
    """Warning that some SMILES could not be parsed and that their predictions are NaN."""


@dataclass(frozen=True, eq=False)
class FitPart:
    """Molecules of the training part or of the validation part, with their labels.

    Attributes:
        inputs: k molecules.
        y: [k, t] float64; NaN where a target was not measured; 0 and 1 for classes. For several
            classes [k, O], a column for each class; see
            :meth:`gattn.apps.fitting.tasks.Task.outputs_of`.
        weights: [k] weights of the rows, above 0. The weights of both parts are divided by the mean
            of the training part. Those of training rows multiply the loss of the networks, and
            divide the noise variance of the Gaussian process. Those of validation rows multiply the
            squared errors to which the weights of the components and the coefficients of the error
            are fitted.
        bounds: [k, t, 2] float64, the lower and upper ends of the labels for a bounded loss, with
            NaN in y where the ends differ; None if every label is one value. The networks get no
            loss between the ends; the Gaussian process reads the expected value between them. The
            ends of validation labels are used to choose the epoch; the weights of the components
            and the coefficients of the error are fitted to measured values only.
        groups: the group of each row; None if each row is a group. The rows of one group are left
            out together: a molecule is predicted by models that were trained without its group.
            Rows of the same molecule must belong to one group. If the split divides by scaffold,
            the validation molecules of one scaffold must also belong to one group.
    """

    inputs: MoleculeInputs
    y: Tensor
    weights: Tensor
    bounds: Tensor | None = None
    groups: Sequence[str] | None = None

    def group_numbers(self) -> Tensor:
        """Return the number of the group of each row, [k] int64."""
        return number_groups(self.groups, len(self.inputs))


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledMolecules(FitPart):
    """Valid molecules of a table with their labels, and the rows that could not be parsed.

    Attributes:
        rows: [k] int64, the row of each molecule in the table.
        canonical: k texts, equal for equal molecules (:func:`gattn.data.molecule_identities`).
        bad: the rows that could not be parsed.
        level: ``"atom"`` or ``"bond"`` for labels [r, t] of atoms or bonds, the rows of y of a
            molecule one after another; "" for labels of molecules.
        ptr: [k + 1] int64, the first row of y of each molecule; None if each molecule has one row.
    """

    rows: Tensor
    canonical: list[str]
    bad: tuple[BadRow, ...] = ()
    level: str = ""
    ptr: Tensor | None = None

    def __len__(self) -> int:
        return len(self.canonical)

    def __getitem__(self: Self, positions: Tensor) -> Self:
        """Return the molecules at k positions, int64 [k], with the labels and the weights of their
        rows.
        """
        places, ptr = positions, None
        if self.ptr is not None:
            places, ptr = ranges(self.ptr, positions)
        return replace(
            self, inputs=self.inputs[positions], y=self.y[places], rows=self.rows[positions],
            canonical=[self.canonical[i] for i in positions.tolist()],
            weights=self.weights[positions], ptr=ptr,
            bounds=None if self.bounds is None else self.bounds[positions],
        )  # fmt: skip

    @property
    def owners(self) -> Tensor:
        """The molecule of each row of y, int64."""
        molecules = torch.arange(len(self))
        return molecules if self.ptr is None else molecules.repeat_interleave(self.ptr.diff())


def bad_rows(smiles: Sequence[object], parsed: ParsedSmiles, start: int = 0) -> list[BadRow]:
    """Return the rows whose SMILES could not be parsed. The number of the first row is
    ``start``.
    """
    return [
        BadRow(start + i, str(smiles[start + i]), error)
        for i, error in enumerate(parsed.errors)
        if error
    ]


def warn_of(bad: Sequence[BadRow]) -> None:
    """Issue one warning :class:`UnreadableMolecules` with the number of rows whose SMILES could not
    be parsed and the first ten of them; issue none if there are no such rows.
    """
    if not bad:
        return
    shown = "".join(f"\n  {row}" for row in bad[:10])
    more = f"\n  and {len(bad) - 10} more" if len(bad) > 10 else ""
    message = f"{len(bad)} SMILES could not be read, and their rows contain NaN:{shown}{more}"
    warnings.warn(message, UnreadableMolecules, stacklevel=4)


def warn_of_overlap(train: LabelledMolecules, val: LabelledMolecules) -> None:
    """Issue a warning if some molecules are in both the training and the validation part."""
    both = set(train.canonical) & set(val.canonical)
    if both:
        example = next(text for text in val.canonical if text in both)
        message = (
            f"{plural(len(both), 'molecule')} in both the training and the validation part, "
            f"for example {example}: the intervals will be too narrow"
        )
        warnings.warn(message, UserWarning, stacklevel=3)


def scatter_rows(values: Tensor, parsed: ParsedSmiles) -> Tensor:
    """Copy ``values`` [k, ...] to the rows of the valid SMILES in a tensor [n, ...]; the other
    rows are NaN.
    """
    rows = torch.full((len(parsed.errors), *values.shape[1:]), torch.nan, dtype=values.dtype)
    rows[parsed.row_index] = values.detach().cpu()
    return rows


def smiles_hashes(canonical: Sequence[str]) -> Tensor:
    """Return 64-bit hashes [k] of canonical SMILES, which a model stores for its training
    molecules.

    A hash is the first eight bytes of SHA-256. The probability that two of a million molecules
    share a hash is 3e-8.
    """
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in canonical)
    return torch.from_numpy(np.frombuffer(digests, ">i8").astype(np.int64))
