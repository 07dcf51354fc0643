"""Registry of the data sets that gattn can load, read from ``datasets/registry.toml``."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class DataFile:
    """One raw file: its name, its length in bytes and its SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ReportedScore:
    """Published result of a model on a data set, with the evaluation protocol and the source."""

    model: str
    value: float
    protocol: str
    source: str


@dataclass(frozen=True)
class DatasetRecord:
    """Record of one data set in the registry: its files, task, columns and published results.

    ``folder`` is the path of the raw files, relative to the data root or, if ``package`` is not
    empty, to this installed package. ``url`` is the address to which each file's name is appended
    for a download; it is empty if there is nothing to download. ``smiles`` and ``targets`` are
    column names.
    """

    name: str
    title: str
    kind: str
    task: str
    metric: str
    protocol: str
    licence: str
    source: str
    folder: str
    files: tuple[DataFile, ...]
    url: str = ""
    package: str = ""
    smiles: str = ""
    targets: tuple[str, ...] = ()
    scores: tuple[ReportedScore, ...] = ()


def dataset_names() -> tuple[str, ...]:
    """Return the names of all registered data sets, in the registry's order. The registry is read
    at the first call; raises FileNotFoundError if it is missing.

    Returns:
        The names; never empty.

    >>> dataset_names()[:3]
    ('cora', 'citeseer', 'pubmed')
    """
    return tuple(_registry())


def get_dataset(name: str) -> DatasetRecord:
    """Look up one data set by its name, in upper or lower case.

    Args:
        name: for example ``"cora"`` or ``"ESOL"``.

    Returns:
        The record.

    Raises:
        ValueError: there is no such data set; the message lists all names.
        FileNotFoundError: the registry is missing.

    >>> get_dataset("ESOL").metric
    'RMSE'
    """
    record = _registry().get(name.lower()) if isinstance(name, str) else None
    if record is None:
        raise ValueError(f"no data set named {name!r}; there are: {', '.join(dataset_names())}")
    return record


@functools.cache
def _registry() -> dict[str, DatasetRecord]:
    tables = tomllib.loads(_registry_text())
    return {name: _record(name, table) for name, table in tables.items()}


def _registry_text() -> str:
    """Read ``registry.toml`` from the installed package; if it is not there, read it from the
    source tree. Raises FileNotFoundError if it is in neither.
    """
    packaged = resources.files("gattn.data.datasets").joinpath("registry.toml")
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    source_tree = Path(__file__).resolve().parents[3] / "datasets" / "registry.toml"
    if source_tree.is_file():
        return source_tree.read_text(encoding="utf-8")
    raise FileNotFoundError(
        f"the data set registry is in neither {packaged} nor {source_tree}: reinstall gattn"
    )


def _record(name: str, table: dict[str, Any]) -> DatasetRecord:
    """Convert an entry of the registry to a record. Raises ValueError for an unknown field, and
    TypeError (KeyError for ``files``) for a missing one.
    """
    table = dict(table, name=name)
    unknown = set(table) - {field.name for field in fields(DatasetRecord)}
    if unknown:
        raise ValueError(f"registry entry {name!r} has unknown fields: {sorted(unknown)}")
    table["files"] = tuple(DataFile(**entry) for entry in table["files"])
    table["scores"] = tuple(ReportedScore(**entry) for entry in table.get("scores", ()))
    table["targets"] = tuple(table.get("targets", ()))
    return DatasetRecord(**table)
