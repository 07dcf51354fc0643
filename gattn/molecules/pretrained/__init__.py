"""Trained models that are part of gattn, such as ``bbb``, the blood-brain barrier.

A model is a folder with the two files of a trained model (``model.json`` and
``weights.safetensors``) and ``card.md``, which states its data, its measured errors and its limits.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["FILES", "folder_of", "names", "resolve"]

FILES = ("model.json", "weights.safetensors")
"""Names of the files of a trained model."""
ROOT = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the models that are part of gattn, sorted."""
    return sorted(path.parent.name for path in ROOT.glob(f"*/{FILES[0]}"))


def folder_of(name: str) -> Path:
    """Return the folder of a model by its name; it may not exist."""
    return ROOT / name


def resolve(run: Path) -> Path:
    """Return the folder of a trained model: ``run``, or the model of gattn with this name.

    A folder of this name in the current directory takes precedence.

    >>> resolve(Path("runs/mine")).as_posix()
    'runs/mine'
    """
    if run.exists() or run.name != str(run) or run.name not in names():
        return run
    return folder_of(run.name)
