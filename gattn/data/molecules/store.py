"""Molecules in a file: an archive of arrays and one text, never a pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from gattn.data.molecules.archives import BROKEN, read_archive, write_archive
from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES, FEATURISER

__all__ = ["Lists", "StaleFile", "read_store", "write_store"]

FORMAT = "gattn molecules 1"
ARRAYS = ("x", "edge_index", "edge_attr", "ptr", "edge_ptr", "y")


class Lists(TypedDict):
    """What is stored beside the arrays."""

    smiles: Sequence[str]
    targets: Sequence[str]
    rows: Sequence[int]
    bad: Sequence[tuple[int, str, str, int | None]]


class StaleFile(ValueError):
    """A file of molecules that were read from another source, or described by other features."""


def write_store(
    path: str | os.PathLike[str], made_from: str, lists: Lists, arrays: MoleculeArrays, y: Tensor
) -> None:
    """Write a file of molecules; it appears under its name whole or not at all."""
    header = {"format": FORMAT, "featuriser": FEATURISER, "made_from": made_from, **lists}
    held = {
        "x": arrays.x.numpy(),
        "edge_index": arrays.edge_index.to(torch.int32).numpy(),
        "edge_attr": arrays.edge_attr.numpy(),
        "ptr": arrays.ptr.numpy(),
        "edge_ptr": arrays.edge_ptr.numpy(),
        "y": y.numpy(),
    }
    write_archive(path, header, held)


def read_store(
    path: str | os.PathLike[str], made_from: str | None
) -> tuple[Lists, MoleculeArrays, Tensor]:
    """Read and check a file of molecules.

    Raises:
        StaleFile: it was made by another featuriser, or not from ``made_from`` where given.
        ValueError: it is no such file, or a broken one.
    """
    try:
        header, archive = read_archive(path)
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
        _check_fresh(path, header, made_from)
        x, edge_index, edge_attr, ptr, edge_ptr, y = (_tensor(archive, key) for key in ARRAYS)
        arrays = MoleculeArrays(x, edge_index.long(), edge_attr, ptr, edge_ptr)
        lists = Lists({key: header[key] for key in Lists.__annotations__})  # pyright: ignore
        _check(lists, arrays, y)
        return lists, arrays, y
    except StaleFile:
        raise
    except BROKEN as error:
        raise ValueError(
            f"{path} is damaged, or is no file of Molecules.save ({error}): remove it, or name "
            "another file"
        ) from None


def _check_fresh(
    path: str | os.PathLike[str], header: Mapping[str, str], made_from: str | None
) -> None:
    if header["featuriser"] != FEATURISER:
        raise StaleFile(
            f"{path} was made by version {header['featuriser']} of the atom and bond features, "
            f"and this gattn has version {FEATURISER}: read the molecules anew and save them again"
        )
    if made_from is not None and header["made_from"] != made_from:
        raise StaleFile(
            f"{path} was not made from this source with these options: "
            f"it says {header['made_from'] or 'nothing'!r}, not {made_from!r}"
        )


def _tensor(archive: Mapping[str, np.ndarray], key: str) -> Tensor:
    return torch.from_numpy(archive[key])


def _check(lists: Lists, arrays: MoleculeArrays, y: Tensor) -> None:
    """Raise where a part does not fit the others, so that nothing is read out of bounds."""
    _check_lists(lists)
    count, n, e = len(lists["smiles"]), len(arrays.x), len(arrays.edge_attr)
    wanted = {
        "x": (arrays.x, (n, len(ATOM_FEATURES)), torch.float32),
        "edge_index": (arrays.edge_index, (2, e), torch.int64),
        "edge_attr": (arrays.edge_attr, (e, len(BOND_FEATURES)), torch.float32),
        "ptr": (arrays.ptr, (count + 1,), torch.int64),
        "edge_ptr": (arrays.edge_ptr, (count + 1,), torch.int64),
        "y": (y, (count, len(lists["targets"])), torch.float32),
    }
    for name, (tensor, shape, dtype) in wanted.items():
        if tensor.shape != shape or tensor.dtype != dtype:
            raise ValueError(
                f"{name} must be {shape} {dtype}; it is {tuple(tensor.shape)} {tensor.dtype}"
            )
    for name, ptr, end in (("ptr", arrays.ptr, n), ("edge_ptr", arrays.edge_ptr, e)):
        if ptr[0] != 0 or ptr[-1] != end or (ptr.diff() < 0).any():
            raise ValueError(f"{name} must rise from 0 to {end}")
    atoms = arrays.ptr.diff().repeat_interleave(arrays.edge_ptr.diff())
    if ((arrays.edge_index < 0) | (arrays.edge_index >= atoms)).any():
        raise ValueError("edge_index must name atoms of its own molecule")
    if len(lists["rows"]) != count:
        raise ValueError(f"rows must hold {count} numbers; it holds {len(lists['rows'])}")


def _check_lists(lists: Lists) -> None:
    kinds = {"smiles": str, "targets": str, "rows": int, "bad": list}
    for name, kind in kinds.items():
        if not isinstance(lists[name], list) or not all(type(v) is kind for v in lists[name]):
            raise ValueError(f"{name} must be a list of {kind.__name__}")
    for row in lists["bad"]:
        if [type(part) for part in row[:3]] != [int, str, str] or len(row) != 4:
            raise ValueError("a bad row must hold its number, its text, the reason and the line")
        if not (row[3] is None or type(row[3]) is int):
            raise ValueError(f"the line of a bad row must be a number; it is {row[3]!r}")
