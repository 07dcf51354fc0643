"""Names of the files of a trained model, and a check that a folder has them. PyTorch is not
imported.
"""

from __future__ import annotations

from pathlib import Path

WEIGHTS, CARD = "weights.safetensors", "model.json"


class RunError(ValueError):
    """Raised if a folder contains no readable model or run; the message contains the reason."""


def check_model_files(folder: Path) -> None:
    """Check that a folder contains the files of a trained model.

    Raises:
        RunError: the folder or a file is missing, or the folder is a file.
    """
    if not folder.exists():
        raise RunError(f"{folder} does not exist; expected the folder of a trained model")
    if folder.is_file():
        raise RunError(
            f"{folder} is a file, not the folder of a trained model, which comes before the tables"
        )
    for name in (CARD, WEIGHTS):
        if not (folder / name).is_file():
            runs = sorted(path.parent for path in folder.glob(f"*/{CARD}"))
            advice = "if its training was interrupted, run the same train command again"
            if runs:
                advice = (
                    f"it contains several runs: name one of them, such as {runs[0]}, or train a "
                    "single run, without --folds and --replicates"
                )
            raise RunError(f"{folder} does not contain a trained model: it has no {name}; {advice}")
