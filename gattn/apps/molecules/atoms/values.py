"""Values of several molecules, of their atoms, and of their bonds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gattn.apps.molecules.rows import LabelledMolecules
from gattn.data.molecules.arrays import MoleculeArrays

KINDS = ("atom", "bond")
"""Kinds of targets, in the order of a network's outputs."""


@dataclass(frozen=True)
class Targets:
    """Names of the targets of molecules, of atoms and of bonds."""

    atom: tuple[str, ...] = ()
    bond: tuple[str, ...] = ()

    def of(self, kind: str) -> tuple[str, ...]:
        """Return the names of the targets of one kind."""
        return getattr(self, kind)

    @property
    def names(self) -> list[str]:
        """Names of all targets."""
        return [name for _, _, name in self]

    @property
    def kinds(self) -> list[str]:
        """Kinds for which there is at least one target."""
        return [kind for kind in KINDS if self.of(kind)]

    def __iter__(self) -> Iterator[tuple[str, int, str]]:
        """Yield the kind of each target, its column index among the targets of this kind, and
        its name.
        """
        for kind in KINDS:
            for column, name in enumerate(self.of(kind)):
                yield kind, column, name

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Values:
    """Values of k molecules by kind, and the molecule to which each row belongs.

    Attributes:
        rows: for each kind [r, t, ...], a row for each molecule, atom or bond.
        ptr: for each kind [k + 1] int64, the first row of each molecule.
    """

    rows: Mapping[str, Tensor]
    ptr: Mapping[str, Tensor]

    def __getitem__(self, positions: Tensor) -> Values:
        """Return the values of the molecules with these positions."""
        rows, ptr = {}, {}
        for kind, values in self.rows.items():
            index, ptr[kind] = _rows_of(self.ptr[kind], positions)
            rows[kind] = values[index]
        return Values(rows, ptr)

    def lists(self, kind: str, column: int) -> list[Tensor]:
        """Return the values of one target as one array for each molecule."""
        sizes = self.ptr[kind].diff().tolist()
        return list(self.rows[kind][:, column].split(sizes))

    def owners(self, kind: str) -> Tensor:
        """Return the molecule to which each of r rows of a kind belongs: [r] int64."""
        sizes = self.ptr[kind].diff()
        return torch.arange(len(sizes)).repeat_interleave(sizes)


@dataclass(frozen=True, eq=False)
class LabelledAtoms(LabelledMolecules):
    """Molecules with the labels of their atoms, bonds and properties.

    Attributes:
        y: labels [r, t] float64 by kind, NaN for a missing label; numbers of classes.
    """

    y: Values  # pyright: ignore[reportIncompatibleVariableOverride]


def pointers(arrays: MoleculeArrays) -> dict[str, Tensor]:
    """Return the index of the first row of each molecule, by kind. A bond has two edges in the
    graph.
    """
    return {"atom": arrays.ptr, "bond": arrays.edge_ptr // 2}


def padded(values: Mapping[str, Tensor], targets: Targets) -> Tensor:
    """Return the values of all targets as adjacent columns, [r, t, ...]; shorter columns end with
    NaN.

    >>> values = {"atom": torch.ones(2, 1), "bond": torch.zeros(1, 1)}
    >>> padded(values, Targets(atom=("a",), bond=("b",))).tolist()
    [[1.0, 0.0], [1.0, nan]]
    """
    columns: Sequence[Tensor] = [values[kind][:, column] for kind, column, _ in targets]
    count = max(map(len, columns), default=0)
    rows = []
    for column in columns:
        row = column.new_full((count, *column.shape[1:]), torch.nan)
        row[: len(column)] = column
        rows.append(row)
    return torch.stack(rows, 1)


def _rows_of(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the molecules with these indices, and the index of the first row of
    each.
    """
    sizes = ptr.diff()[index]
    ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    within = torch.arange(int(ends[-1])) - ends[:-1].repeat_interleave(sizes)
    return ptr[index].repeat_interleave(sizes) + within, ends
