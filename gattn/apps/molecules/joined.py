"""Model inputs of rows that contain several molecules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.reactions import ReactionInputs, align_sides
from gattn.apps.molecules.row_format import BETWEEN, RowFormat
from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.dataset import Molecules, Positions, indices_of

if TYPE_CHECKING:
    from gattn.apps.molecules.inputs import FeaturizedSmiles

__all__ = ["JoinedInputs", "JoinedRows", "join_rows"]

PIECE = 1024
"""Number of molecules whose graphs are expanded at once to count their atoms."""


class JoinedRows(NamedTuple):
    """Model inputs of the r valid rows among n rows; see
    :class:`gattn.apps.molecules.inputs.FeaturizedSmiles`.
    """

    row_index: Tensor
    errors: list[str]
    inputs: MoleculeInputs
    canonical: list[str]


@dataclass(frozen=True, eq=False)
class JoinedInputs(MoleculeInputs):
    """Inputs of a model for k rows of c molecules each.

    The graph of a row
    contains all of its molecules, without edges between them. The fingerprints and descriptors of
    the molecules are concatenated.

    Attributes:
        base: the different molecules of all rows.
        index: [k, c] int64, the molecules of each row.
        sizes: [k, c] int64, the number of atoms of each molecule.
    """

    base: MoleculeInputs
    index: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, positions: Positions) -> JoinedInputs:
        """Return the selected rows; ``positions`` is a slice, a list, a tensor or a mask."""
        index = torch.atleast_1d(indices_of(positions, len(self)))
        return JoinedInputs(self.base, self.index[index], self.sizes[index])

    @property
    def molecules(self) -> Molecules:
        """Graphs of the k rows; each graph contains the c molecules of its row."""
        parts = self.base[self.index.flatten()].molecules
        count, arrays = self.index.shape[1], parts.arrays
        sizes = self.sizes
        # Number of nodes of the same row that precede each molecule.
        first = (sizes.cumsum(1) - sizes).flatten()
        edges = arrays.edge_index + first.repeat_interleave(arrays.edge_ptr.diff())
        joined = MoleculeArrays(
            arrays.x, edges, arrays.edge_attr, arrays.ptr[::count], arrays.edge_ptr[::count]
        )
        texts = parts.smiles
        smiles = [BETWEEN.join(texts[i : i + count]) for i in range(0, len(texts), count)]
        return Molecules(smiles, joined, torch.empty(len(self), 0), (), tuple(range(len(self))))

    @property
    def molecule_sizes(self) -> Tensor:
        """Number of atoms of each molecule, [k, c] int64."""
        return self.sizes

    @property
    def counts(self) -> Tensor:
        """Counts of Morgan environments, [k, c * 2048] uint8."""
        return self._joined(self.base[self.index.flatten()].counts)

    @property
    def pairs(self) -> Tensor:
        """Counts of atom pairs within the molecules, [k, c * 2048] uint8."""
        return self._joined(self.base[self.index.flatten()].pairs)

    @property
    def descriptors(self) -> Tensor:
        """Descriptors, [k, c * d] float32."""
        return self._joined(self.base[self.index.flatten()].descriptors)

    def _joined(self, values: Tensor) -> Tensor:
        return values.unflatten(0, self.index.shape).flatten(1)


def join_rows(
    texts: Sequence[str], row_format: RowFormat, read: Callable[[list[str]], FeaturizedSmiles]
) -> JoinedRows:
    """Compute the inputs of rows with several molecules, or of reactions.

    Each different SMILES is parsed once, because a solvent occurs in many rows.

    Args:
        texts: the texts of n rows.
        row_format: format of the rows.
        read: parses SMILES of single molecules.

    Returns:
        The valid rows, and the reason why each of the others is invalid.
    """
    numbers: dict[str, int] = {}
    splits = [_split(text, row_format) for text in texts]
    rows = [
        part if isinstance(part, str) else [numbers.setdefault(each, len(numbers)) for each in part]
        for part in splits
    ]
    distinct = list(numbers)
    parsed = read(distinct)
    place = torch.full((len(distinct),), -1)
    place[parsed.row_index] = torch.arange(len(parsed.row_index))
    reader = _RowReader(row_format, distinct, parsed, place.tolist())
    errors = [row if isinstance(row, str) else reader.read(number, row)
              for number, row in enumerate(rows)]  # fmt: skip
    shape = len(reader.index), len(row_format.names())
    table = torch.tensor(reader.index, dtype=torch.int64).reshape(shape)
    if row_format.reaction:
        inputs: MoleculeInputs = ReactionInputs(parsed.inputs, table, reader.images)
    else:
        sizes = _sizes(parsed.inputs)[table]
        inputs = JoinedInputs(parsed.inputs, table, sizes)
    canonical: list[str] = []
    if parsed.canonical:
        texts_of = ([parsed.canonical[i] for i in some] for some in reader.index)
        canonical = list(map(row_format.canonical, texts_of))
    return JoinedRows(torch.tensor(reader.valid, dtype=torch.int64), errors, inputs, canonical)


def _split(text: str, row_format: RowFormat) -> list[str] | str:
    """Return the SMILES in the text of a row, or an error message."""
    try:
        return row_format.split(text)
    except ValueError as error:
        return str(error)


class _RowReader:
    """Reader that collects the valid rows.

    Attributes:
        valid: the numbers of the valid rows.
        index: the parsed molecules of each valid row.
        images: for each valid reaction the result of :func:`align_sides`.
    """

    def __init__(
        self, row_format: RowFormat, distinct: list[str], parsed: FeaturizedSmiles,
        places: list[int],
    ) -> None:  # fmt: skip
        self._format, self._distinct, self._parsed = row_format, distinct, parsed
        self._places, self._names = places, row_format.names()
        self.valid: list[int] = []
        self.index: list[list[int]] = []
        self.images: list[np.ndarray] = []

    def read(self, number: int, row: list[int]) -> str:
        """Add a row if it is valid, otherwise return an error message.

        Args:
            number: the number of the row.
            row: its SMILES, as indices of the distinct SMILES.
        """
        places, errors = self._places, self._parsed.errors
        bad = [f"{name}: {errors[i]}" for name, i in zip(self._names, row) if places[i] < 0]
        if bad:
            return "; ".join(bad)
        molecules = [places[i] for i in row]
        if self._format.reaction:
            sides = [self._distinct[i] for i in row]
            try:
                image = align_sides(sides, self._parsed.inputs, molecules, self._format.add_h)
            except ValueError as error:
                return str(error)
            self.images.append(image)
        self.valid.append(number)
        self.index.append(molecules)
        return ""


def _sizes(inputs: MoleculeInputs) -> Tensor:
    """Return the number of atoms of each of k molecules: [k] int64."""
    pieces = range(0, len(inputs), PIECE)
    counts = [inputs[begin : begin + PIECE].molecules.arrays.ptr.diff() for begin in pieces]
    return torch.cat([torch.zeros(0, dtype=torch.int64), *counts])
