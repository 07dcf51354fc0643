"""Files of molecules in the format of :mod:`gattn.data.array_file`, readable without RDKit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TypedDict

import numpy as np
import torch
from torch import Tensor

from gattn.data.array_file import Layout, map_arrays, read_metadata, write_arrays
from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES, FEATURISER
from gattn.files import whole_file

__all__ = ["Lists", "StaleFile", "read_store", "write_store"]

FORMAT = "gattn molecules 2"
LAYOUT: Layout = {
    "lists": (np.uint8, ()),  # [bytes]: a Lists object as JSON text
    "atoms": (np.int32, ()),  # [n]: for each atom, its row in atom_table
    "atom_table": (np.float32, (len(ATOM_FEATURES),)),  # [a, d]: distinct rows of x
    "edges": (np.int32, ()),  # [e]: for each edge, its row in edge_table
    "edge_table": (np.float32, (len(BOND_FEATURES),)),  # [b, d]: distinct rows of edge_attr
    "ends": (np.int32, (2,)),  # [e, 2]: source and destination of each edge
    "ptr": (np.int64, ()),  # [k + 1]: index of the first atom of each molecule
    "edge_ptr": (np.int64, ()),  # [k + 1]: index of the first edge of each molecule
    "y": (np.float32, ()),  # [k * t]: targets of the molecules
}


class Lists(TypedDict):
    """Fields of :class:`gattn.data.Molecules` that are not arrays."""

    smiles: list[str]
    targets: list[str]
    rows: list[int]
    bad: list[tuple[int, str, str, int | None]]


class StaleFile(ValueError):
    """Raised if a file was written from another source or with another version of the features."""


def write_store(
    path: str | os.PathLike[str], made_from: str, lists: Lists, arrays: MoleculeArrays, y: Tensor
) -> None:
    """Write molecules to a file. If the process is interrupted, no incomplete file remains."""
    atoms, atom_table = _distinct_rows(arrays.x.numpy())
    edges, edge_table = _distinct_rows(arrays.edge_attr.numpy())
    columns = {
        "lists": np.frombuffer(json.dumps(lists).encode(), np.uint8),
        "atoms": atoms,
        "atom_table": atom_table,
        "edges": edges,
        "edge_table": edge_table,
        "ends": arrays.edge_index.t().to(torch.int32).numpy(),
        "ptr": arrays.ptr.numpy(),
        "edge_ptr": arrays.edge_ptr.numpy(),
        "y": y.numpy().reshape(-1),
    }
    with whole_file(path) as temporary:
        metadata = {"format": FORMAT, "featuriser": FEATURISER, "made_from": made_from}
        write_arrays(temporary, columns, metadata)


def _distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows, and for each row its index among them, as int32."""
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))
    _, first, index = np.unique(keys.reshape(-1), return_index=True, return_inverse=True)
    return index.astype(np.int32), rows[first]


def read_store(
    path: str | os.PathLike[str], made_from: str | None
) -> tuple[Lists, MoleculeArrays, Tensor]:
    """Read and check a file of molecules.

    Raises:
        FileNotFoundError: the file does not exist.
        StaleFile: the file has another version of the features, or another ``made_from``.
        ValueError: the file is damaged, or is not a file of molecules.
    """
    import msgspec

    try:
        _check_fresh(path, read_metadata(path, FORMAT), made_from)
        columns = map_arrays(path, LAYOUT)
        lists = msgspec.convert(json.loads(columns["lists"].tobytes()), Lists)
        return lists, *_expand(lists, columns)
    except StaleFile:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged, or was not written by Molecules.save ({error}): remove it, "
            "or use another file"
        ) from None


def _check_fresh(
    path: str | os.PathLike[str], metadata: Mapping[str, str], made_from: str | None
) -> None:
    version, source = metadata.get("featuriser"), metadata.get("made_from")
    if version != FEATURISER:
        raise StaleFile(
            f"{path} was written with version {version} of the atom and bond features, but this "
            f"version of gattn has version {FEATURISER}: read the molecules again and save them"
        )
    if made_from is not None and source != made_from:
        raise StaleFile(
            f"{path} was not written from this source with these options: it was written from "
            f"{source or 'nothing'!r}, not {made_from!r}"
        )


def _expand(lists: Lists, columns: Mapping[str, np.ndarray]) -> tuple[MoleculeArrays, Tensor]:
    """Check that the columns of a file are consistent, and expand the features of all atoms and
    edges.

    All indices are checked against the arrays' sizes, because the file may be from an untrusted
    source.
    """
    count, targets = len(lists["smiles"]), len(lists["targets"])
    atoms, edges, ends = (torch.from_numpy(columns[name]) for name in ("atoms", "edges", "ends"))
    ptr, edge_ptr = (torch.tensor(columns[name]) for name in ("ptr", "edge_ptr"))
    lengths = {"rows": (len(lists["rows"]), count), "y": (len(columns["y"]), count * targets)}
    lengths |= {"ptr": (len(ptr), count + 1), "edge_ptr": (len(edge_ptr), count + 1)}
    lengths |= {"ends": (len(ends), len(edges))}
    for name, (length, expected) in lengths.items():
        if length != expected:
            raise ValueError(f"{name} must have {expected} values; it has {length}")
    for name, table in (("atoms", "atom_table"), ("edges", "edge_table")):
        if ((columns[name] < 0) | (columns[name] >= len(columns[table]))).any():
            raise ValueError(f"{name} must contain indices of rows of {table}")
    for name, pointers, end in (("ptr", ptr, len(atoms)), ("edge_ptr", edge_ptr, len(edges))):
        if pointers[0] != 0 or pointers[-1] != end or (pointers.diff() < 0).any():
            raise ValueError(f"{name} must ascend from 0 to {end}")
    atom_counts = ptr.diff().repeat_interleave(edge_ptr.diff())[:, None]
    if ((ends < 0) | (ends >= atom_counts)).any():
        raise ValueError("edge_index must contain atoms of the same molecule")
    arrays = MoleculeArrays(
        torch.from_numpy(columns["atom_table"][columns["atoms"]]),
        ends.t().long().contiguous(),
        torch.from_numpy(columns["edge_table"][columns["edges"]]),
        ptr,
        edge_ptr,
    )
    return arrays, torch.tensor(columns["y"]).reshape(count, targets)
