"""Types of the training loop: settings, batches and history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, TypeAlias

from msgspec import Meta
from torch import Tensor

from gattn.apps.fitting.settings import TrainingSettings, document

Input: TypeAlias = Any
"""Type of the inputs of a network: a tensor, or a group of tensors such as PyG's ``Data``, whose
method ``to`` moves all of its tensors to a device.
"""
Loss = Callable[[Tensor, Tensor], Tensor]


class TrainingError(RuntimeError):
    """Raised if training cannot start, continue or be resumed; the message contains the reason."""


class Batches(Protocol):
    """Interface of a part of the data from which batches are built."""

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def batch(self, positions: Tensor) -> tuple[Input, Tensor, Tensor | None]:
        """Combine the items at these positions into a batch.

        Args:
            positions: [b] int64, the indices of the items, counted from 0.

        Returns:
            The input of the network, a tensor or PyG data; the targets [g, t], which are NaN if
            the loss should ignore them; and factors [g, t] or [g, 1] of the losses, None if all
            are 1.
        """
        ...


@document
@dataclass(frozen=True, kw_only=True)
class LoopSettings(TrainingSettings):
    """All settings of the training loop.

    Attributes:
        {settings}

    Raises:
        ValueError: a setting is out of its range; the message contains its name.
    """

    warmup: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Share of all steps in which the learning rate rises. Afterwards it falls along a cosine
    (one-cycle schedule; Smith and Topin, 2019).
    """
    gradient_clip: Annotated[float, Meta(ge=0)] = 5.0
    """Maximum norm of the gradient; larger gradients are scaled down to it. 0 switches this off.
    """
    average: Annotated[float, Meta(ge=0, lt=1)] = 0.99
    """Decay of the moving average of the weights; 0 uses the weights without averaging."""
    patience: Annotated[int, Meta(ge=1)] = 30
    """Number of epochs without a lower validation loss after which training stops."""
    validation_batches: Annotated[int, Meta(ge=1)] = 4
    """Number of training batches that are one validation batch, which stores no gradients."""
    recorded_outputs: Annotated[int, Meta(ge=0)] = 0
    """Record the outputs on the validation part after each epoch if it has at most this number of
    examples; 0 records no outputs. See :attr:`History.outputs`.
    """

    @property
    def validation_batch_size(self) -> int:
        """Number of items in a validation batch."""
        return self.validation_batches * self.batch_size


@dataclass(frozen=True)
class EpochRecord:
    """Record of an epoch, with losses that are means over the labels.

    Attributes:
        epoch: number of the epoch, counted from 0.
        train_loss: training loss with dropout, with the weights at each step.
        validation_loss: validation loss with the averaged weights at the end of the epoch; NaN
            without a validation part.
        learning_rate: learning rate at the end of the epoch.
        seconds: duration of the epoch, including validation.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    learning_rate: float
    seconds: float

    def __str__(self) -> str:
        """Return the number of the epoch, from 1, and the validation loss as text."""
        return f"epoch {self.epoch + 1}, validation loss {self.validation_loss:.4g}"


@dataclass(frozen=True)
class History:
    """Records of all training epochs, and the epoch with the lowest validation loss.

    Attributes:
        records: the record of each epoch.
        chosen: the epoch whose weights the network has after training.
        outputs: [epochs, n, t], the outputs for the n validation items with the averaged weights
            after each epoch; None if the validation part is empty or larger than
            ``LoopSettings.recorded_outputs``.
    """

    records: tuple[EpochRecord, ...]
    chosen: int
    outputs: Tensor | None = field(default=None, compare=False)

    @property
    def validation_losses(self) -> list[float]:
        """Validation loss of each epoch."""
        return [record.validation_loss for record in self.records]
