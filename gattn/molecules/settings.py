"""Settings of the models and of the estimators for molecules."""

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

Task = Literal["regression", "classification", "multiclass"]
ModelName = Literal["stacked", "attention", "attentive_fp", "gp"]
ClassWeight = Literal["none", "balanced"]
LossFunction = Literal["mse", "mae", "bounded-mse", "bounded-mae"]


@document
@dataclass(frozen=True, kw_only=True)
class MoleculeSettings(TrainingSettings):
    """Settings of a :class:`gattn.molecules.predictor.MoleculePredictor`.

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
            description="Model to train. attention and attentive_fp are graph neural networks. "
            "gp is an exact Gaussian process on fingerprints and descriptors, which trains "
            "fastest. stacked is a weighted mean of attention and gp; the weights are "
            "computed from their validation errors."
        ),
    ] = "stacked"
    ensemble: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of networks that are trained with different seeds and whose "
            "predictions are averaged. Raise it for more accurate predictions. The networks "
            "are trained in parallel on several processors.",
        ),
    ] = 1
    width: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of hidden features of each atom; it must be a multiple of heads. "
            "Raise it for large data sets.",
        ),
    ] = 128
    layers: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of attention layers. With each layer, an atom receives "
            "information from atoms one bond farther away.",
        ),
    ] = 4
    heads: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of attention heads of each layer; width must be a multiple of it.",
        ),
    ] = 8
    dropout: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Probability that a hidden feature is set to zero during training. Raise "
            "it if the network overfits.",
        ),
    ] = 0.0
    loss_function: Annotated[
        LossFunction,
        Meta(
            description="Loss of a regression. mse is the squared error. mae is the absolute "
            "error, which depends less on outliers. bounded-mse and bounded-mae also read "
            "censored labels such as >10 as limits: the loss is 0 if the prediction is beyond "
            "the limit. The setting has no effect in classification."
        ),
    ] = "mse"
    class_weight: Annotated[
        ClassWeight,
        Meta(
            description="Weighting of the classes in the loss. With balanced, the weight of a "
            "class is the inverse of its frequency in the training part, separately for each "
            "target; use this value if one class is rare. The setting has no effect in regression."
        ),
    ] = "none"
    task_weights: Annotated[
        tuple[float, ...],
        Meta(
            description="Weight of each target in the loss, in the order of the targets. The "
            "weights are scaled to the mean 1. Raise the weight of a target whose errors are "
            "most important. The networks and the fit of the components' weights use them.",
            extra={"default": "equal weights"},
        ),
    ] = ()
    kernel_rows: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of training molecules for the Gaussian process. If there "
            "are more, it uses a random sample of this size. Its memory grows with the "
            "square of this number.",
        ),
    ] = 3000
    max_atoms: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of atoms of a molecule. Larger molecules are "
            "rejected with an error. Raise it for polymers.",
        ),
    ] = 1000

    @property
    def bounded(self) -> bool:
        """True if the loss reads censored labels as limits."""
        return self.loss_function.startswith("bounded")

    def check(self) -> None:
        """Check that ``heads`` divides ``width``, and that the weights are positive."""
        super().check()
        if not all(0 < weight < float("inf") for weight in self.task_weights):
            shown = ", ".join(map(str, self.task_weights))
            raise SettingsError(f"task_weights must be above 0 and finite; got {shown}")
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
            description="Share of the molecules used for validation if ``fit`` gets no "
            "validation part. The validation part selects the epoch and, by cross-fitted "
            "predictions, calibrates the intervals or sets of classes.",
        ),
    ] = 0.1
    on_error: Annotated[
        Literal["raise", "skip"],
        Meta(
            description='Treatment of SMILES that ``fit`` cannot read: ``"raise"`` reports all '
            'of them in one error, ``"skip"`` leaves them out and lists them in ``bad_``.'
        ),
    ] = "raise"
    workers: Annotated[
        int, Meta(ge=1, description="Number of processes that parse SMILES in parallel.")
    ] = 1
    threads: Threads = 0
