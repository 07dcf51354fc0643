"""What the loop is given and what it gives back: settings, batches, a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from torch import Tensor
from torch_geometric.data.data import BaseData

from gattn.training.checks import check_share

__all__ = [
    "Accelerator",
    "Batches",
    "EpochRecord",
    "History",
    "Input",
    "LoopSettings",
    "Loss",
    "Precision",
    "TrainingError",
]

Input: TypeAlias = "Tensor | BaseData"
Accelerator: TypeAlias = Literal["auto", "cpu", "gpu"]
Precision: TypeAlias = Literal["32", "64", "bf16-mixed", "16-mixed"]
Loss = Callable[[Tensor, Tensor], Tensor]


class TrainingError(RuntimeError):
    """Training cannot begin, go on or be resumed; the message says why."""


class Batches(Protocol):
    """A part of the data, from which batches are taken: molecules, or one graph of many nodes."""

    def __len__(self) -> int:
        """Count the items."""
        ...

    def batch(self, positions: Tensor) -> tuple[Input, Tensor]:
        """Join some items.

        Args:
            positions: [b] int64, from 0.

        Returns:
            What the network is called with, a tensor or PyG data, and the targets [g, t], NaN
            where the loss is to leave a gap.
        """
        ...


@dataclass(frozen=True)
class LoopSettings:
    """How a network is trained.

    Attributes:
        epochs: at most so many passes over the training part.
        batch_size: items a step, over all processes together.
        learning_rate: the highest, which the schedule reaches after ``warmup`` and leaves along
            a cosine (one cycle; Smith and Topin, 2019).
        weight_decay: of AdamW.
        warmup: the share of all steps in which the learning rate rises, in (0, 1).
        gradient_clip: the largest norm of the gradient; 0 leaves it as it is.
        average: the decay of the running mean of the weights; 0 keeps the weights themselves.
        patience: stop after so many epochs without a lower validation loss.
        seed: of the shuffling and of dropout.
        precision: of the computation: ``"32"``, ``"bf16-mixed"``, ``"16-mixed"``, or ``"64"``, in
            which several processes end with the metrics of one after any number of steps.
        accelerator: ``"cpu"``, ``"gpu"`` or ``"auto"``.
        devices: processes; more than one must have been started by torchrun.
        recorded_outputs: record the outputs for the validation part after each epoch if it has at
            most this many items; 0 records none. See :attr:`History.outputs`.

    Raises:
        ValueError: a value out of its range; the message names it.
    """

    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    warmup: float = 0.1
    gradient_clip: float = 5.0
    average: float = 0.99
    patience: int = 30
    seed: int = 0
    precision: Precision = "32"
    accelerator: Accelerator = "cpu"
    devices: int = 1
    recorded_outputs: int = 0

    @property
    def validation_batch_size(self) -> int:
        """Items a batch in validation, which needs no memory for a backward."""
        return 4 * self.batch_size

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "devices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
        for name in ("weight_decay", "gradient_clip", "seed", "recorded_outputs"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0; got {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0; got {self.learning_rate}")
        check_share("warmup", self.warmup)
        if not 0 <= self.average < 1:
            raise ValueError(f"average must be at least 0 and below 1; got {self.average}")
        if self.precision == "16-mixed" and self.accelerator == "cpu":
            raise ValueError("precision 16-mixed is a GPU's; a CPU has bf16-mixed")


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: the losses are means over known labels; that of validation is of averaged weights.

    Attributes:
        epoch: from 0.
        train_loss: of the weights as they were when each batch came, with dropout.
        validation_loss: at the end of the epoch; NaN without a validation part.
        learning_rate: at the end of the epoch.
        seconds: what the epoch took, validation included.
    """

    epoch: int
    train_loss: float
    validation_loss: float
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History:
    """The record of every epoch, and the epoch of the lowest validation loss.

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
