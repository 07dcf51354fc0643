"""Text files as a whole, in the encoding that they or their readers name."""

from __future__ import annotations

from pathlib import Path

from gattn.data.tables.encoding import is_wide, marked_encoding

__all__ = ["read_text"]


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file, without its byte order mark and with newlines at the ends of lines.

    Args:
        path: the file.
        encoding: of the text; otherwise what the byte order mark says, and UTF-8 without one.

    Returns:
        The text; an empty one of an empty file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is a workbook, an archive or no text in that encoding, or there is no such
            encoding.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "edges.txt"
    >>> _ = path.write_bytes("a b\\r\\n".encode("utf-16"))
    >>> read_text(path)
    'a b\\n'
    """
    encoding = encoding or marked_encoding(path)
    is_wide(encoding)  # refuses an encoding that there is not
    try:
        text = path.read_text(encoding=encoding)
    except UnicodeError as error:
        raise ValueError(f"it is not {encoding.upper()} text: {error}; name its encoding") from None
    if "\0" in text:
        raise ValueError("it has NUL bytes; name its encoding, as utf-16-le")
    return text.removeprefix("\ufeff")
