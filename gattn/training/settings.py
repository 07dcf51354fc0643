"""Settings: frozen dataclasses that are written as TOML and read back, checked key by key."""

from __future__ import annotations

import dataclasses
import os
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import tomlkit
from tomlkit.exceptions import TOMLKitError

from gattn.files import replace_files

__all__ = [
    "SettingsError",
    "from_table",
    "overridden",
    "read_toml",
    "settings_of",
    "to_table",
    "write_toml",
]

S = TypeVar("S")


class SettingsError(ValueError):
    """A setting is unknown or of the wrong kind; the message names it."""


def read_toml(kind: type[S], path: str | os.PathLike[str]) -> S:
    """Read settings from a file that a person or :func:`write_toml` wrote.

    Args:
        kind: the dataclass.
        path: a TOML file.

    Returns:
        The settings; a key that is not in the file has its default.

    Raises:
        SettingsError: the file is no TOML, or one of its keys is unknown, missing or of the wrong
            kind.
        FileNotFoundError: no such file.
    """
    try:
        table = tomlkit.parse(Path(path).read_text("utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    try:
        return from_table(kind, table)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def write_toml(path: str | os.PathLike[str], settings: object) -> None:
    """Write settings for :func:`read_toml`, one table for each dataclass within.

    Args:
        path: the file, replaced at once or not at all.
        settings: a dataclass of numbers, texts, bools, tuples of them, and such dataclasses. A
            setting that is None is left out, so None must be its default.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> import tempfile
        >>> @dataclasses.dataclass(frozen=True)
        ... class Loop:
        ...     epochs: int = 60
        ...     split: str | None = None
        >>> path = Path(tempfile.mkdtemp()) / "config.toml"
        >>> write_toml(path, Loop(epochs=5))
        >>> print(path.read_text(), end="")
        epochs = 5
        >>> read_toml(Loop, path)
        Loop(epochs=5, split=None)
        >>> from_table(Loop, {"epochs": "many"})
        Traceback (most recent call last):
        gattn.training.settings.SettingsError: epochs must be a whole number; got 'many'
    """
    replace_files({Path(path): tomlkit.dumps(to_table(settings)).encode()})


def to_table(settings: object) -> dict[str, object]:
    """Give the settings of a dataclass as TOML has them: tables, lists, no None.

    Args:
        settings: the dataclass.

    Returns:
        Key by key, in the order of the fields.
    """
    if not dataclasses.is_dataclass(settings):
        raise TypeError(f"settings must be a dataclass; got {settings!r}")
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    plain = {key: _to_toml(value) for key, value in values.items() if value is not None}
    # A table's keys come after those of the table that it is in.
    return dict(sorted(plain.items(), key=lambda item: isinstance(item[1], dict)))


def from_table(kind: type[S], table: Mapping[str, object], *, within: str = "") -> S:
    """Make settings of a table, and say of a wrong key what was wanted and what came.

    Args:
        kind: the dataclass.
        table: key by key; one that is not there has its default.
        within: the name of the table, which errors begin with.

    Returns:
        The settings.

    Raises:
        SettingsError: a key is unknown, missing or of the wrong kind.
    """
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise TypeError(f"settings must be a dataclass; got {kind!r}")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    for key in table:
        if key not in fields:
            raise SettingsError(f"there is no setting {within}{key}; there are {', '.join(fields)}")
    hints = typing.get_type_hints(kind)
    values: dict[str, object] = {}
    for name, field in fields.items():
        if name in table:
            values[name] = _from_toml(hints[name], table[name], within + name)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise SettingsError(f"{within}{name} is missing")
    return kind(**values)


def _to_toml(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return to_table(value)
    if isinstance(value, (tuple, list)):
        return [_to_toml(item) for item in value]
    return str(value) if isinstance(value, os.PathLike) else value


def overridden(before: S, given: Mapping[str, object]) -> S:
    """Exchange some settings of a run, and of the model in it, by their names.

    Args:
        before: a dataclass whose field ``model`` is another, which may have a field ``model``: that
            is what the name means.
        given: settings of either, by name.

    Returns:
        The settings, checked anew.

    Raises:
        ValueError: a setting that there is not, or that is out of its range.
    """
    if not dataclasses.is_dataclass(before) or isinstance(before, type):
        raise TypeError(f"settings must be a dataclass; got {before!r}")
    of_model = {setting.name for setting in dataclasses.fields(before.model)}  # pyright: ignore[reportAttributeAccessIssue]
    inner = {name: value for name, value in given.items() if name in of_model}
    outer = {name: value for name, value in given.items() if name not in inner}
    unknown = outer.keys() - {setting.name for setting in dataclasses.fields(before)}
    if unknown:
        raise SettingsError(f"there is no setting {', '.join(sorted(unknown))}")
    model = dataclasses.replace(before.model, **inner)  # pyright: ignore[reportAttributeAccessIssue]
    return dataclasses.replace(before, **outer, model=model)


def settings_of(kind: type[S], holder: object) -> S:
    """Take settings from the attributes of an estimator that have their names.

    NumPy's numbers, as a grid search sets them, become Python's.

    Args:
        kind: a dataclass.
        holder: has an attribute for each of its fields.

    Returns:
        The settings.

    Raises:
        ValueError: a value out of its range.
    """
    values = {field.name: getattr(holder, field.name) for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    return kind(**{k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()})


def _from_toml(hint: object, value: object, key: str) -> object:
    """The value as its type has it: checked, and no bool taken for a number."""
    kind, inner = typing.get_origin(hint), typing.get_args(hint)
    if kind in (typing.Union, types.UnionType):
        (hint,) = [one for one in inner if one is not type(None)]  # there is no None in TOML
        return _from_toml(hint, value, key)
    if kind is typing.Literal:
        if value in inner and type(value) is type(inner[inner.index(value)]):
            return value
        raise SettingsError(f"{key} must be one of {', '.join(map(repr, inner))}; got {value!r}")
    if kind is tuple:
        if not isinstance(value, (list, tuple)):
            raise SettingsError(f"{key} must be a list; got {value!r}")
        kinds = inner[:1] * len(value) if inner[1:] == (...,) else inner
        if len(kinds) != len(value):
            raise SettingsError(f"{key} must hold {len(kinds)} values; got {value!r}")
        return tuple(_from_toml(k, v, f"{key}[{i}]") for i, (k, v) in enumerate(zip(kinds, value)))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{key} must be a table; got {value!r}")
        return from_table(hint, value, within=f"{key}.")
    return _scalar(hint, value, key)


SCALARS: dict[object, tuple[type | tuple[type, ...], str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a text"),
    Path: ((str, Path), "a path"),
}


def _scalar(hint: object, value: object, key: str) -> object:
    if hint not in SCALARS:
        raise TypeError(f"{key} is a {hint}, which settings cannot hold")
    wanted, told = SCALARS[hint]
    if not isinstance(value, wanted) or (isinstance(value, bool) and hint is not bool):
        raise SettingsError(f"{key} must be {told}; got {value!r}")
    return hint(value) if callable(hint) else value
