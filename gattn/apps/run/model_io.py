"""Files of trained models: tensors are in ``weights.safetensors``, and all other values in
``model.json``.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gattn.apps.fitting.settings import check_fraction
from gattn.apps.run.model_files import CARD, WEIGHTS, RunError, check_model_files
from gattn.files import parse_json, replace_files

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FORMAT = 1
REMEDY = "copy the run again, or train the model again"
PACKAGES = ("gattn", "torch", "torch-geometric", "numpy")


def add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of tensors, with a prefix before each name.

    >>> import torch
    >>> add_prefix("gp.", {"y": torch.ones(1)})
    {'gp.y': tensor([1.])}
    """
    return {prefix + name: tensor.detach().clone() for name, tensor in tensors.items()}


def remove_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix; the prefix is removed from their names.

    >>> import torch
    >>> remove_prefix("gp.", {"gp.y": torch.ones(1), "weights": torch.ones(2)})
    {'y': tensor([1.])}
    """
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def write_model(
    folder: str | os.PathLike[str], tensors: Mapping[str, Tensor], card: Mapping[str, Json],
    files: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Write a model to a folder: its tensors, and a JSON file (the card) with all other values.

    Both files are first written under temporary names and then renamed. If the disk is full, the
    existing files in the folder are therefore unchanged.

    Args:
        folder: the folder, which is created if it is missing.
        tensors: the tensors by name, of any dtypes and shapes.
        card: all other values, as JSON values; NaN becomes null. The keys ``format``,
            ``versions``, ``files`` and ``sha256`` are added, which :func:`read_model` checks.
        files: the SHA-256 of other files of the folder, by name, for :func:`check_files`.

    Raises:
        ValueError: the card contains a value that JSON does not support, or one of the added keys.
        OSError: the folder cannot be written.

    Example:
        >>> import tempfile, torch
        >>> folder = tempfile.mkdtemp()
        >>> write_model(folder, {"weight": torch.ones(2)}, {"unit": "log mol/L"})
        >>> tensors, card = read_model(folder)
        >>> tensors["weight"], card["unit"]
        (tensor([1., 1.]), 'log mol/L')
    """
    reserved = {"format", "versions", "files", "sha256"} & set(card)
    if reserved:
        raise ValueError(
            f"{', '.join(sorted(reserved))} must not be in the card, because they are added "
            "when it is written"
        )
    weights = save({name: _plain(tensor) for name, tensor in tensors.items()})
    versions: dict[str, Json] = {**package_versions()}
    full: dict[str, Json] = {
        **card,
        "format": FORMAT,
        "versions": versions,
        "files": {**(files or {})},
    }
    checked = {**full, "sha256": {"weights": _sha256(weights), "card": _card_hash(full)}}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    replace_files({folder / WEIGHTS: weights, folder / CARD: _json(checked)})


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a model depends on."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **versions}


def read_model(folder: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Json]]:
    """Read a model that :func:`write_model` wrote. No code in the files is executed.

    Args:
        folder: the folder with ``weights.safetensors`` and ``model.json``.

    Returns:
        The tensors by name, on the CPU, and the card.

    Raises:
        RunError: a file is missing, truncated, changed since it was written, or written by a newer
            version of gattn.
    """
    folder = Path(folder)
    card = read_card(folder)
    weights = (folder / WEIGHTS).read_bytes()
    if _sha256(weights) != card["sha256"].get("weights"):
        raise RunError(
            f"{folder / WEIGHTS} is damaged, or belongs to another model: its checksum is not the "
            f"one in {CARD}; {REMEDY}"
        )
    try:
        return load(weights), card
    except SafetensorError as error:
        raise RunError(f"{folder / WEIGHTS} is damaged ({error}): {REMEDY}") from None


