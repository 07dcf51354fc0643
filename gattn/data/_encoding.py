"""How the text of a file is encoded, by its first bytes and by name."""

from __future__ import annotations

import codecs
from pathlib import Path

__all__ = ["is_wide", "marked_encoding"]

MARKS = {  # byte order marks; UTF-32's begins with one of UTF-16's
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NO_TEXT = {
    b"PK\x03\x04": "a zip archive, as workbooks of Excel are",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel",
    b"\x1f\x8b": "compressed by gzip",
}
"""How files begin that are taken for tables."""
NO_TABLE = {
    ".sdf": "a file of structures",
    ".sd": "a file of structures",
    ".mol": "a structure",
    ".mol2": "a structure",
    ".pdb": "a structure",
    ".parquet": "a Parquet file",
}
"""How files end that are taken for tables."""


def marked_encoding(path: Path) -> str:
    """The encoding that a file's byte order mark tells, UTF-8 without one.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is a workbook, an archive or a file of structures.
    """
    with path.open("rb") as file:
        start = file.read(4)
    if kind := NO_TABLE.get(path.suffix.lower()):
        raise ValueError(f"{path} is {kind}; wanted a CSV file, with SMILES where molecules are")
    for mark, kind in NO_TEXT.items():
        if start.startswith(mark):
            raise ValueError(f"{path} is {kind}; save it as a CSV file")
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8")


def is_wide(encoding: str) -> bool:
    """Whether characters take several bytes, so that one byte alone is no part of any.

    Raises:
        ValueError: there is no such encoding.
    """
    try:
        "".encode(encoding)  # refuses what is none of text, as base64
        return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    except LookupError:
        raise ValueError(f"there is no encoding {encoding!r}") from None
