"""Inputs of models in files: a cache of what a list of texts comes out as.

A file is written while the texts are read, piece by piece, and mapped into memory when it is read,
so that neither takes memory that grows with it. It is one of safetensors, which holds arrays and
text: reading it runs nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from gattn.data import DESCRIPTORS
from gattn.data.molecules.features import FEATURISER
from gattn.data.molecules.fingerprints import COUNTS
from gattn.data.molecules.identity import IDENTITY
from gattn.data.molecules.packing import PackedInputs
from gattn.data.molecules.smiles import READER
from gattn.molecules.packed import FIELDS, POINTERS, PackedArrays, additions, decoded

__all__ = ["fingerprint", "locked", "read_inputs", "write_inputs"]

FORMAT = "gattn molecule inputs 3"
NAMES = {np.int64: "I64", np.int32: "I32", np.float32: "F32", np.int16: "I16", np.uint8: "U8"}
"""What safetensors calls the types."""
CHUNK = 65_536
"""So many texts, or molecules, are checked at once."""


def fingerprint(smiles: Sequence[str], max_atoms: int) -> str:
    """What a list of texts comes out as: a checksum of it and of all that reads it."""
    import rdkit

    made = [FEATURISER, DESCRIPTORS, COUNTS, rdkit.__version__, max_atoms, len(smiles)]
    made += [READER, IDENTITY]
    found = hashlib.sha256(json.dumps(made).encode())
    for begin in range(0, len(smiles), CHUNK):
        found.update(json.dumps(list(smiles[begin : begin + CHUNK])).encode())
    return found.hexdigest()


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Wait until no other process reads or writes this cache: the first one writes it for all.

    The lock is a hidden file beside it; that of a process which died is free.
    """
    path = Path(path)
    with path.with_name(f".{path.name}.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_inputs(
    path: str | os.PathLike[str], pieces: Iterable[PackedInputs], made_from: str
) -> None:
    """Write inputs to a file, which appears whole or not at all; see :func:`locked`.

    Args:
        path: the file; one that is there is replaced.
        pieces: taken one by one, with canonical SMILES.
        made_from: what :func:`fingerprint` says of the texts.

    Raises:
        OSError: it cannot be written, as on a full disk; nothing is left behind.
    """
    path = Path(path)
    folder = path.with_name(f".{path.name}.parts")
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    try:
        shapes, checksums = _write_parts(folder, additions(pieces))
        with (folder / "whole").open("wb") as whole:
            whole.write(_header(shapes, checksums, made_from))
            for name in FIELDS:
                with (folder / name).open("rb") as part:
                    shutil.copyfileobj(part, whole)
                (folder / name).unlink()
        (folder / "whole").replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_parts(
    folder: Path, added: Iterable[PackedArrays]
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Append to a file for each array; return the shapes and the CRC-32 checksums at the end."""
    rows, checksums = dict.fromkeys(FIELDS, 0), dict.fromkeys(FIELDS, 0)
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("wb")) for name in FIELDS}
        for some in added:
            for (name, (kind, _)), array in zip(FIELDS.items(), some):
                data = _bytes(np.ascontiguousarray(array, kind))
                files[name].write(data)
                checksums[name] = zlib.crc32(data, checksums[name])
                rows[name] += len(array)
    return {name: (rows[name], *row) for name, (_, row) in FIELDS.items()}, checksums


def _bytes(array: np.ndarray) -> memoryview:
    """The bytes of a contiguous array, which may be empty."""
    return array.reshape(-1).view(np.uint8).data


def _header(shapes: dict[str, tuple[int, ...]], checksums: dict[str, int], made_from: str) -> bytes:
    """What comes before the arrays: the length of a JSON text, and that text."""
    kinds = {name: np.dtype(kind) for name, (kind, _) in FIELDS.items()}
    sizes = (int(np.prod(shape)) * kinds[name].itemsize for name, shape in shapes.items())
    ends = list(accumulate(sizes, initial=0))
    metadata = {"format": FORMAT, "made_from": made_from, "crc32": json.dumps(checksums)}
    table: dict[str, object] = {"__metadata__": metadata}
    for name, begin, end in zip(shapes, ends, ends[1:]):
        kind = NAMES[kinds[name].type]
        table[name] = {"dtype": kind, "shape": shapes[name], "data_offsets": [begin, end]}
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)  # the arrays begin at a multiple of 8 bytes
    return len(text).to_bytes(8, "little") + text


def read_inputs(path: str | os.PathLike[str], made_from: str) -> PackedArrays | None:
    """Map what :func:`write_inputs` wrote, or give None where it was made from something else.

    All of it is looked at once, a part at a time, so that whatever a file holds no index in it
    leads outside.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is no such file, or a broken one.
    """
    try:
        with safe_open(path, "pt") as file:
            known = file.metadata() or {}
            if known.get("format") != FORMAT:
                raise ValueError(f"its format is {known.get('format')!r}, not {FORMAT!r}")
            if known.get("made_from") != made_from:
                return None
            arrays = PackedArrays(*(file.get_tensor(name).numpy() for name in FIELDS))
        _check_shapes(arrays)
        _check_content(arrays)
        _check_sums(arrays, json.loads(known.get("crc32", "{}")))
    except (SafetensorError, ValueError, IsADirectoryError) as error:
        raise ValueError(
            f"the cache {path} is damaged, or is another file ({error}): remove it, and the SMILES "
            "are read again"
        ) from None
    return arrays


def _check_shapes(arrays: PackedArrays) -> None:
    """Raise where an array has another type or shape than the pointers say."""
    held = arrays._asdict()
    for name, (kind, row) in FIELDS.items():
        array = held[name]
        if array.dtype != kind or array.shape[1:] != row or not array.ndim:
            wanted = f"rows of {row} {np.dtype(kind)}"
            raise ValueError(f"{name} must be {wanted}; it is {array.shape} {array.dtype}")
    k = len(arrays.rows)
    lengths = {"descriptors": k, **dict.fromkeys([*POINTERS][:-1], k + 1)}
    for name, targets in POINTERS.items():
        ptr = held[name]
        if not len(ptr) or ptr[0] or (ptr[1:] < ptr[:-1]).any():
            raise ValueError(f"{name} must begin at 0 and never fall")
        lengths |= dict.fromkeys(targets, int(ptr[-1]))
    for name, length in lengths.items():
        if len(held[name]) != length:
            raise ValueError(f"{name} must be of {length}; it is of {len(held[name])}")


def _check_sums(arrays: PackedArrays, checksums: dict[str, int]) -> None:
    """Raise where the bytes of an array are not those that were written."""
    for name, array in arrays._asdict().items():
        if zlib.crc32(_bytes(array)) != checksums.get(name):
            raise ValueError(f"the checksum of {name} is not that of the header")


def _check_content(arrays: PackedArrays) -> None:
    """Raise where an index leads nowhere, or a text is none."""
    readable = np.flatnonzero(arrays.errors_ptr[1:] == arrays.errors_ptr[:-1])
    if not np.array_equal(readable, arrays.rows):
        raise ValueError("rows must name the texts without an error")
    within = {
        "atoms": (arrays.atoms, len(arrays.atom_table)),
        "bonds": (arrays.bonds, len(arrays.bond_table)),
        "places": (arrays.places, COUNTS),
    }
    for name, (array, count) in within.items():
        if len(array) and not 0 <= array.min() <= array.max() < count:
            raise ValueError(f"{name} must name what is there")
    for begin in range(0, len(arrays.rows), CHUNK):
        where = slice(begin, min(begin + CHUNK, len(arrays.rows)) + 1)
        atoms, bonds = np.diff(arrays.atom_ptr[where]), np.diff(arrays.bond_ptr[where])
        ends = arrays.ends[slice(*arrays.bond_ptr[where][[0, -1]])]
        if ((ends < 0) | (ends >= atoms.repeat(bonds)[:, None])).any():
            raise ValueError("ends must name what is there")
        some = np.arange(begin, where.stop - 1)
        decoded(arrays.smiles, arrays.smiles_ptr, some)
