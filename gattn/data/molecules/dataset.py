"""The class ``Molecules``: a data set of PyG ``Data`` objects that can be batched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from gattn.data.molecules.arrays import MoleculeArrays, join

if TYPE_CHECKING:
    from torch_geometric.data import Data

Positions: TypeAlias = "slice | Sequence[int] | Sequence[bool] | Tensor | np.ndarray"


@dataclass(frozen=True)
class BadRow:
    """Row that could not be read.

    Attributes:
        row: the index of the row, counted from 0.
        text: the SMILES of the row.
        reason: the reason why the row cannot be read.
        line: the line number in the file; None if the row did not come from a file.
        in_labels: whether the SMILES is valid and the labels of the row cannot be used.
    """

    row: int
    text: str
    reason: str
    line: int | None = None
    in_labels: bool = False

    def __str__(self) -> str:
        """Return the row, its line in the file, its text and the reason as one sentence."""
        where = f"row {self.row}" if self.line is None else f"line {self.line}"
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"{where}: {text!r}: {self.reason}"


class MoleculeError(ValueError):
    """Raised if rows could not be read; the attribute ``bad`` lists all of them."""

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
    """Data set of molecules and their targets, with a list of the rows that could not be read.

    It is a sequence: ``mols[0]`` is a PyG ``Data`` with ``x``, ``edge_index``, ``edge_attr``,
    ``smiles`` and, if there are targets, ``y`` [1, t]; ``mols[1:9]``, ``mols[[4, 2]]`` and
    ``mols[mask]`` are ``Molecules``. It can be passed to PyG's ``DataLoader`` and to torch's
    ``random_split``.

    A target that was not measured is NaN in ``y``. With several targets, keep every molecule that
    has at least one of them, and exclude the missing values from the loss::

        mols = mols.labelled()
        batch = batch_molecules(mols[:64])
        known = batch.y.isfinite()
        loss = F.binary_cross_entropy_with_logits(model(batch)[known], batch.y[known])

    Attributes:
        smiles: the SMILES of the k molecules.
        arrays: the concatenated features of all atoms and bonds.
        y: [k, t] float32; NaN for a missing target.
        targets: the names of the t columns of ``y``.
        rows: index of each molecule's row in the input, counted from 0.
        bad: the rows that could not be read; always empty with ``on_error="raise"``.
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
        """Return the numbers of molecules, atoms, bonds, targets and bad rows as text."""
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
        """Return one molecule for an integer, or a ``Molecules`` object for a list, slice or mask,
        in this order.

        Raises:
            TypeError: the index is no integer, list, slice or mask.
            IndexError: an index is out of range, or a mask has another length.

        >>> from gattn.data import read_smiles
        >>> mols = read_smiles(["C", "CC", "CCC"], [0.5, None, 2.0])
        >>> mols[-1]
        Data(x=[3, 49], edge_index=[2, 4], edge_attr=[4, 14], y=[1, 1], smiles='CCC')
        >>> mols[[2, 0]].smiles, mols[mols.mask[:, 0]].smiles, mols[:1].smiles
        (['CCC', 'C'], ['C', 'CCC'], ['C'])
        """
        positions = indices_of(index, len(self))
        if positions.dim() == 0:
            # The import is inside the function, because importing PyTorch Geometric takes seconds.
            from torch_geometric.data import Data

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
        """List of all molecules as PyG ``Data``. Each access creates new objects."""
        return list(self)

    @property
    def mask(self) -> Tensor:
        """Mask of the measured targets: [k, t] bool."""
        return self.y.isfinite()

    def labelled(self) -> Molecules:
        """Select the molecules with at least one measured target; see :attr:`mask`.

        >>> from gattn.data import read_smiles
        >>> read_smiles(["C", "CC"], [1.5, None]).labelled().smiles
        ['C']
        """
        return self[self.mask.any(1)]


def indices_of(index: int | Positions, count: int) -> Tensor:
    """Convert a slice, list, mask or integer to nonnegative indices: int64 [k], or a scalar. Raises
    TypeError for indices that are not integers or not one-dimensional, and IndexError for an index
    out of range or a mask of another length.
    """
    if isinstance(index, slice):
        return torch.tensor(range(count)[index], dtype=torch.int64)
    if isinstance(index, str) or not (hasattr(index, "__index__") or hasattr(index, "__len__")):
        raise TypeError(
            f"molecules must be selected by an index, a slice, a list or a mask; got {index!r}"
        )
    if isinstance(index, np.ndarray):
        # The array is copied to C order, because torch does not support negative strides.
        index = np.asarray(index, order="C")
    index = torch.as_tensor(index).cpu()
    if index.dim() > 1:
        raise TypeError(
            f"the indices of molecules must be one-dimensional; got shape {(*index.shape,)}"
        )
    if index.dtype == torch.bool:
        if index.numel() != count:
            raise IndexError(
                f"a mask must have {count} values, one for each molecule; got {index.numel()}"
            )
        return index.reshape(-1).nonzero().flatten()
    if index.numel() and (index.is_floating_point() or index.is_complex()):
        raise TypeError(f"indices must be whole numbers or a mask; got {index.dtype}")
    index = index.to(torch.int64)
    outside = index[(index < -count) | (index >= count)].reshape(-1)
    if len(outside):
        raise IndexError(f"index {int(outside[0])} is out of range for {count} molecules")
    return torch.where(index < 0, index + count, index)


def smiles_of(molecules: Sequence[str] | Molecules) -> Sequence[str]:
    """Return the SMILES of a ``Molecules`` object, or the list of SMILES that was passed. Raises
    ValueError for a single text.
    """
    if isinstance(molecules, str):
        raise ValueError(f"smiles must be a list of strings; got a single string {molecules!r}")
    return molecules.smiles if isinstance(molecules, Molecules) else molecules


def batch_molecules(molecules: Molecules | Sequence[Data]) -> Data:
    """Combine molecules into one graph without edges between the molecules.

    The result has the fields of PyG's ``Batch``, but is computed faster; nothing is padded.

    Args:
        molecules: the g molecules, as ``Molecules`` (faster) or as a list of ``Data``.

    Returns:
        Data with ``x``, ``edge_index`` and ``edge_attr`` of all atoms and bonds, ``batch`` [n],
        the molecule of each atom, ``ptr`` [g + 1], the index of each molecule's first atom, and
        ``y`` [g, t] if there are targets (in a list, if every ``Data`` has ``y``). An empty list
        gives a graph without atoms.

    Raises:
        TypeError: ``molecules`` contains other objects.
        KeyError: a ``Data`` has no ``x``, ``edge_index`` or ``edge_attr``.

    >>> from gattn.data import smiles_to_data
    >>> batch = batch_molecules([smiles_to_data("CC"), smiles_to_data("O")])
    >>> batch.batch, batch.ptr
    (tensor([0, 0, 1]), tensor([0, 2, 3]))
    """
    # The import is inside the function, because importing PyTorch Geometric takes seconds.
    from torch_geometric.data import Data

    if isinstance(molecules, Molecules):
        arrays, y = molecules.arrays.copy(), molecules.y.clone() if molecules.targets else None
    else:
        for graph in molecules:
            if not isinstance(graph, Data):
                raise TypeError(f"molecules must contain Data objects; got {type(graph).__name__}")
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