def read_card(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the card of a model that :func:`write_model` wrote, without its tensors.

    Raises:
        RunError: a file is missing, or the card was changed or written by a newer version of gattn.
    """
    folder = Path(folder)
    check_model_files(folder)
    card = read_json(folder / CARD, remedy=REMEDY)
    if not isinstance(card.get("sha256"), dict):
        raise RunError(f"{folder / CARD} is not the file of a model: {REMEDY}")
    if card.get("format") != FORMAT:
        raise RunError(
            f"{folder / CARD} has format {card.get('format')!r}; this version of gattn "
            f"reads format {FORMAT}"
        )
    hashes = card.pop("sha256")
    if _card_hash(card) != hashes.get("card"):
        raise RunError(f"{folder / CARD} was changed after it was written: {REMEDY}")
    return {**card, "sha256": hashes}


def coverage_of(card: Mapping[str, Any], coverage: float | None = None) -> float:
    """Return the coverage of intervals or sets, which is by default that of the training.

    Args:
        card: the model card.
        coverage: the coverage that the user passed; None for that of the training, or 0.9 for a
            model that a program saved.

    Raises:
        ValueError: the coverage is not above 0 and below 1.
    """
    chosen = float(card.get("coverage", 0.9)) if coverage is None else coverage
    check_fraction("coverage", chosen)
    return chosen


def check_files(folder: str | os.PathLike[str], *names: str) -> None:
    """Check that files in the folder of a model are those that its training wrote.

    Args:
        folder: the folder.
        *names: the files.

    Raises:
        RunError: a file or the card was changed, or the training did not write the file.
        FileNotFoundError: a file does not exist.
    """
    hashes = read_card(folder).get("files", {})
    for path in (Path(folder, name) for name in names):
        if _sha256(path.read_bytes()) != hashes.get(path.relative_to(folder).as_posix()):
            raise RunError(f"{path} was changed after the training wrote it: {REMEDY}")


def read_json(
    path: str | os.PathLike[str], *required: str, remedy: str = "remove it"
) -> dict[str, Any]:
    """Read a JSON object from a file that :func:`write_json` wrote.

    Args:
        path: the file.
        *required: keys that the object must have.
        remedy: advice at the end of an error message.

    Raises:
        RunError: the file is not JSON, is not an object, or lacks a required key.
        FileNotFoundError: the file does not exist.
    """
    try:
        content = Path(path).read_bytes()
        table = parse_json(content)
    except (ValueError, RecursionError) as error:
        reason = error if content.strip() else "it is empty"
        raise RunError(f"{path} is damaged ({reason}): {remedy}") from None
    if not isinstance(table, dict):
        raise RunError(f"{path} is damaged (it contains no table): {remedy}")
    for key in required:
        if key not in table:
            raise RunError(f"{path} is damaged (it has no {key!r}): {remedy}")
    return table


def write_json(path: str | os.PathLike[str], value: Mapping[str, Json]) -> None:
    """Write a JSON file that conforms to the standard: NaN and infinity become null.

    Args:
        path: the file, which is replaced atomically.
        value: the object to write.

    Raises:
        ValueError: the object contains a value that JSON does not support.
        OSError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "metrics.json")
        >>> write_json(path, {"test": {"rmse": 0.5, "r2": float("nan")}})
        >>> json.loads(path.read_text())
        {'test': {'rmse': 0.5, 'r2': None}}
    """
    replace_files({Path(path): _json(value)})


def _json(value: Mapping[str, Json]) -> bytes:
    """Return a value as JSON text in UTF-8; numbers that are not finite become null. Raises
    ValueError for a value that JSON does not have.
    """
    try:
        text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise ValueError(f"the value cannot be written as JSON: {error}") from None
    return f"{text}\n".encode()


def _finite(value: object) -> object:
    """Return a value in which None replaces every NaN and infinity, as JSON requires."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _plain(tensor: Tensor) -> Tensor:
    """Copy a tensor to contiguous memory on the CPU, as safetensors requires."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def _card_hash(card: Mapping[str, Json]) -> str:
    return _sha256(_json(dict(sorted(card.items()))))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
