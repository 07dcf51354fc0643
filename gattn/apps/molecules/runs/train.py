"""The command ``gattn molecules train``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.stages import MoleculeProduct
from gattn.apps.run import train as pipeline
from gattn.apps.run.product import Log, no_log


def train_run(
    settings: RunSettings, out: str | Path, *, progress: bool = False, log: Log = no_log
) -> dict[str, Any]:
    """Train a model and write all results to a folder; this is the command ``gattn molecules
    train``.

    The folder contains ``config.toml``, ``splits.json``, ``weights.safetensors`` and ``model.json``
    (which :meth:`gattn.apps.molecules.MoleculeRegressor.load` reads), ``metrics.json``,
    ``predictions.csv`` of the validation and test parts, ``left_out.csv``, ``plots`` and
    ``report.html``. If it contains an unfinished run with the same settings, training continues
    from the last checkpoint; if it contains the finished run, nothing is done.

    Args:
        settings: settings of the run.
        out: folder of the run, created if it is missing.
        progress: show a bar with the time left.
        log: called with each line that the user should read.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder contains another run, or other files.
        ValueError: a model cannot be trained with these settings or on these data.
        OSError: a file cannot be read or written; the last checkpoint is not deleted.
    """
    return pipeline.train_run(MoleculeProduct(settings, out, log, progress=progress))
