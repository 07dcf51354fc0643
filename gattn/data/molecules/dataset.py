"""Many molecules held together: a sequence of PyG ``Data`` that is selected, batched and saved."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from gattn.data.molecules.arrays import MoleculeArrays, join
from gattn.data.molecules.store import Lists, read_store, write_store

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["BadRow", "MoleculeError", "Molecules", "batch_molecules", "indices_of", "smiles_of"]

Positions: TypeAlias = "slice | Sequence[int] | Sequence[bool] | Tensor | np.ndarray"


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read: its number from 0, its line in a file, and why."""

    row: int
    text: str
    reason: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"row {self.row}" + (f" (line {self.line})" if self.line is not None else "")
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"{where}: {text!r}: {self.reason}"


class MoleculeError(ValueError):
    """Some rows could not be read; ``bad`` holds every one of them."""

    def __init__(self, bad: Sequence[BadRow], source: str = "the list") -> None:
        self.bad = tuple(bad)
        shown = "\n".join(f"  {row}" for row in self.bad[:10])
        more = f"\n  and {len(self.bad) - 10} more" if len(self.bad) > 10 else ""
        super().__init__(
            f'{len(self.bad)} bad row(s) in {source} (on_error="skip" leaves them out):\n'
            f"{shown}{more}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Molecules(Dataset["Data"]):
    """The molecules that could be read, and a report on those that could not.

    A sequence: ``mols[0]`` is a PyG ``Data`` with ``x``, ``edge_index``, ``edge_attr``, ``smiles``
    and, where there are targets, ``y`` [1, t]; ``mols[1:9]``, ``mols[[4, 2]]`` and ``mols[mask]``
    are ``Molecules``. PyG's ``DataLoader`` and torch's ``random_split`` take it as it is.

    A target that was not measured is NaN in ``y``. With several targets keep every molecule that
    has one of them, and leave the gaps out of the loss::

        mols = mols.labelled()
        batch = batch_molecules(mols[:64])
        known = batch.y.isfinite()
        loss = F.binary_cross_entropy_with_logits(model(batch)[known], batch.y[known])

    Attributes:
        smiles: the k texts that they were read from.
        arrays: all atoms and bonds, side by side.
        y: [k, t] float32; NaN where a target is missing.
        targets: the t names of ``y``'s columns.
        rows: the row, from 0, that each molecule came from.
        bad: the rows left out; always empty under ``on_error="raise"``.
    """

    smiles: list[str]
    arrays: MoleculeArrays
    y: Tensor
    targets: tuple[str, ...]
    rows: tuple[int, ...]
    bad: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.smiles)

    def __repr__(self) -> str:
        atoms, bonds = len(self.arrays.x), len(self.arrays.edge_attr) // 2
        few = ", ".join([*self.targets[:3], *["..."] * (len(self.targets) > 3)])
        few = f" ({few})" if few else ""
        return (
            f"Molecules({len(self)} molecules, {atoms} atoms, {bonds} bonds, "
            f"{len(self.targets)} target{'s' * (len(self.targets) != 1)}{few}, "
            f"{len(self.bad)} bad rows)"
        )

    @overload
    def __getitem__(self, index: int) -> Data: ...
    @overload
    def __getitem__(self, index: Positions) -> Molecules: ...
    def __getitem__(self, index: int | Positions) -> Data | Molecules:
        """Give one molecule, or those at several positions in their order.

        >>> from gattn.data import read_smiles
        >>> mols = read_smiles(["C", "CC", "CCC"], [0.5, None, 2.0])
        >>> mols[-1]
        Data(x=[3, 49], edge_index=[2, 4], edge_attr=[4, 14], y=[1, 1], smiles='CCC')
        >>> mols[[2, 0]].smiles, mols[mols.mask[:, 0]].smiles, mols[:1].smiles
        (['CCC', 'C'], ['C', 'CCC'], ['C'])
        """
        positions = indices_of(index, len(self))
        if positions.dim() == 0:
            from torch_geometric.data import Data  # takes seconds

            i = int(positions)
            y = self.y[i : i + 1].clone() if self.targets else None
            return Data(*self.arrays.one(i), y, smiles=self.smiles[i])
        numbers = positions.tolist()
        return Molecules(
            [self.smiles[i] for i in numbers],
            self.arrays.take(positions),
            self.y[positions],
            self.targets,
            tuple(self.rows[i] for i in numbers),
            self.bad,
        )

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    @property
    def graphs(self) -> list[Data]:
        """Every molecule as a PyG ``Data``, made anew by each call."""
        return list(self)

    @property
    def mask(self) -> Tensor:
        """[k, t] bool: which targets were measured."""
        return self.y.isfinite()

    def labelled(self) -> Molecules:
        """Keep the molecules of which at least one target was measured; see :attr:`mask`.

        >>> from gattn.data import read_smiles
        >>> read_smiles(["C", "CC"], [1.5, None]).labelled().smiles
        ['C']
        """
        return self[self.mask.any(1)]

    def save(self, path: str | os.PathLike[str], *, made_from: str = "") -> None:
        """Write everything to one compressed file, which holds arrays and text, and no code.

        Args:
            path: the file; one that is there is replaced at once or not at all.
            made_from: a name or checksum of what was read, for :meth:`load` to compare.

        >>> import tempfile, pathlib
        >>> from gattn.data import read_smiles
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.npz"
        >>> read_smiles(["C", "CC"], [1.5, None]).save(path)
        >>> Molecules.load(path)
        Molecules(2 molecules, 3 atoms, 1 bonds, 1 target (y), 0 bad rows)
        """
        bad = [(row.row, row.text, row.reason, row.line) for row in self.bad]
        lists = Lists(smiles=self.smiles, targets=list(self.targets), rows=list(self.rows), bad=bad)
        write_store(path, made_from, lists, self.arrays, self.y)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, made_from: str | None = None) -> Molecules:
        """Read what :meth:`save` wrote; RDKit is not needed.

        Args:
            path: the file.
            made_from: refuse a file that was saved with another ``made_from``.

        Returns:
            The molecules, equal to those that were saved.

        Raises:
            ValueError: no such file of molecules, or a broken one; one whose atoms and bonds are
                described by other numbers than this version of gattn computes; one that was made
                from something else.
            FileNotFoundError: no such file.
        """
        lists, arrays, y = read_store(path, made_from)
        bad = tuple(BadRow(*row) for row in lists["bad"])
        targets, rows = tuple(lists["targets"]), tuple(lists["rows"])
        return cls(lists["smiles"], arrays, y, targets, rows, bad)


