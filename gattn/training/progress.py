"""A bar over all epochs, with the time left."""

from __future__ import annotations

import sys

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from tqdm.auto import tqdm

__all__ = ["EpochBar"]


class EpochBar(Callback):
    """Shows the epochs done, the time left and the last validation loss, on stderr."""

    def __init__(self) -> None:
        self.bar: tqdm | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the bar where an interrupted training goes on."""
        if trainer.is_global_zero:
            # Where nobody sees the bar move (a file, a log) a line now and then is enough.
            every = 0.1 if sys.stderr.isatty() else 10.0
            self.bar = tqdm(
                total=trainer.max_epochs,
                initial=trainer.current_epoch,
                desc="training",
                unit="epoch",
                mininterval=every,
            )

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Move on by one epoch."""
        if self.bar is not None:
            if "validation_loss" in trainer.callback_metrics:
                loss = float(trainer.callback_metrics["validation_loss"])
                self.bar.set_postfix(validation_loss=f"{loss:.4g}", refresh=False)
            self.bar.update()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the bar."""
        self._close()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Close the bar."""
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
