"""Files that contain named arrays, a few strings and a checksum of each array (safetensors).

Reading such a file runs no code. The arrays are memory-mapped instead of copied into memory.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

__all__ = ["Layout", "map_arrays", "read_metadata", "write_arrays"]

Layout: TypeAlias = "Mapping[str, tuple[type[np.generic], tuple[int, ...]]]"
"""Dtype and shape of one row of each array, as a dictionary by the name of the array."""
ENTRY = "gattn"
"""Key in the safetensors header; its value is a JSON object with all strings of the file."""
INSTALL = 'files of molecules need safetensors: pip install "gattn[molecules]"'


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write arrays and strings to a file. Memory-mapped arrays are not read into memory.

    Raises:
        ImportError: safetensors is not installed.
        OSError: the file cannot be written.
    """
    try:
        from safetensors.numpy import save_file
    except ImportError:
        raise ImportError(INSTALL) from None
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    checksums = {name: _checksum(array) for name, array in arrays.items()}
    texts = json.dumps({**metadata, "crc32": checksums})
    # The header of a safetensors file has a single entry, because several entries would be written
    # in random order.
    save_file(arrays, path, {ENTRY: texts})


def read_metadata(path: str | os.PathLike[str], format: str) -> dict[str, str]:
    """Read the strings in a file's header, and check that the file has the expected format.

    Raises:
        FileNotFoundError: the file does not exist.
        ImportError: safetensors is not installed.
        ValueError: the file is not a safetensors file, or has another format.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError(INSTALL) from None
    try:
        with safe_open(path, "pt") as file:
            metadata = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
    except (SafetensorError, IsADirectoryError) as error:
        raise ValueError(str(error)) from error
    if metadata.get("format") != format:
        raise ValueError(f"its format is {metadata.get('format')!r}, not {format!r}")
    return metadata


def map_arrays(path: str | os.PathLike[str], layout: Layout) -> dict[str, np.ndarray]:
    """Map the arrays of a file into memory. Their dtypes, row shapes and checksums are checked.

    Raises:
        ValueError: an array is missing or has another dtype or row shape, or its checksum differs
            from the one that was stored when it was written.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            checksums = json.loads(file.metadata()[ENTRY])["crc32"]
            arrays = {name: file.get_tensor(name).numpy() for name in layout}
        for name, (dtype, row_shape) in layout.items():
            array = arrays[name]
            if array.dtype != dtype or not array.ndim or array.shape[1:] != row_shape:
                expected = f"rows of shape {row_shape} and type {np.dtype(dtype)}"
                raise ValueError(f"{name} must have {expected}; it is {array.shape} {array.dtype}")
            if _checksum(array) != checksums[name]:
                raise ValueError(f"the checksum of {name} differs from the one in the header")
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    return arrays


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)
