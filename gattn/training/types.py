"""Types of the training loop: its settings, batches and history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, TypeAlias

from msgspec import Meta
from torch import Tensor

from gattn.training.settings import TrainingSettings, document

__all__ = [
    "Batches",
    "EpochRecord",
    "History",
    "Input",
    "LoopSettings",
    "Loss",
    "TrainingError",
]

Input: TypeAlias = "Tensor | TensorGroup"
Loss = Callable[[Tensor, Tensor], Tensor]


class TrainingError(RuntimeError):
    """Training cannot begin, go on or be resumed; the message says why."""


class TensorGroup(Protocol):
    """Several tensors that are moved and converted together, such as PyG's ``Data``."""

    def to(self, device: Any, /) -> Any:
        """Return the tensors on a device."""
        ...

    def apply(self, func: Callable[[Any], Any], /) -> Any:
        """Return the results of a function of each tensor."""
        ...


class Batches(Protocol):
    """A part of the data that gives batches: molecules, or one graph of many nodes."""

    def __len__(self) -> int:
        """Count the items."""
        ...

    def batch(self, positions: Tensor) -> tuple[Input, Tensor]:
        """Join some items.

        Args:
            positions: [b] int64, from 0.

        Returns:
            The input of the network, a tensor or PyG data, and the targets [g, t], NaN
            where the loss ignores a target.
        """
        ...


@document
@dataclass(frozen=True, kw_only=True)
class LoopSettings(TrainingSettings):
    """All settings of the training loop.

    Attributes:
        {settings}

    Raises:
        ValueError: a value is out of its range; the message names it.
    """

    warmup: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Share of all steps in which the learning rate rises; it then falls along "
            "a cosine (one cycle; Smith and Topin, 2019).",
        ),
    ] = 0.1
    gradient_clip: Annotated[
        float, Meta(ge=0, description="Largest norm of the gradient; 0 does not clip.")
    ] = 5.0
    average: Annotated[
        float,
        Meta(
            ge=0, lt=1, description="Decay of the moving average of the weights; 0 averages none."
        ),
    ] = 0.99
    patience: Annotated[
        int, Meta(ge=1, description="Stop after this many epochs without a lower validation loss.")
    ] = 30
    recorded_outputs: Annotated[
        int,
        Meta(
            ge=0,
            description="Record the outputs for the validation part after each epoch if it has at "
            "most this many items; 0 records none. See :attr:`History.outputs`.",
        ),
    ] = 0

    @property
    def validation_batch_size(self) -> int:
        """Items in a validation batch, which needs no memory for gradients."""
        return 4 * self.batch_size


@dataclass(frozen=True)
class EpochRecord:
    """Record of an epoch. Losses are means over labels; validation uses the averaged weights.

    Attributes:
        epoch: from 0.
        train_loss: with the weights at each step, and with dropout.
        validation_loss: at the end of the epoch; NaN without a validation part.
        learning_rate: at the end of the epoch.
        seconds: duration of the epoch, with validation.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History:
    """Records of all epochs, and the epoch with the lowest validation loss.

    Attributes:
        records: one for each epoch.
        chosen: the epoch whose averaged weights the network has.
        outputs: [epochs, n, t], the outputs of the averaged weights for the n validation items
            after each epoch; None where the validation part is empty or larger than
            ``LoopSettings.recorded_outputs``.
    """

    records: tuple[EpochRecord, ...]
    chosen: int
    outputs: Tensor | None = field(default=None, compare=False)
