"""Checkpoints of training, which are written atomically and read without executing code."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from gattn.apps.fitting.types import TrainingError
from gattn.files import replace_files

DIGEST = hashlib.sha256().digest_size


def save_checkpoint(
    path: str | os.PathLike[str], checkpoint: dict[str, Any], *, check: bool = True
) -> None:
    """Write a checkpoint in torch's format, after its SHA-256; an existing file is replaced.

    Args:
        path: the file.
        checkpoint: dicts, lists and tuples of tensors, numbers, strings and None.
        check: whether to search for objects of other classes, which takes as long as writing. It
            can be False for a checkpoint with the same classes as an earlier one that was checked.

    Raises:
        TypeError: the checkpoint contains an object of another class; nothing is written.
        OSError: the file cannot be written; an existing file is unchanged.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "checkpoint.pt"
        >>> save_checkpoint(path, {"epoch": 3, "weight": torch.ones(2)})
        >>> load_checkpoint(path)
        {'epoch': 3, 'weight': tensor([1., 1.])}
    """
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    buffer.seek(0)
    if check and (unsafe := get_unsafe_globals_in_checkpoint(buffer)):
        raise TypeError(f"a checkpoint cannot contain {', '.join(sorted(unsafe))}")
    archive = buffer.getvalue()
    replace_files({Path(path): hashlib.sha256(archive).digest() + archive})


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Load a checkpoint to the CPU.

    Args:
        path: the file.

    Returns:
        The dict that :func:`save_checkpoint` wrote.

    Raises:
        TrainingError: the file is truncated or changed, or is not a checkpoint.
        FileNotFoundError: the file does not exist.
    """
    content = Path(path).read_bytes()
    digest, archive = content[:DIGEST], content[DIGEST:]
    if hashlib.sha256(archive).digest() != digest:
        raise TrainingError(_damaged(path, "its checksum is wrong"))
    try:
        checkpoint = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, LookupError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise TrainingError(_damaged(path, reason)) from None
    if not isinstance(checkpoint, dict):
        raise TrainingError(
            _damaged(path, f"it contains a {type(checkpoint).__name__}, not a dict")
        )
    return checkpoint


def _damaged(path: str | os.PathLike[str], reason: str) -> str:
    return f"the checkpoint {path} is damaged ({reason}): remove it to start the training again"
