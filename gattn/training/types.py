"""Types of the training loop: its settings, batches and history."""

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


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the training loop.

    Attributes:
        epochs: maximum number of passes over the training part.
        batch_size: items in a step, over all processes together.
        learning_rate: peak of the schedule, reached after ``warmup`` and followed by a cosine
            (one cycle; Smith and Topin, 2019).
        weight_decay: weight decay of AdamW.
        warmup: share of all steps in which the learning rate rises, in (0, 1).
        gradient_clip: maximum norm of the gradient; 0 turns clipping off.
        average: decay of the running mean of the weights; 0 turns averaging off.
        patience: stop after this many epochs without a lower validation loss.
        seed: seed of shuffling and dropout.
        precision: ``"32"``, ``"bf16-mixed"``, ``"16-mixed"``, or ``"64"``, with which several
            processes have the metrics of one after any number of steps.
        accelerator: ``"cpu"``, ``"gpu"`` or ``"auto"``.
        devices: number of processes; torchrun must have started them if there are several.
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
