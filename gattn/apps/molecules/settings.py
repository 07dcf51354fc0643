"""Settings of the models and of the estimators for molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from gattn.apps.fitting.settings import SettingsError, Threads, TrainingSettings, document

ModelName = Literal["stacked", "attention", "gp"]
Standardization = Literal["largest-fragment", "neutral", "tautomer"]
Transform = Literal["none", "log10", "logit"]
LossFunction = Literal["mse", "mae", "bounded-mse", "bounded-mae"]
BOUNDED = {"bounded-mse": "mse", "bounded-mae": "mae"}
"""Dictionary from the loss functions that read censored labels as limits to their errors."""


@document
@dataclass(frozen=True, kw_only=True)
class MoleculeSettings(TrainingSettings):
    """Settings of a :class:`gattn.apps.molecules.predictor.MoleculePredictor`.

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
        gattn.apps.fitting.settings.SettingsError: epochs must be a whole number, at least 1; got 0
    """

    panel: ClassVar[str] = TrainingSettings.panel

    model: ModelName = "stacked"
    """Model to train. attention is a graph neural network that also reads fingerprints and
    descriptors. gp is an exact Gaussian process on fingerprints and descriptors, which trains
    fastest. stacked is a weighted mean of a graph neural network without these inputs, gp and a
    forest of trees; the weights are computed from the errors of these three models on molecules on
    which they were not trained.
    """
    ensemble: Annotated[int, Meta(ge=1)] = 1
    """Number of networks that are trained with different seeds and whose predictions are averaged.
    Raise it for more accurate predictions. The networks are trained in parallel on several
    processors.
    """
    width: Annotated[int, Meta(ge=1)] = 128
    """Number of hidden features of each atom; it must be a multiple of heads. Raise it for large
    data sets.
    """
    layers: Annotated[int, Meta(ge=1)] = 4
    """Number of attention layers. With each layer, an atom receives information from atoms one bond
    farther away.
    """
    heads: Annotated[int, Meta(ge=1)] = 8
    """Number of attention heads of each layer; width must be a multiple of it."""
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Probability that a hidden feature is set to zero during training. Raise it if the network
    overfits.
    """
    loss_function: LossFunction = "mse"
    """Loss of a regression. mse is the squared error. mae is the absolute error, which depends less
    on outliers. bounded-mse and bounded-mae also read censored labels such as >10 as limits: the
    loss is 0 if the prediction is beyond the limit. Classes need mse, the default.
    """
    target_transform: Transform = "none"
    """Transform of the labels before training, so that no prediction and no interval is outside the
    possible values. log10 is for positive numbers such as concentrations, and logit for fractions
    between 0 and 1. Predictions, intervals and errors are in the original unit. Classes cannot be
    transformed.
    """
    standardize: tuple[Standardization, ...] = ()
    """Standardisation of every molecule before training and before each prediction.
    largest-fragment removes salts and solvents, neutral neutralises acids and bases, and tautomer
    replaces a molecule by RDKit's canonical tautomer, which is slow for large tables. Repeat the
    option to combine them; they are applied in this order. Use it if a table has several forms of
    one molecule.
    """
    from_foundation: str = ""
    """Pretrained weights from which the networks start: the name of an encoder that gattn ships, or
    the folder of another run or of an encoder of your own. Only the last layers start from random
    weights. Set epochs to 30 and batch_size to 32, and compare the errors with the errors of a run
    without this option. The settings width, layers and heads must have the same values as in the
    encoder.
    """
    kernel_rows: Annotated[int, Meta(ge=1)] = 3000
    """Maximum number of training labels of a target for the Gaussian process. If there are more, it
    uses a random sample of this size. Its memory grows with the square of this number.
    """
    trees: Annotated[int, Meta(ge=0)] = 100
    """Number of trees of the forest in a stacked model; 0 for a model without a forest. Raise it
    for slightly more accurate predictions; time and size of the model grow with it.
    """
    max_atoms: Annotated[int, Meta(ge=1)] = 1000
    """Maximum number of atoms of a molecule. Larger molecules are rejected with an error. Raise it
    for polymers.
    """

    reaction: bool = False
    """Rows are reactions A>>B with atom map numbers. The model reads the graph of the reactants
    together with the changes of atoms and bonds to the products.
    """
    ignore_stereo: bool = False
    """Ignore stereochemistry (@, / and \\ in SMILES), so that stereoisomers are one molecule. Use
    it if the marks of the table are incomplete or unreliable.
    """
    add_h: bool = False
    """Add hydrogens as atoms of the graph of a network, which takes about twice the time.
    Fingerprints and descriptors do not change.
    """

    @property
    def bounded(self) -> bool:
        """True if the loss function treats censored labels as limits."""
        return self.loss_function in BOUNDED

    @property
    def error(self) -> str:
        """Error of the loss function, without the limits of censored labels.

        >>> MoleculeSettings(loss_function="bounded-mae").error
        'mae'
        """
        return BOUNDED.get(self.loss_function, self.loss_function)

    def check(self) -> None:
        """Check that ``heads`` divides ``width``, and that a network can start from an encoder.
        Raises SettingsError otherwise.
        """
        super().check()
        if self.from_foundation and self.model == "gp":
            raise SettingsError("from_foundation needs a model with a network; got model gp")
        if self.width % self.heads:
            raise SettingsError(f"heads ({self.heads}) must divide width ({self.width})")

    def check_classes(self) -> None:
        """Check that no setting is for numbers only. Raises SettingsError otherwise."""
        for name, default in (("loss_function", "mse"), ("target_transform", "none")):
            if (value := getattr(self, name)) != default:
                raise SettingsError(
                    f"{name} {value} is for numbers, and the labels are classes: leave it out"
                )

    def check_rows(self, molecules: int) -> None:
        """Check that ``reaction`` is consistent with the number of molecules in a row.

        Raises:
            SettingsError: ``reaction`` was set for several molecules or with ``standardize``.
        """
        if self.reaction and molecules > 1:
            raise SettingsError(f"reaction needs one reaction in a row; a row has {molecules}")
        if self.reaction and self.standardize:
            steps = ", ".join(self.standardize)
            raise SettingsError(
                f"the sides of a reaction cannot be standardised; got standardize {steps}"
            )