def indices_of(index: int | Positions, count: int) -> Tensor:
    """Convert positions to indices from 0: int64, [k], or a scalar for one position."""
    if isinstance(index, slice):
        return torch.tensor(range(count)[index], dtype=torch.int64)
    if isinstance(index, str) or not (hasattr(index, "__index__") or hasattr(index, "__len__")):
        raise TypeError(f"molecules are taken by position, slice, list or mask; got {index!r}")
    if isinstance(index, np.ndarray):
        index = np.asarray(index, order="C")  # torch takes no negative strides
    index = torch.as_tensor(index).cpu()
    if index.dim() > 1:
        raise TypeError(f"molecules are taken by one row of positions; got shape {(*index.shape,)}")
    if index.dtype == torch.bool:
        if index.numel() != count:
            raise IndexError(
                f"a mask must hold {count} values, one a molecule; got {index.numel()}"
            )
        return index.reshape(-1).nonzero().flatten()
    if index.numel() and (index.is_floating_point() or index.is_complex()):
        raise TypeError(f"positions must be whole numbers or a mask; got {index.dtype}")
    index = index.to(torch.int64)
    outside = index[(index < -count) | (index >= count)].reshape(-1)
    if len(outside):
        raise IndexError(f"position {int(outside[0])} is outside the {count} molecules")
    return torch.where(index < 0, index + count, index)


def smiles_of(molecules: Sequence[str] | Molecules) -> Sequence[str]:
    """The texts of molecules that may have been read already."""
    if isinstance(molecules, str):
        raise ValueError(f"smiles must be a list of texts; got the one text {molecules!r}")
    return molecules.smiles if isinstance(molecules, Molecules) else molecules


def batch_molecules(molecules: Molecules | Sequence[Data]) -> Data:
    """Join molecules into one graph without edges between them.

    Faster than PyG's ``Batch`` and with the same names; nothing is padded.

    Args:
        molecules: g of them, as ``Molecules`` (gathered at once) or as a list of ``Data``.

    Returns:
        Data with ``x``, ``edge_index`` and ``edge_attr`` of all atoms and bonds, ``batch`` [n],
        the molecule of each atom, ``ptr`` [g + 1], where each molecule's atoms begin, and ``y``
        [g, t] where there are targets. No molecule gives no atoms.

    Raises:
        TypeError: for anything but molecules.

    >>> from gattn.data import smiles_to_data
    >>> batch = batch_molecules([smiles_to_data("CC"), smiles_to_data("O")])
    >>> batch.batch, batch.ptr
    (tensor([0, 0, 1]), tensor([0, 2, 3]))
    """
    from torch_geometric.data import Data  # takes seconds

    if isinstance(molecules, Molecules):
        arrays, y = molecules.arrays.copy(), molecules.y.clone() if molecules.targets else None
    else:
        for graph in molecules:
            if not isinstance(graph, Data):
                raise TypeError(f"molecules must hold Data objects; got {type(graph).__name__}")
        arrays = join([(g["x"], g["edge_index"], g["edge_attr"]) for g in molecules])
        labelled = len(molecules) and all("y" in graph for graph in molecules)
        y = torch.cat([graph["y"] for graph in molecules]) if labelled else None
    atoms, bonds = arrays.ptr.diff(), arrays.edge_ptr.diff()
    batch = Data(
        x=arrays.x,
        edge_index=arrays.edge_index + arrays.ptr[:-1].repeat_interleave(bonds),
        edge_attr=arrays.edge_attr,
        y=y,
    )
    batch.batch = torch.arange(len(atoms)).repeat_interleave(atoms)
    batch.ptr = arrays.ptr
    return batch
