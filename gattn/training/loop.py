"""One loop for all models: shuffled batches, masked losses, averaged weights, the best epoch."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from gattn.training.types import (
    Batches,
    EpochRecord,
    History,
    LoopSettings,
    Loss,
    TrainingError,
)

__all__ = [
    "Batches",
    "EpochRecord",
    "History",
    "LoopSettings",
    "TrainingError",
    "fit_network",
]


def fit_network(
    network: nn.Module,
    loss: Loss,
    train: Batches,
    validate: Batches,
    settings: LoopSettings,
    *,
    folder: Path | None = None,
    progress: bool = False,
    title: str = "training",
) -> History:
    """Train a network in place, and leave it with the averaged weights of its best epoch.

    A step lowers the mean loss over the known labels of one batch, over all processes together:

        L = Σ_ij known_ij loss(network(x), y)_ij / Σ_ij known_ij

    An epoch's order and dropout are functions of the seed and the epoch's number. So a training
    that was interrupted, even killed, goes on from its last whole epoch when it is called again
    with the same folder, and ends with the same bits as one that was not.

    Args:
        network: called with a batch's input, gives [g, t]. It ends in eval mode; where training
            fails it is as it was.
        loss: of outputs and targets [g, t], element by element; it sees 0 where a target is NaN,
            and its value there is left out.
        train: the part to learn from; at least one item.
        validate: the part that chooses the epoch; if it is empty the last epoch is chosen.
        settings: how.
        folder: where ``checkpoint.safetensors`` is kept, made where it is missing; without one
            nothing is kept.
        progress: show a bar with the time left, on stderr.
        title: what the bar says of this training.

    Returns:
        The history, with that of before an interruption.

    Raises:
        TrainingError: the folder holds the checkpoint of another training or a broken one; no
            label is known; the loss is not finite.
        ImportError: Lightning is not installed.
        OSError: the checkpoint cannot be written; the last one is still there.
    """
    try:
        import lightning.pytorch  # noqa: F401
    except ImportError:
        raise ImportError('training needs Lightning: pip install "gattn[molecules]"') from None
    from gattn.training.engine import run_epochs

    return run_epochs(
        network, loss, train, validate, settings, folder=folder, title=title if progress else ""
    )
