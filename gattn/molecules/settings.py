"""What a model of molecules is made of and trained by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gattn.training.checks import check_choice, check_count, check_network, check_seed
from gattn.training.types import Accelerator, LoopSettings, Precision

__all__ = ["ClassWeight", "ModelName", "MoleculeSettings", "Task"]

Task = Literal["regression", "classification"]
ModelName = Literal["stacked", "attention", "attentive_fp", "ridge"]
ClassWeight = Literal["none", "balanced"]


@dataclass(frozen=True)
class MoleculeSettings:
    """The settings of :class:`gattn.molecules.predictor.MoleculePredictor`.

    Attributes:
        model: ``"stacked"`` is the attention network and the kernel ridge side by side, weighted
            by how well each does on the validation part; the other names are one part alone.
        ensemble: how many networks are trained from different seeds and averaged.
        epochs: passes over the training part.
        batch_size: molecules a step.
        learning_rate: the highest, which is reached after a tenth of all steps.
        weight_decay: of AdamW.
        width: features of an atom inside the network; divisible by ``heads``.
        layers: attention layers over bonds.
        heads: attention heads of each layer.
        dropout: probability of dropping a feature in training.
        class_weight: ``"balanced"`` weights each class of each target by the inverse of its
            frequency in the training part.
        kernel_rows: the most training molecules that the kernel ridge reads: its memory grows with
            their square. Where there are more it reads so many of them, drawn by ``seed``.
        seed: of the initial weights, the order of the molecules, and dropout.
        max_atoms: molecules with more atoms are refused.
        accelerator: what the networks train on: ``"cpu"``, ``"gpu"`` or ``"auto"``.
        devices: how many of them.
        precision: of the networks' training: ``"32"``, ``"bf16-mixed"``, ``"16-mixed"``, or
            ``"64"``, in which several processes end with the metrics of one.

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Example:
        >>> MoleculeSettings(ensemble=5).model
        'stacked'
        >>> MoleculeSettings(epochs=0)
        Traceback (most recent call last):
            ...
        ValueError: epochs must be a whole number, at least 1; got 0
    """

    model: ModelName = "stacked"
    ensemble: int = 1
    epochs: int = LoopSettings.epochs
    batch_size: int = LoopSettings.batch_size
    learning_rate: float = LoopSettings.learning_rate
    weight_decay: float = LoopSettings.weight_decay
    width: int = 128
    layers: int = 4
    heads: int = 8
    dropout: float = 0.0
    class_weight: ClassWeight = "none"
    kernel_rows: int = 3000
    seed: int = LoopSettings.seed
    max_atoms: int = 1000
    accelerator: Accelerator = LoopSettings.accelerator
    devices: int = LoopSettings.devices
    precision: Precision = LoopSettings.precision

    def __post_init__(self) -> None:
        check_choice("model", self.model, get_args(ModelName))
        check_choice("class_weight", self.class_weight, get_args(ClassWeight))
        check_choice("accelerator", self.accelerator, get_args(Accelerator))
        check_choice("precision", self.precision, get_args(Precision))
        for name in _COUNTS:
            check_count(name, getattr(self, name), 1)
        check_seed(self.seed)
        check_network(self)


_COUNTS = (
    *("ensemble", "epochs", "batch_size", "width", "layers", "heads"),
    *("kernel_rows", "max_atoms", "devices"),
)
