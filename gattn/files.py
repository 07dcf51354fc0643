"""Atomic writes of files and folders: if a write fails, the old content is unchanged; and JSON."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

TEXTS = (".csv", ".tsv", ".txt")
PARQUET = ".parquet"
STDOUT = ("-", "/dev/stdout", "/dev/fd/1")
"""Names of the standard output. It may be redirected to a file, which then exists."""
OnBadBytes = Literal["strict", "surrogateescape"]


class RowWriter(Protocol):
    """Interface of the objects that ``csv.writer`` returns."""

    def writerow(self, row: Sequence[object], /) -> object:
        """Write one row."""
        ...


def reason(error: OSError) -> str:
    """Describe why a system call failed, with the name of the file but without the error number.

    >>> reason(FileNotFoundError(2, "No such file or directory", "in.csv"))
    'in.csv: No such file or directory'
    >>> reason(OSError("the disk is read-only"))
    'the disk is read-only'
    """
    # URLError of urllib stores its cause in the attribute reason.
    cause = getattr(error, "reason", None)
    if isinstance(cause, OSError):
        return reason(cause)
    if not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


class RepeatedKeyError(ValueError):
    """Raised for JSON with the same key twice in an object, of which Python would use the last."""


def parse_json(content: str | bytes) -> Any:
    """Parse JSON.

    Raises:
        RepeatedKeyError: an object has the same key twice.
        ValueError: the content is not JSON.

    >>> parse_json('{"train": [0], "train": [1]}')
    Traceback (most recent call last):
    gattn.files.RepeatedKeyError: an object has the key 'train' twice
    """
    return json.loads(content, object_pairs_hook=_as_dict)


def _as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dictionary. Raises RepeatedKeyError for a key that
    occurs twice.
    """
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise RepeatedKeyError(f"an object has the key {key[:80]!r} twice")
        table[key] = value
    return table


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path. At the end of the ``with`` block, the file at this path replaces the
    file at ``path``.

    If the block fails (full disk, error, interruption), the temporary file is removed and an
    existing file is not changed. If several processes write the file, the last one wins.

    Args:
        path: the file to write.

    Yields:
        The temporary path, on the same disk as ``path``.

    Raises:
        FileNotFoundError: the folder of the file does not exist.
        OSError: the file cannot be written.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> with whole_file(path) as temporary:
        ...     _ = temporary.write_text("complete")
        >>> path.read_text()
        'complete'
    """
    path = _require_folder(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path. At the end of the ``with`` block, the file at this path becomes the
    new file ``path``.

    If ``path`` is ``-``, a pipe or a device, the content of the file is copied to it instead. If
    the block fails, nothing is written.

    Raises:
        FileExistsError: the file exists.
        FileNotFoundError: the folder of the file does not exist.
        OSError: the file cannot be written.
    """
    if _is_stream(Path(path)):
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder) / "stdout.csv"
            yield temporary
            with temporary.open("rb") as file, _open_stream(path) as stream:
                shutil.copyfileobj(file, stream)
        return
    path = _require_new(path)
    with whole_file(path) as temporary:
        yield temporary


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder. At the end of the ``with`` block, it is renamed to ``path``. If the
    block fails, the folder is removed.

    Raises:
        FileExistsError: the folder exists.
        FileNotFoundError: the parent folder does not exist.
        OSError: the folder cannot be written.
    """
    path = _require_new(path)
    with whole_file(path) as temporary:
        temporary.mkdir()
        yield temporary


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Replace several files atomically: a reader sees the old or the new content of each file.

    All contents are first written and flushed to new files beside the old ones. If one cannot be
    written (full disk), no old file is changed. A killed process may leave hidden files, which the
    next call overwrites. Only one process may call it at a time.

    Args:
        contents: the new content of each file, as a dict from path to bytes; the folders must
            exist.

    Raises:
        OSError: a file cannot be written.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> replace_files({folder / "a.json": b"{}", folder / "b.json": b"{}"})
        >>> sorted(file.name for file in folder.iterdir())
        ['a.json', 'b.json']
    """
    partials = {path: path.with_name(f".{path.name}.partial") for path in contents}
    try:
        for path, content in contents.items():
            with partials[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, partial in partials.items():
            partial.replace(path)
    finally:
        for partial in partials.values():
            partial.unlink(missing_ok=True)


def has_table_ending(path: str | os.PathLike[str]) -> bool:
    """Return True if a path is that of a table to write: a file whose ending is that of a format,
    or a pipe.

    >>> [has_table_ending(name) for name in ("a.csv", "a.tsv.gz", "-", "a.parquet.gz", "a/", "a")]
    [True, True, True, False, False, False]
    """
    path = Path(path)
    if path.suffix.lower() == ".gz":
        return Path(path.stem).suffix.lower() in TEXTS
    return path.suffix.lower() in (*TEXTS, PARQUET) or _is_stream(path)


def check_table_ending(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError if the ending of a path is not that of a table to write."""
    if not has_table_ending(path):
        raise ValueError(
            f"{path} must end in {', '.join(TEXTS)} or {PARQUET}; a text may be compressed "
            f"({TEXTS[0]}.gz)"
        )


@contextmanager
def table_writer(
    path: Path,
    header: Sequence[str],
    *,
    texts: Sequence[str] = (),
    separator: str = ",",
    encoding: str = "utf-8",
    on_bad_bytes: OnBadBytes = "strict",
    end: str = "\n",
) -> Iterator[RowWriter]:
    """Write a table, in the format of the ending of its path: CSV, TSV (separated by tabs), either
    of them compressed by gzip (``.gz``), or Parquet, for which the rows are first written to a CSV
    file beside it. An existing file is replaced, not atomically, and an incomplete file remains if
    the ``with`` block fails: :func:`whole_file` gives a path for an atomic write.

    Args:
        path: the file to write; ``-`` is a file of this name, not the standard output.
        header: the names of the columns.
        texts: the columns that are texts in a Parquet file. The types of the other columns are
            those of their cells.
        separator: the character between two cells of a CSV file.
        encoding: text encoding of the file.
        on_bad_bytes: handling of surrogates, which stand for bytes that were not valid text.
        end: the characters at the end of a line.

    Yields:
        An object that writes one row.

    Raises:
        ValueError: for another ending of the path, cells that cannot be a Parquet file, or text
            that the encoding does not have.
        OSError: if the file cannot be written.
        ImportError: pyarrow is missing, which writes Parquet.
    """
    check_table_ending(path)
    is_parquet = path.suffix.lower() == PARQUET
    text = path.with_name(f"{path.name}.csv") if is_parquet else path
    separator = "\t" if ".tsv" in map(str.lower, path.suffixes[-2:]) else separator
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(text, "wt", encoding=encoding, errors=on_bad_bytes, newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator=end)
        writer.writerow(header)
        yield writer
    if is_parquet:
        _convert_to_parquet(text, path, texts, separator)
        text.unlink()


def _convert_to_parquet(text: Path, path: Path, texts: Sequence[str], separator: str) -> None:
    """Write the rows of a CSV file to a Parquet file. Raises ValueError if pyarrow cannot read the
    CSV file. ``texts`` are the columns that are stored as texts; pyarrow infers the types of the
    others. The CSV file remains.
    """
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        table = pyarrow.csv.read_csv(
            text,
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(texts, pyarrow.string())
            ),
        )
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"the table cannot be a Parquet file: {error}; write a .csv") from None
    pyarrow.parquet.write_table(table, path)


def write_rows(path: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows to a UTF-8 table; see :func:`table_writer`. The first row is the header and must
    exist. Raises ValueError for another ending than that of a table, and OSError if the file cannot
    be written.
    """
    rows = iter(rows)
    with table_writer(path, [str(name) for name in next(rows)]) as writer:
        for row in rows:
            writer.writerow(row)


def _open_stream(path: str | os.PathLike[str]) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdout.buffer) if str(path) in STDOUT else Path(path).open("wb")


def _is_stream(path: Path) -> bool:
    is_other = path.exists() and not path.is_file() and not path.is_dir()
    return str(path) in STDOUT or is_other


def _require_new(path: str | os.PathLike[str]) -> Path:
    """Return the path; raise FileExistsError if it exists, and FileNotFoundError if its folder does
    not exist.
    """
    path = Path(path)
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} exists already: remove it or choose another name")
    return _require_folder(path)


def _require_folder(path: str | os.PathLike[str]) -> Path:
    """Return the path; raise FileNotFoundError if its folder does not exist."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"folder {path.parent} must exist to write {path.name} in it")
    return path
