"""Settings of a model of molecules and of the estimators around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from gattn.training.settings import SettingsError, Threads, TrainingSettings, document

__all__ = [
    "ClassWeight",
    "LossFunction",
    "ModelName",
    "MoleculeParameters",
    "MoleculeSettings",
    "Task",
]

Task = Literal["regression", "classification"]
ModelName = Literal["stacked", "attention", "attentive_fp", "gp"]
ClassWeight = Literal["none", "balanced"]
LossFunction = Literal["mse", "mae", "bounded-mse", "bounded-mae"]


@document
@dataclass(frozen=True, kw_only=True)
class MoleculeSettings(TrainingSettings):
    """The settings of :class:`gattn.molecules.predictor.MoleculePredictor`.

    Attributes:
        {settings}

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Example:
        >>> MoleculeSettings(ensemble=5).model
        'stacked'
        >>> MoleculeSettings(epochs=0)
        Traceback (most recent call last):
            ...
        gattn.training.settings.SettingsError: epochs must be a whole number, at least 1; got 0
    """

    panel: ClassVar[str] = TrainingSettings.panel

    model: Annotated[
        ModelName,
        Meta(
            description="Model to train. attention and attentive_fp: graph networks; gp: an exact "
            "Gaussian process on fingerprints and descriptors, the fastest; stacked: a weighted "
            "mean of attention and gp, whose weights follow from their errors on the validation "
            "part."
        ),
    ] = "stacked"
    ensemble: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of networks trained from different seeds and averaged. Raise it "
            "for better predictions; each processor trains its share of them.",
        ),
    ] = 1
    width: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of hidden features of an atom; heads must divide it. Raise it for "
            "large data sets.",
        ),
    ] = 128
    layers: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of attention layers; each extends the view of an atom by one bond.",
        ),
    ] = 4
    heads: Annotated[
        int, Meta(ge=1, description="Number of attention heads of a layer; it must divide width.")
    ] = 8
    dropout: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Probability of dropping a hidden feature in training. Raise it if the "
            "network overfits.",
        ),
    ] = 0.0
    loss_function: Annotated[
        LossFunction,
        Meta(
            description="Loss of regression: mse, the squared error, or mae, the absolute error, "
            "which outliers change less. bounded-mse and bounded-mae also read censored labels "
            "such as >10: beyond the limit the loss is 0. Classification ignores it."
        ),
    ] = "mse"
    class_weight: Annotated[
        ClassWeight,
        Meta(
            description="Weight of classes in the loss: balanced weights each class of each target "
            "by the inverse of its frequency in the training part; use it if one class is rare. "
            "Regression ignores it."
        ),
    ] = "none"
    kernel_rows: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of training molecules that the Gaussian process reads, at most; "
            "more are sampled by seed. Its memory grows with the square.",
        ),
    ] = 3000
    max_atoms: Annotated[
        int, Meta(ge=1, description="Reject molecules with more atoms. Raise it for polymers.")
    ] = 1000

    @property
    def bounded(self) -> bool:
        """Whether the loss reads censored labels."""
        return self.loss_function.startswith("bounded")

    def check(self) -> None:
        """Check that the heads divide the width."""
        super().check()
        if self.width % self.heads:
            raise SettingsError(f"heads ({self.heads}) must divide width ({self.width})")


@dataclass(frozen=True, kw_only=True)
class MoleculeParameters(MoleculeSettings):
    """Parameters of :class:`gattn.molecules.MoleculeRegressor` and ``MoleculeClassifier``."""

    validation_fraction: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Share of the molecules held out for validation if ``fit`` gets no "
            "validation part. It chooses the epoch and, by cross-fitted predictions, calibrates "
            "the intervals or sets of classes.",
        ),
    ] = 0.1
    on_error: Annotated[
        Literal["raise", "skip"],
        Meta(
            description='``"raise"`` reports all unreadable SMILES of ``fit`` in one error, '
            '``"skip"`` leaves them out and lists them in ``bad_``.'
        ),
    ] = "raise"
    workers: Annotated[int, Meta(ge=1, description="Number of processes that parse SMILES.")] = 1
    threads: Threads = 0
