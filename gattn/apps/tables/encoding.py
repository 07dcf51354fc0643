"""Detection of text encodings by byte order marks, and of files that are not text."""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path

# UTF-32 is first, because its byte order mark begins with that of UTF-16
MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
EXCEL = (
    "save it as a CSV file in that program, or run pandas.read_excel(FILE).to_csv(OUT, index=False)"
)
PARQUET = "write pandas.read_parquet(FILE).to_csv(OUT, index=False)"
FEATHER = "write pandas.read_feather(FILE).to_csv(OUT, index=False)"
CSV_ELSE = "save it as a CSV file"
NO_TEXT = {
    b"PK\x03\x04": ("a zip archive, for example an Excel workbook", "save it as a CSV file"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", EXCEL),
    b"\x1f\x8b": ("compressed by gzip", "decompress it first"),
    b"BZh91AY&SY": ("compressed by bzip2", "decompress it first"),
    b"\xfd7zXZ": ("compressed by xz", "decompress it first"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "decompress it first"),
    b"PAR1\x15": ("a Parquet file", PARQUET),
    b"ARROW1\0": ("a Feather file", FEATHER),
    b"FEA1\0": ("a Feather file", FEATHER),
    b"\x89HDF": ("an HDF5 file", CSV_ELSE),
    b"\x93NUMPY": ("a NumPy array", CSV_ELSE),
    b"SQLite format 3\0": ("an SQLite database", CSV_ELSE),
    b"%PDF-": ("a PDF file", CSV_ELSE),
    **{
        bytes((0x80, n)): ("a pickle, which can run code when it is read", CSV_ELSE)
        for n in range(2, 6)
    },
}
"""First bytes of binary file formats, each with the format's name and advice to export a CSV file.
"""
NO_TABLE = {
    **dict.fromkeys((".sdf", ".sd", ".mol", ".mol2", ".pdb"), "a file of molecular structures"),
    **dict.fromkeys((".json", ".jsonl"), "a JSON file"),
}
"""File suffixes of formats other than CSV, which are texts, too."""


def marked_encoding(path: Path, *, compressed: bool = False) -> str:
    """Return the encoding that a file's byte order mark declares; UTF-8 if it has none.

    Args:
        path: the file.
        compressed: whether the file is compressed by gzip; then its content is examined.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not a table of text, but for example a workbook, an archive, a file
            of molecular structures or a JSON file.
        EOFError, gzip.BadGzipFile, zlib.error: the compressed file is damaged.
    """
    with gzip.open(path) if compressed else path.open("rb") as file:
        start = file.read(16)
    if kind := NO_TABLE.get(path.suffix.lower()):
        raise ValueError(
            f"{path} is {kind}; expected a CSV file, with SMILES if it contains molecules"
        )
    for mark, (kind, way) in NO_TEXT.items():
        if start.startswith(mark):
            raise ValueError(f"{path} is {kind}; {way}")
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), "utf-8")


def is_wide(encoding: str) -> bool:
    """Return True if an encoding is UTF-16 or UTF-32, in which each character has several bytes.

    Raises:
        ValueError: the encoding is unknown.
    """
    try:
        # Encoding a text raises a LookupError for codecs that are not text encodings, such as
        # base64.
        "".encode(encoding)
        return codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    except LookupError:
        raise ValueError(f"unknown encoding {encoding!r}") from None


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file, remove its byte order mark and convert line ends to newlines.

    Args:
        path: the file.
        encoding: the text encoding; None for the encoding of the byte order mark, or UTF-8 if the
            file has no such mark.

    Returns:
        The text; an empty string if the file is empty.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not valid text in the encoding, which the message calls "it" without
            the path; the encoding is unknown; or, without an encoding, the file is a workbook or an
            archive, for example one that gzip has compressed.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "edges.txt"
    >>> _ = path.write_bytes("a b\\r\\n".encode("utf-16"))
    >>> read_text(path)
    'a b\\n'
    """
    encoding = encoding or marked_encoding(path)
    # This call raises an error if the encoding is unknown.
    is_wide(encoding)
    try:
        text = path.read_text(encoding=encoding)
    except UnicodeError as error:
        raise ValueError(f"it is not {encoding.upper()} text: {error}; set its encoding") from None
    if "\0" in text:
        raise ValueError("it has NUL bytes; set its encoding, for example utf-16-le")
    return text.removeprefix("\ufeff")
