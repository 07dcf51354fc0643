"""Names of files instead of their paths, which clients of the server must not see."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gattn.apps.run.model_io import CARD, read_json
from gattn.files import reason

FILES = ("data", "more_data", "validation", "test", "also", "nodes", "edges")
"""Settings of a training run that are files or lists of files, possibly after ``NAME=``."""


def run_paths(folder: Path) -> tuple[Path, ...]:
    """Return the paths that messages about a run and its report can contain, the longest first: the
    folder of the run, its files, and those that its model card and its settings name. Raises
    RunError or OSError if the folder or the card cannot be read.
    """
    files = [folder, *folder.iterdir(), *map(Path, _files(folder))]
    paths = {path for file in files for path in (file, file.resolve()) if len(path.parts) > 1}
    return tuple(sorted(paths, key=lambda path: (-len(str(path)), str(path))))


def without_paths(text: str, paths: tuple[Path, ...]) -> str:
    """Replace paths in a text by the names of their files.

    A short relative path can also occur by chance in the data of a picture. Therefore a path is
    replaced only if no letter, digit, + or / precedes or follows it.

    Args:
        text: the text, for example a message or an HTML page.
        paths: the paths, the longest first.

    >>> without_paths("/data/a/x.csv has changed", (Path("/data/a/x.csv"), Path("/data/a")))
    'x.csv has changed'
    """
    if not paths:
        return text
    names = {str(path): path.name for path in paths}
    names |= {html.escape(long): html.escape(short) for long, short in names.items()}
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(rf"(?<![\w+/])(?:{pattern})(?![\w+/])", lambda path: names[path[0]], text)


def fault_of(error: Exception, paths: tuple[Path, ...]) -> str:
    """Return the reason why a file of a run cannot be used, without paths.

    Args:
        error: the error; its cause can be an error of the operating system.
        paths: the paths of the run, the longest first.

    >>> fault_of(FileNotFoundError(2, "No such file or directory", "/data/x.csv"), ())
    'the file x.csv does not exist'
    """
    cause = error if isinstance(error, OSError) else error.__cause__
    if not isinstance(cause, OSError):
        return without_paths(str(error), paths)
    if not cause.filename:
        return without_paths(reason(cause), paths)
    name = Path(str(cause.filename)).name
    if isinstance(cause, FileNotFoundError):
        return f"the file {name} does not exist"
    return f"the file {name} cannot be read ({cause.strerror})"


def data_files(card: Mapping[str, Any]) -> list[str]:
    """Return the data set or the files that a model card names; a run of several files joins them
    by a comma.

    >>> data_files({"data": {"name": "a.csv, b.csv"}}), data_files({"data": "cora"}), data_files({})
    (['a.csv', 'b.csv'], ['cora'], [])
    """
    data = card.get("data", "")
    names = str(data.get("name", "") if isinstance(data, Mapping) else data)
    return [name for name in names.split(", ") if name]


def _files(folder: Path) -> Iterator[str]:
    """Yield the files that the model card and the settings of a run name. Raises RunError or
    OSError if the card cannot be read.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    yield from data_files(read_json(folder / CARD))
    try:
        settings = tomlkit.parse((folder / "config.toml").read_text("utf-8")).unwrap()
    except (OSError, TOMLKitError, UnicodeDecodeError):
        return  # Without settings, no message contains a path of theirs.
    for key in FILES:
        value = settings.get(key, "")
        for text in map(str, value if isinstance(value, list) else [value]):
            yield from filter(None, (text, text.partition("=")[2]))
