"""Inputs of models in files: a cache of what a list of texts comes out as.

They are archives of arrays and text, which hold no pickle: reading one runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence

import numpy as np

from gattn.data import ATOM_FEATURES, BOND_FEATURES, DESCRIPTORS
from gattn.data.archives import BROKEN, read_archive, write_archive
from gattn.data.building import PackedMolecules, PackedRows
from gattn.data.features import FEATURISER
from gattn.data.fingerprints import COUNTS, PackedCounts
from gattn.data.packing import PackedInputs

__all__ = ["fingerprint", "read_inputs", "write_inputs"]

FORMAT = "gattn molecule inputs 1"


def fingerprint(smiles: Sequence[str], max_atoms: int) -> str:
    """What a list of texts comes out as: a checksum of it and of all that reads it."""
    import rdkit

    made = [FEATURISER, DESCRIPTORS, COUNTS, rdkit.__version__, max_atoms, list(smiles)]
    return hashlib.sha256(json.dumps(made).encode()).hexdigest()


def write_inputs(path: str | os.PathLike[str], inputs: PackedInputs, made_from: str) -> None:
    """Write inputs to a file, which appears whole or not at all."""
    molecules = inputs.molecules
    header = {
        "format": FORMAT,
        "made_from": made_from,
        "smiles": molecules.smiles,
        "rows": molecules.rows,
        "errors": inputs.errors,
        "canonical": inputs.canonical,
    }
    arrays = {
        "atoms": molecules.atoms.order,
        "atom_table": molecules.atoms.table,
        "bonds": molecules.bonds.order,
        "bond_table": molecules.bonds.table,
        "ends": molecules.ends,
        "sizes": molecules.sizes,
        "columns": inputs.counts.columns,
        "places": inputs.counts.places,
        "counts": inputs.counts.counts,
        "descriptors": inputs.descriptors,
    }
    write_archive(path, header, arrays)


def read_inputs(path: str | os.PathLike[str], made_from: str) -> PackedInputs | None:
    """Read what :func:`write_inputs` wrote, or None where it was made from something else.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is no such file, or a broken one.
    """
    try:
        header, held = read_archive(path)
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
        if header["made_from"] != made_from:
            return None
        molecules = PackedMolecules(
            header["smiles"],
            header["rows"],
            PackedRows(held["atoms"], held["atom_table"]),
            PackedRows(held["bonds"], held["bond_table"]),
            held["ends"],
            held["sizes"],
        )
        counts = PackedCounts(held["columns"], held["places"], held["counts"])
        found = PackedInputs(
            molecules, counts, held["descriptors"], header["errors"], header["canonical"]
        )
        _check(found)
    except BROKEN as error:
        said = f"{path} holds no inputs of molecules, or is broken: {error}"
        raise ValueError(said) from None
    return found


def _check(found: PackedInputs) -> None:
    """Raise where a part does not fit the others."""
    molecules, counts, k = found.molecules, found.counts, len(found.molecules.smiles)
    (n, b), cells = molecules.sizes.sum(1).tolist(), int(counts.columns.sum())
    atom_table, bond_table = molecules.atoms.table, molecules.bonds.table
    wanted = {
        "atoms": (molecules.atoms.order, (n,), np.int32),
        "atom_table": (atom_table, (len(atom_table), len(ATOM_FEATURES)), np.float32),
        "bonds": (molecules.bonds.order, (b,), np.int32),
        "bond_table": (bond_table, (len(bond_table), len(BOND_FEATURES)), np.float32),
        "ends": (molecules.ends, (b, 2), np.int32),
        "sizes": (molecules.sizes, (2, k), np.int32),
        "columns": (counts.columns, (k,), np.int32),
        "places": (counts.places, (cells,), np.int16),
        "counts": (counts.counts, (cells,), np.uint8),
        "descriptors": (found.descriptors, (k, len(DESCRIPTORS)), np.float32),
    }
    for name, (array, shape, dtype) in wanted.items():
        fits = len(array.shape) == len(shape) and all(
            is_ == be for is_, be in zip(array.shape, shape) if be >= 0
        )
        if not fits or array.dtype != dtype:
            raise ValueError(
                f"{name} must be {shape} {dtype.__name__}; it is {array.shape} {array.dtype}"
            )
    atoms = molecules.sizes[0].repeat(molecules.sizes[1])[:, None]
    within = {
        "atoms": (molecules.atoms.order, len(atom_table)),
        "bonds": (molecules.bonds.order, len(bond_table)),
        "ends": (molecules.ends, atoms),
        "places": (counts.places, COUNTS),
        "rows": (np.array(molecules.rows, np.int64), len(found.errors)),
    }
    for name, (array, count) in within.items():
        if ((array < 0) | (array >= count)).any():
            raise ValueError(f"{name} must name what is there")
    if len(molecules.rows) != k or len(found.canonical) not in (0, k):
        raise ValueError(f"rows and canonical must be of {k} molecules")
