"""Checkpoints in one safetensors file: tensors as they are, all else as JSON in its header."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from lightning.pytorch.plugins.io import CheckpointIO
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gattn.files import replace_files
from gattn.training.types import TrainingError

__all__ = ["SafeCheckpointIO"]

KEY = "checkpoint"


class SafeCheckpointIO(CheckpointIO):
    """Writes Lightning's checkpoints without pickle, each replaced at once or not at all."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, object],
        path: str | os.PathLike[str],
        storage_options: object = None,
    ) -> None:
        """Write a checkpoint.

        Args:
            checkpoint: dicts, lists and tuples of tensors, numbers, texts and None.
            path: the file.
            storage_options: none are known.

        Raises:
            TypeError: it holds something else; the message says where.
            OSError: it cannot be written; a file that was there is as it was.
        """
        if storage_options is not None:
            raise TypeError(f"there are no storage options; got {storage_options!r}")
        tensors: dict[str, Tensor] = {}
        tree = _encode(checkpoint, "", tensors)
        content = save(tensors, {KEY: json.dumps(tree, allow_nan=False)})
        replace_files({Path(path): content})

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: object = None,
        weights_only: bool | None = None,
    ) -> dict[str, object]:
        """Read a checkpoint onto the CPU.

        Args:
            path: the file.
            map_location: Lightning moves what it needs, so this is not read.
            weights_only: nothing is executed either way, so this is not read.

        Returns:
            What was saved.

        Raises:
            TrainingError: the file is truncated or was not written by this class.
        """
        try:
            with safe_open(path, "pt") as file:
                text = (file.metadata() or {}).get(KEY)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if text is None:
                raise ValueError("it holds tensors only")
            tree = _decode(json.loads(text), tensors)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise TrainingError(_damaged(path, error)) from None
        if not isinstance(tree, dict):
            raise TrainingError(_damaged(path, "it holds no table"))
        return tree

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove a checkpoint, if it is there."""
        Path(path).unlink(missing_ok=True)


def _damaged(path: str | os.PathLike[str], error: object) -> str:
    return f"the checkpoint {path} is damaged ({error}): remove it, and the training begins anew"


# JSON has texts for keys, no tuples, and neither NaN nor infinity. So containers are written as
# [kind, content], and so are tensors and such numbers.


def _encode(value: object, where: str, tensors: dict[str, Tensor]) -> object:
    if isinstance(value, Tensor):
        name = f"{len(tensors)}{where}"  # two places may have one path, as a/b does
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return ["tensor", name]
    if isinstance(value, dict):
        pairs = [[_key(k, where), _encode(v, f"{where}/{k}", tensors)] for k, v in value.items()]
        return ["dict", pairs]
    if isinstance(value, (list, tuple)):
        items = [_encode(item, f"{where}/{i}", tensors) for i, item in enumerate(value)]
        return ["tuple" if isinstance(value, tuple) else "list", items]
    if isinstance(value, float) and not math.isfinite(value):
        return ["float", str(value)]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"a checkpoint cannot hold {type(value).__name__}, found at {where}")


def _key(key: object, where: str) -> object:
    if type(key) not in (int, str):
        raise TypeError(f"keys of a checkpoint are whole numbers and texts; got {key!r} at {where}")
    return key


def _decode(tree: object, tensors: dict[str, Tensor]) -> object:
    if not isinstance(tree, list):
        return tree
    kind, content = tree
    if kind == "tensor":
        return tensors[content]
    if kind == "float":
        return float(content)
    if kind == "dict":
        return {key: _decode(value, tensors) for key, value in content}
    items = [_decode(item, tensors) for item in content]
    return tuple(items) if kind == "tuple" else items
