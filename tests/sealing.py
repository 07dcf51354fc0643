"""Changes to the files of a run, with checksums as if the training had written them."""

import hashlib
from pathlib import Path

from gattn.apps.run.model_io import Json, read_card, read_model, write_model

ADDED = {"format", "versions", "files", "sha256"}


def seal(folder: Path, **changes: Json) -> None:
    """Write the card of a run again, with other values and with the checksums of its files."""
    tensors, card = read_model(folder)[0], read_card(folder)
    files = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in card["files"]
        if (folder / name).exists()
    }
    values = {key: value for key, value in card.items() if key not in ADDED}
    write_model(folder, tensors, values | changes, files)