@dataclass(frozen=True, kw_only=True)
class MoleculeParameters(MoleculeSettings):
    """Parameters of :class:`gattn.apps.molecules.MoleculeRegressor` and ``MoleculeClassifier``."""

    molecules_per_row: Annotated[int, Meta(ge=1)] = 1
    """Number of molecules in a row: the first columns of X contain their SMILES, and the other
    columns are descriptors.
    """
    validation_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Share of the molecules used for validation if ``fit`` gets no validation part. The validation
    part selects the epoch and, by cross-fitted predictions, calibrates the intervals or sets of
    classes.
    """
    on_error: Literal["raise", "skip"] = "raise"
    """Treatment of SMILES that ``fit`` cannot read: ``"raise"`` reports all of them in one error,
    ``"skip"`` leaves them out and lists them in ``bad_``.
    """
    workers: Annotated[int, Meta(ge=1)] = 1
    """Number of processes that parse SMILES in parallel."""
    threads: Threads = 0

    def check(self) -> None:
        """Check that the options on rows are consistent with the number of molecules in a row."""
        super().check()
        self.check_rows(self.molecules_per_row)


@dataclass(frozen=True, kw_only=True)
class TableReading:
    """Rules by which a trained model reads and predicts a table.

    Attributes:
        smiles: the column of SMILES, or the columns for a model of several molecules in a row; by
            default those that the model was trained on.
        encoding: encoding of a CSV file; by default, the encoding of its byte order mark, or UTF-8
            if there is none.
        coverage: coverage of the intervals, above 0 and below 1; None for that of the training.
        workers: number of processes that parse SMILES or predict.
        threads: number of threads inside one operator; 0 to choose it from the size of a batch.
    """

    smiles: str | Sequence[str] | None = None
    encoding: str | None = None
    coverage: float | None = None
    workers: int = 2
    threads: int = 0


DEFAULT_READING = TableReading()
"""Rules for a table like that of the training."""
