"""Trained models that are distributed with gattn, such as ``bbb`` for the blood-brain barrier, and
pretrained encoders.

A model is a folder with the two files of a trained model (``model.json`` and
``weights.safetensors``) and ``card.md``, which states its data, its measured errors and its limits.
"""

from __future__ import annotations

from pathlib import Path

from gattn.apps.run.model_files import CARD, WEIGHTS

FILES = (CARD, WEIGHTS)
"""Names of the files of a trained model."""
ROOT = Path(__file__).parent
ENCODERS = ROOT / "encoders"


def names(root: Path = ROOT) -> list[str]:
    """Return the sorted names of the models that are distributed with gattn."""
    return sorted(path.parent.name for path in root.glob(f"*/{CARD}"))


def folder_of(name: str) -> Path:
    """Return the folder of the model with this name; the folder may not exist."""
    return ROOT / name


def is_distributed(folder: Path) -> bool:
    """Return True if a folder is that of a model that is distributed with gattn.

    >>> is_distributed(folder_of("bbb")), is_distributed(Path("runs/mine"))
    (True, False)
    """
    return folder.resolve().parent == ROOT.resolve()


def encoder_names() -> list[str]:
    """Return the sorted names of the pretrained encoders that are distributed with gattn."""
    return names(ENCODERS)


def encoder_folder(name: str) -> Path:
    """Return the folder of the encoder with this name; the folder may not exist."""
    return ENCODERS / name


def resolve(run: Path) -> Path:
    """Return the folder of a trained model. The argument is the path of a run, or the name of a
    model that is distributed with gattn.

    A folder of this name in the current directory takes precedence.

    >>> resolve(Path("runs/mine")).as_posix()
    'runs/mine'
    """
    if run.exists() or run.name != str(run) or run.name not in names():
        return run
    return folder_of(run.name)
