"""Atoms and bonds of many molecules, concatenated in a few tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES


@dataclass(frozen=True, eq=False)
class MoleculeArrays:
    """Tensors of the atoms and bonds of k molecules; the atoms of each molecule are numbered from
    0.

    Attributes:
        x: [n, d] float32, the features of the atoms.
        edge_index: [2, e] int64, the bonds in both directions.
        edge_attr: [e, d] float32, the features of the edges.
        ptr: [k + 1] int64, the index of the first atom of each molecule, and n at the end.
        edge_ptr: [k + 1] int64, the index of the first edge of each molecule, and e at the end.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    ptr: Tensor
    edge_ptr: Tensor

    def one(self, i: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return copies of ``x``, ``edge_index`` and ``edge_attr`` for the molecule with index
        i.
        """
        first, last = self.ptr[i : i + 2].tolist()
        begin, end = self.edge_ptr[i : i + 2].tolist()
        return (
            self.x[first:last].clone(),
            self.edge_index[:, begin:end].clone(),
            self.edge_attr[begin:end].clone(),
        )

    def copy(self) -> MoleculeArrays:
        """Return a copy of all tensors."""
        return MoleculeArrays(*(getattr(self, field.name).clone() for field in fields(self)))

    def take(self, index: Tensor) -> MoleculeArrays:
        """Return a copy with the molecules at these indices, [k] int64, in the order of the
        indices.
        """
        atoms, ptr = ranges(self.ptr, index)
        edges, edge_ptr = ranges(self.edge_ptr, index)
        return MoleculeArrays(
            self.x[atoms], self.edge_index[:, edges], self.edge_attr[edges], ptr, edge_ptr
        )


def ranges(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenate the integer ranges from ``ptr[i]`` to ``ptr[i + 1] - 1`` for each i in ``index``.

    Returns:
        The integers of all ranges, and the offset of each range [len(index) + 1].
    """
    length = ptr.diff()[index]
    bounds = boundaries(length)
    within = torch.arange(int(bounds[-1])) - bounds[:-1].repeat_interleave(length)
    return ptr[index].repeat_interleave(length) + within, bounds


def boundaries(length: Tensor) -> Tensor:
    """Return the offsets [k + 1] of k consecutive ranges with these lengths."""
    return torch.cat([length.new_zeros(1), length.cumsum(0)])


def join(graphs: Sequence[tuple[Tensor, Tensor, Tensor]]) -> MoleculeArrays:
    """Concatenate the tensors ``(x, edge_index, edge_attr)`` of several molecules, with shapes as
    in :class:`MoleculeArrays`. Without molecules, all tensors have no rows, and the boundaries are
    [0].
    """
    return MoleculeArrays(
        torch.cat([torch.empty(0, len(ATOM_FEATURES)), *(x for x, _, _ in graphs)]),
        torch.cat([torch.empty(2, 0, dtype=torch.int64), *(edges for _, edges, _ in graphs)], 1),
        torch.cat([torch.empty(0, len(BOND_FEATURES)), *(bonds for _, _, bonds in graphs)]),
        boundaries(torch.tensor([len(x) for x, _, _ in graphs], dtype=torch.int64)),
        boundaries(torch.tensor([len(bonds) for _, _, bonds in graphs], dtype=torch.int64)),
    )
