"""A bar over all steps, with the time left."""

from __future__ import annotations

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from tqdm.auto import tqdm

from gattn.training.bars import pause

__all__ = ["StepBar"]


class StepBar(Callback):
    """Shows the epoch, the time left and the last validation loss, on stderr.

    Args:
        title: what is trained.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: tqdm | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Open the bar, further on where an interrupted training is resumed."""
        if trainer.is_global_zero:
            self.bar = tqdm(
                total=int(trainer.estimated_stepping_batches),
                initial=trainer.global_step,
                unit="step",
                mininterval=pause(),
            )

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Name the epoch."""
        if self.bar is not None:
            epoch = f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}"
            self.bar.set_description(f"{self.title}, {epoch}", refresh=False)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Move on by one step."""
        if self.bar is not None:
            self.bar.update()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the loss of the validation part."""
        if self.bar is not None and "validation_loss" in trainer.callback_metrics:
            loss = float(trainer.callback_metrics["validation_loss"])
            self.bar.set_postfix(validation_loss=f"{loss:.4g}", refresh=False)

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
