"""Scikit-learn estimators for molecules that also return prediction intervals or sets of
classes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.fitting.settings import settings_of
from gattn.apps.molecules import rows
from gattn.apps.molecules.arrays import as_numbers, as_table, as_texts, find_bounds, target_names
from gattn.apps.molecules.descriptor_columns import check_columns, split_descriptors
from gattn.apps.molecules.inputs import ParsedSmiles, featurise
from gattn.apps.molecules.members import read_foundation_of
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.row_format import RowFormat
from gattn.apps.molecules.settings import MoleculeParameters
from gattn.apps.molecules.smiles_estimator import ClassLabels, NumberLabels, SmilesEstimator
from gattn.apps.molecules.target_transform import Prediction, check_domain
from gattn.data import MoleculeError
from gattn.data.molecules.smiles import MAX_ATOMS

if TYPE_CHECKING:
    from gattn.apps.molecules.explain import Explanation

REFERENCE = Path(__file__).with_name("reference.smi")
PERCENTS = np.arange(101) / 100


@cache
def reference_inputs(row_format: RowFormat) -> MoleculeInputs:
    """Return the inputs of the reference molecules, of which the largest has 83 atoms."""
    smiles = REFERENCE.read_text("utf-8").split()
    return featurise(smiles, max_atoms=MAX_ATOMS, workers=1, row_format=row_format).inputs


def percentiles_of(values: Tensor) -> Tensor:
    """Return the smallest values [t, 101] that 0, 1, ..., 100 % of the values [m, t] do not exceed.

    >>> percentiles_of(torch.arange(200.0)[:, None])[0, [0, 1, 50, 100]].tolist()
    [0.0, 1.0, 99.0, 199.0]
    """
    quantiles = np.quantile(values.numpy(), PERCENTS, axis=0, method="inverted_cdf")
    return torch.from_numpy(quantiles).T.contiguous()


Self = TypeVar("Self", bound="MoleculeEstimator")
Item = TypeVar("Item")
Rows: TypeAlias = Any
"""Type of the input of an estimator: n SMILES, or a data frame or an array [n, 1 + f] with a
column of SMILES and f columns of descriptors.
"""


class MoleculeEstimator(SmilesEstimator):
    """Base class of the estimators for molecules; see :class:`MoleculeParameters`.

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets.
        single_target_: True if the labels had no dimension of targets.
        descriptors_columns_: the names of the descriptor columns that the model reads beside the
            molecule.
        seen_: hashes of the molecules of the training and validation parts.
    """

    predictor_: MoleculePredictor
    targets_: list[str]
    single_target_: bool
    descriptors_columns_: list[str]
    _predictor_kind = MoleculePredictor

    def fit(
        self: Self,
        smiles: Rows,
        y: Any,
        *,
        sample_weight: Any = None,
        validation: tuple[Rows, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train the model on molecules and their labels.

        Args:
            smiles: n SMILES: a list, a tuple, an array or a Series. Or a data frame whose first
                column contains SMILES and whose other columns contain descriptors, which are
                numbers that the model reads in addition to the molecule, for example a temperature,
                a pH or a computed property. They are standardised on the training part; a missing
                value (NaN) is replaced by the mean. With ``molecules_per_row`` above 1, the first
                columns of the data frame contain the SMILES of the molecules of a row.
            y: [n] or [n, t] labels; NaN or None for a missing label. With a bounded loss, labels
                can also be limits, which are strings such as ``">10"`` and ``"<0.5"``.
            sample_weight: [n] weights of the rows, above 0; equal by default. A larger
                weight makes a row count more in the training. If ``validation`` is passed, its rows
                have the mean weight.
            validation: validation molecules as SMILES and labels, which are used to choose the
                epoch and to calibrate the intervals; by default ``validation_fraction`` of the
                molecules, sampled by ``seed``, with all rows of a molecule in one part.
            folder: a folder for checkpoints, from which an interrupted fit continues.
            progress: show a progress bar with the time left.

        Returns:
            The fitted estimator (``self``).

        Raises:
            MoleculeError: SMILES that cannot be parsed under ``on_error="raise"``.
            ValueError: a parameter is out of its range; the labels are too few or all equal.
            RunError: the model to start from (``from_foundation``) cannot be read.
            TrainingError: a checkpoint is damaged or belongs to another training, or the loss is
                not finite.
            RuntimeError: a process that parses SMILES or trains networks was killed.

        Warns:
            UserWarning: a molecule is in both the training and the validation part.
        """
        labelled = self.read(smiles, y, weights=sample_weight)
        if validation is None:
            train, val = self._split(labelled)
        else:
            train, val = labelled, self.labelled(*validation)
            val = replace(val, weights=train.weights.mean().expand(len(val)))
            rows.warn_of_overlap(train, val)
        return self.fit_labelled(train, val, folder=folder, progress=progress)

    def read(
        self,
        smiles: Rows,
        y: Any,
        *,
        targets: Sequence[str] | None = None,
        bounds: np.ndarray | None = None,
        weights: Any = None,
        where: Callable[[int], str] = "in row {}".format,
    ) -> rows.LabelledMolecules:
        """Parse molecules, and store the names and classes of their labels for
        :meth:`fit_labelled`.

        ``targets`` are the names of the targets, by default those of the columns of y. ``bounds``
        [n, t, 2] are the lower and upper ends of the labels for a bounded loss; by default they are
        read from the strings in y. ``weights`` [n] are the weights of the rows. ``where`` converts
        the number of a row to words for an error. Raises ValueError for invalid parameters, labels
        or weights, MoleculeError for SMILES that cannot be parsed if ``on_error`` is "raise", and
        RunError if the model to start from cannot be read.
        """
        # An invalid parameter raises an error before the SMILES are parsed, which may take long.
        read_foundation_of(settings_of(MoleculeParameters, self))
        texts, values, self.descriptors_columns_ = _rows(smiles, self.molecules_per_row)
        table = as_table(y, len(texts))
        self.targets_ = target_names(y) if targets is None else list(targets)
        self.single_target_ = np.ndim(y) == 1
        if bounds is None:
            table, bounds = self._split_bounds(table)
        self._fit_labels(table)
        if not self.task.is_class:
            ends = [None] * len(self.targets_) if bounds is None else bounds.swapaxes(0, 1)
            for name, column, limits in zip(self.targets_, as_numbers(table).T, ends):
                check_domain(self.target_transform, column, name, where, limits)
        if bounds is not None:
            _check_measured(bounds, self.targets_)
        labelled = self._labelled(texts, values, table, bounds, _weights(weights, len(texts)))
        self.bad_ = labelled.bad
        return labelled

    def predict_percentile(self, smiles: Rows) -> np.ndarray:
        """Predict how high predictions are among those of 500 drug-like molecules.

        Args:
            smiles: n SMILES.

        Returns:
            [n] or [n, t] float64: the percentage, in whole numbers, of the drug-like molecules
            whose prediction is at most as high. For classes, the prediction is the probability of
            the second class. NaN where a SMILES cannot be parsed.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the model reads more than one molecule or descriptor columns, or a target
                has more than two classes.

        Warns:
            UnreadableMolecules: some SMILES cannot be parsed.
        """
        self.check_fitted()
        if not self.has_percentiles:
            raise ValueError(
                "percentiles need a model that reads one molecule, without descriptor columns, and "
                f"predicts numbers or two classes; this model reads {self.row_format.rows_noun} "
                f"with {len(self.descriptors_columns_)} descriptor columns for {self.task}"
            )
        if self.percentiles_ is None:
            self.fit_percentiles()
        (percent,) = self._collect(smiles, lambda each: (self.percentile(each.mean),))
        return self._shaped(percent.numpy())

    @property
    def has_percentiles(self) -> bool:
        """Whether the model can predict the drug-like molecules, and orders them by a number."""
        return not (self.row_format.joined or self.descriptors_columns_ or self.class_counts)

    def fit_percentiles(self) -> None:
        """Predict the drug-like molecules, and store the percentiles of their predictions."""
        inputs = reference_inputs(self.row_format)
        self.percentiles_ = percentiles_of(self.predictor_.predict(inputs).mean)

    def percentile(self, mean: Tensor) -> Tensor:
        """Return the percentiles [k, t] of predicted means [k, t]; see :meth:`predict_percentile`.
        :meth:`fit_percentiles` must have been called before.
        """
        assert self.percentiles_ is not None
        places = torch.searchsorted(self.percentiles_, mean.T.contiguous(), right=True)
        return (places - 1).clamp(min=0).T.double()

    def embed(self, smiles: Rows) -> np.ndarray:
        """Return the hidden vectors of molecules, from which the networks compute their
        predictions.

        They describe the molecule alone: descriptor columns are ignored.

        Args:
            smiles: n SMILES, or a table as in :meth:`fit`.

        Returns:
            [n, K d] float32: the d features of each of the ensemble's K networks, concatenated; NaN
            in the rows of SMILES that cannot be parsed, with one warning.

        Raises:
            ValueError: the model has no network.
            NotFittedError: the estimator was not fitted.
        """
        texts, _, _ = _rows(smiles, self.molecules_per_row)
        self.check_fitted()
        pieces = self._pieces(self.predictor_.embed, texts)
        (vectors,) = _joined(texts, ((piece, (piece.result,)) for piece in pieces))
        return vectors.float().numpy()

    def explain(
        self,
        smiles: Rows,
        *,
        target: int | str = 0,
        label: str | None = None,
    ) -> list[Explanation | None]:
        """Explain predictions by weights of the atoms, and measure how faithful the weights are.

        Args:
            smiles: n SMILES, or a table as in :meth:`fit`. The weights of atoms hold for the
                descriptors of the row.
            target: index or name of the target.
            label: for a model of classes, the class whose probability is explained; by default the
                predicted class of each molecule.

        Returns:
            An explanation for each molecule, None for a SMILES that cannot be parsed, with one
            warning.

        Raises:
            ValueError: the target or the class does not exist, the model reads reactions or several
                molecules in a row, or the descriptor columns are not those of the training.
            NotFittedError: the estimator was not fitted.
        """
        self.check_fitted()
        from gattn.apps.molecules.explain import explain_model

        index = self.place_of(target) if isinstance(target, str) else target
        texts, values = self._rows(smiles)
        parsed = self.featurise(texts, values)
        rows.warn_of(rows.bad_rows(texts, parsed))
        explanations = iter(explain_model(self, parsed.inputs, target=index, label=label))
        return [None if error else next(explanations) for error in parsed.errors]

    def labelled(self, smiles: Rows, y: Any) -> rows.LabelledMolecules:
        """Return the valid molecules that have a label, with labels encoded as by :meth:`read`. The
        estimator is not changed. Raises ValueError for other descriptor columns than in training
        and for labels that cannot be encoded, and MoleculeError as :meth:`read`.
        """
        texts, values = self._rows(smiles)
        table, bounds = self._split_bounds(as_table(y, len(texts)))
        return self._labelled(texts, values, table, bounds, _weights(None, len(texts)))

    def _split_bounds(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Separate censored labels from measured ones, if the loss is bounded. The result is the
        measured labels [n, t], and the lower and upper end of every label, [n, t, 2].
        """
        bounded = not self.task.is_class and self.settings().bounded
        return find_bounds(table) if bounded else (table, None)

    def _labelled(
        self,
        texts: list[str],
        values: np.ndarray,
        table: np.ndarray,
        bounds: np.ndarray | None,
        weights: Tensor,
    ) -> rows.LabelledMolecules:
        """Parse n molecules, and return those with a label, with their descriptors, labels and
        weights. Raises MoleculeError if a SMILES cannot be parsed and ``on_error`` is "raise", and
        ValueError for a label that cannot be encoded. ``values`` are the descriptors,
        ``table`` the labels [n, t], and ``bounds`` [n, t, 2] the limits of censored labels, or
        None.
        """
        labels = torch.from_numpy(self._encode(table))
        parsed = self.featurise(texts, values)
        bad = tuple(rows.bad_rows(texts, parsed))
        if bad and self.on_error == "raise":
            raise MoleculeError(bad, "smiles")
        labels = labels[parsed.row_index]
        ends = None if bounds is None else torch.from_numpy(bounds)[parsed.row_index]
        mask = labels.isfinite() if ends is None else ~ends.isnan().any(2)
        index = mask.any(1).nonzero().flatten()
        readable = rows.LabelledMolecules(
            parsed.inputs, labels, weights[parsed.row_index], ends, rows=parsed.row_index,
            canonical=parsed.canonical, bad=bad,
        )  # fmt: skip
        return readable if len(index) == len(labels) else readable[index]

    def _rows(self, table: Rows) -> tuple[list[str], np.ndarray]:
        """Return the SMILES and the descriptors [n, f] of the rows of a table or a list.

        Raises:
            ValueError: the descriptor columns are not those of the training.
        """
        texts, values, names = _rows(table, self.molecules_per_row)
        if len(texts) or names:
            check_columns(self.descriptors_columns_, names)
        return texts, values

    def _predict(self, smiles: Rows) -> tuple[Tensor, Tensor]:
        """Return means and standard deviations [n, t]; NaN for a SMILES that cannot be parsed. The
        warning and the errors are those of :meth:`_collect`.
        """
        mean, std = self._collect(smiles, lambda predicted: (predicted.mean, predicted.std))
        return mean, std

    def _collect(
        self, smiles: Rows, choose: Callable[[Prediction], tuple[Tensor, ...]]
    ) -> list[Tensor]:
        """Return tensors [k, ...] that are computed from a prediction, for n rows: [n, ...] each;
        NaN for a SMILES that cannot be parsed, with one warning UnreadableMolecules. Raises
        NotFittedError before :meth:`fit`, and ValueError for other descriptor columns than in
        training.
        """
        self.check_fitted()
        texts, values = self._rows(smiles)
        items = list(zip(texts, values.tolist()))
        predicted = self.predictions(items, read=lambda item: item)
        return _joined(texts, ((piece, choose(piece.result)) for piece in predicted))

    def _score(
        self, metric: Callable[..., float], smiles: Rows, y: Any, sample_weight: np.ndarray | None
    ) -> float:
        """Return a metric as its mean over the targets with at least two valid SMILES that have a
        label in y ([n] or [n, t]); NaN if there is no such target. ``sample_weight`` is [n]. Limits
        such as ``">10"`` are no labels. SMILES that cannot be parsed are left out, with the warning
        UnreadableMolecules. Raises NotFittedError before :meth:`fit`, and ValueError for labels
        that cannot be read.
        """
        self.check_fitted()
        guess = self._decide(self._predict(smiles)[0])
        truth = self._encode(self._split_bounds(as_table(y, len(guess)))[0])
        weight = np.ones(len(guess)) if sample_weight is None else np.asarray(sample_weight)
        scores = [
            metric(a[mask], b[mask], sample_weight=weight[mask])
            for a, b in zip(truth.T, guess.T)
            if (mask := np.isfinite(a) & np.isfinite(b)).sum() > 1
        ]
        return float(np.mean(scores)) if scores else float("nan")

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Return the values [n, t, ...], without the axis of the targets if ``fit`` was called
        with labels y of shape [n].
        """
        return values[:, 0] if self.single_target_ else values

    def place_of(self, target: str | None) -> int:
        """Return the index of a target, given its name. None stands for the only target. Raises
        ValueError if there is no such target, or for None if there are several.
        """
        names = self.targets_
        if target is None and len(names) == 1:
            return 0
        if target is None or target not in names:
            got = "none was named (--target)" if target is None else f"got {target}"
            raise ValueError(f"target must be one of {', '.join(names)}; {got}")
        return names.index(target)

    def scale_of(self, target: int) -> str:
        """Return the name of a target with its transform, such as ``log10(IC50)``.

        Explanations are on this scale.
        """
        name = str(self.targets_[target])
        if self.task.is_class:
            return name
        transform = self.predictor_.transform.name
        return name if transform == "none" else f"{transform}({name})"

    def _extra_state(self) -> dict[str, Any]:
        """Return the values of the model card that :meth:`_load_state` reads."""
        return {
            **super()._extra_state(),
            "single_target": self.single_target_,
            "descriptors_columns": list(self.descriptors_columns_),
            "percentiles": None if self.percentiles_ is None else self.percentiles_.tolist(),
        }

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        """Set the fitted attributes from the tensors and the model card of a saved model."""
        super()._load_state(tensors, card)
        self.single_target_ = card["single_target"]
        self.descriptors_columns_ = list(card["descriptors_columns"])
        if card["percentiles"] is not None:
            self.percentiles_ = torch.tensor(card["percentiles"], dtype=torch.float64)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: the inputs are texts, and y may have several targets."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.target_tags.multi_output = True
        return tags


def _rows(table: Rows, molecules: int = 1) -> tuple[list[str], np.ndarray, list[str]]:
    """Return the SMILES, the descriptors [n, f] and the names of the columns of a table.

    The SMILES of several molecules of a row are joined to one text.
    """
    smiles, values, names = split_descriptors(table, molecules)
    texts = as_texts(smiles)
    return texts, values if names else np.empty((len(texts), 0)), names


def _check_measured(bounds: np.ndarray, targets: Sequence[str]) -> None:
    """Raise an error if all labels of a target are limits. ``bounds`` [n, t, 2] are the lower and
    the upper end of each label, which are equal for a measured one.

    Raises:
        ValueError: a target has limits and no measured value.
    """
    measured = bounds[..., 0] == bounds[..., 1]
    limits = np.isinf(bounds).any(2)
    for name, values, censored in zip(targets, measured.T, limits.T):
        if censored.any() and not values.any():
            raise ValueError(
                f"{name} has {int(censored.sum()):,} limits such as '>10' and no measured value; "
                "at least two different measured values are needed"
            )


def _weights(weights: Any, count: int) -> Tensor:
    """Check the weights of n rows, and return them as [n] float64; None stands for equal weights.

    Raises:
        ValueError: a weight is not a finite number above 0, or their number is not n.
    """
    if weights is None:
        return torch.ones(count, dtype=torch.float64)
    values = torch.from_numpy(np.array(weights, dtype=np.float64))
    if values.shape != (count,):
        raise ValueError(
            f"sample_weight must be [{count}], one for each molecule; got {(*values.shape,)}"
        )
    bad = (~(values.isfinite() & (values > 0))).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"sample_weight must be finite and above 0; row {bad[0]} is {float(values[bad[0]]):g}"
        )
    return values


def _joined(
    texts: Sequence[object], pieces: Iterable[tuple[ParsedSmiles, tuple[Tensor, ...]]]
) -> list[Tensor]:
    """Concatenate the results [k, ...] of all chunks to tensors [n, ...], with NaN for invalid
    SMILES, which are listed in one warning UnreadableMolecules. ``texts`` are the n SMILES, in the
    order of the chunks.
    """
    columns, bad, start = [], [], 0
    for parsed, tensors in pieces:
        columns.append([rows.scatter_rows(tensor, parsed) for tensor in tensors])
        bad += rows.bad_rows(texts, parsed, start)
        start += len(parsed.errors)
    rows.warn_of(bad)
    return [torch.cat(column) for column in zip(*columns)]


class MoleculeRegressor(RegressorMixin, NumberLabels, MoleculeEstimator):
    """Regressor that predicts numbers from SMILES, with standard deviations and prediction
    intervals.

    It has the interface of scikit-learn's estimators, so it works with ``clone``,
    ``cross_val_score``, ``GridSearchCV`` and ``Pipeline``. X is a list of SMILES, or a
    data frame of SMILES and descriptors (see :meth:`fit`); y is [n] or [n, t], with NaN where a
    target was not measured.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        calibrator_: the calibration of the intervals.
        targets_: the names of the targets, from the columns of y.
        descriptors_columns_: the names of the descriptor columns.
        bad_: the rows that ``fit`` did not use, because their SMILES cannot be parsed.
        history_: the training history of each network.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> model = MoleculeRegressor(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, range(24)).predict(["CCCCO", "CCCCCO"]).shape
        (2,)
    """

    calibrator_: IntervalCalibrator

    def predict(
        self, X: Rows, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the targets of molecules.

        Args:
            X: n SMILES, or a table as in :meth:`fit`.
            return_std: return the standard deviation of the expected error, too, as
                scikit-learn's Gaussian processes do.

        Returns:
            Means in the shape that y had in ``fit``, [n] or [n, t], float64 in the targets' units.
            With ``return_std`` also the standard deviations, in the same shape. NaN in the rows of
            SMILES that cannot be parsed, with one warning that lists them.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the descriptor columns are not those of the training.
        """
        mean, std = (self._shaped(values.numpy()) for values in self._predict(X))
        return (mean, std) if return_std else mean

    def predict_interval(
        self, smiles: Rows, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that contain the true value with the given probability.

        The coverage of conformal prediction holds on average over molecules from the distribution
        of the validation part. See :class:`gattn.apps.fitting.conformal.IntervalCalibrator`.

        Args:
            smiles: n SMILES, or a table as in :meth:`fit`.
            coverage: the probability, above 0 and below 1.

        Returns:
            Lower and upper ends, each of the shape of ``predict``; infinite where the validation
            part is too small for the coverage (90 % needs nine molecules), NaN where a SMILES
            cannot be parsed, with one warning that lists them.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the coverage is not above 0 and below 1, or the descriptor columns are not
                those of the training.
        """
        lower, upper = self._collect(smiles, lambda each: self.intervals(each, coverage))
        return self._shaped(lower.numpy()), self._shaped(upper.numpy())

    def score(self, X: Rows, y: Any, sample_weight: np.ndarray | None = None) -> float:
        """Return R², averaged over targets, for the molecules with a valid SMILES and a label.

        Args:
            X: n SMILES, or a table as in :meth:`fit`.
            y: [n] or [n, t] labels.
            sample_weight: [n].

        Returns:
            At most 1; 0 for a model that predicts the mean. NaN where no target has two labels.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the labels cannot be read, or the descriptor columns are not those of the
                training.

        Warns:
            UnreadableMolecules: some SMILES cannot be parsed.
        """
        from sklearn.metrics import r2_score

        return self._score(r2_score, X, y, sample_weight)

    def intervals(self, predicted: Prediction, coverage: float) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper ends of the prediction intervals, [k, t] each.

        With a target transform, the interval is z ± q s on the transformed scale; its ends are then
        converted by the inverse transform. The guarantee of the coverage is the same, because the
        transform is an increasing function.

        Args:
            predicted: a prediction of k molecules by :attr:`predictor_`.
            coverage: the requested probability, in (0, 1).

        Raises:
            ValueError: the coverage is not in (0, 1).
        """
        low, high = self.calibrator_.interval(*self._transformed(predicted), coverage=coverage)
        inverse = self.predictor_.transform.inverse
        return inverse(low), inverse(high)

    def _transformed(self, predicted: Prediction) -> tuple[Tensor, Tensor]:
        """Return the means and the standard deviations on the transformed scale, [k, t] each."""
        transform, mean = self.predictor_.transform, predicted.mean.double()
        return transform(mean), predicted.std.double() * transform.slope(mean)

    @property
    def calibration_rows(self) -> list[int]:
        """Number of labels that calibrate the intervals of each target: those of the validation
        part, and of training molecules that were predicted without their labels.
        """
        return [len(scores) for scores in self.calibrator_.scores]

    def _calibrate(self, y: Tensor, prediction: Prediction) -> None:
        """Store the intervals that are fitted to the predictions of the validation part, whose
        labels are ``y`` [k, t] in the targets' units, and to those of the training molecules
        without their own labels, which the fitted predictor has.
        """
        validation = torch.stack([self.predictor_.transform(y), *self._transformed(prediction)])
        rows = torch.cat([validation, self.predictor_.left_out], 1)
        self.calibrator_ = IntervalCalibrator.fit(*rows)


class MoleculeClassifier(ClassifierMixin, ClassLabels, MoleculeEstimator):
    """Classifier that predicts one of two or more classes from SMILES, for one or several targets.

    It has the interface of scikit-learn's estimators, so it works with ``clone``,
    ``cross_val_score``, ``GridSearchCV`` and ``Pipeline``. X is a list of SMILES, or a
    data frame of SMILES and descriptors (see :meth:`fit`). y [n] or [n, t] contains two or more
    classes for each target, as numbers or strings, and NaN or None for a missing label.

    Args:
        {settings}

    Attributes:
        classes_: the classes [c], or a list of them for each target where y was [n, t].
        predictor_: the fitted model.
        calibrator_: the calibration of the sets of classes.
        targets_: the names of the targets, from the columns of y.
        descriptors_columns_: the names of the descriptor columns.
        bad_: the rows that ``fit`` did not use, because their SMILES cannot be parsed.
        history_: the training history of each network.

    Example:
        >>> smiles = ["C" * n + end for n in range(1, 13) for end in "ON"]
        >>> model = MoleculeClassifier(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, ["alcohol", "amine"] * 12).predict_proba(["CCCCO"]).shape
        (1, 2)
    """

    calibrator_: LabelSetCalibrator

    def predict(self, X: Rows) -> np.ndarray:
        """Predict the most probable class of each molecule.

        Args:
            X: n SMILES, or a table as in :meth:`fit`.

        Returns:
            Classes in the shape that y had in ``fit``, [n] or [n, t]. NaN in the rows of SMILES
            that cannot be parsed, with one warning that lists them. If there are such rows,
            classes that are whole numbers become float64, and texts an array of objects.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the descriptor columns are not those of the training.
        """
        columns = self.labels_of(self._predict(X)[0])
        kinds = {column.dtype.kind for column in columns}
        # np.stack is not used, because it would convert numbers to strings.
        if "U" in kinds and len(kinds) > 1:
            columns = [column.astype(object) for column in columns]
        return self._shaped(np.stack(columns, axis=1))

    def predict_proba(self, X: Rows) -> np.ndarray | list[np.ndarray]:
        """Predict the probabilities of the classes.

        Args:
            X: n SMILES, or a table as in :meth:`fit`.

        Returns:
            [n, c] of all classes if y was [n]. If y was [n, t] with two classes each, [n, t] of
            each target's second class, as for scikit-learn's multilabel classifiers; with more
            classes, a list of [n, c] for each target, as for its multi-output classifiers. NaN
            in the rows of SMILES that cannot be parsed, with one warning that lists them.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the descriptor columns are not those of the training.
        """
        mean = self._predict(X)[0]
        chances = [chance.numpy() for chance in self.probabilities(mean)]
        if self.single_target_:
            return chances[0]
        return chances if self.class_counts else mean.numpy()

    def predict_set(self, smiles: Rows, coverage: float = 0.9) -> np.ndarray:
        """Predict a set of classes for each molecule that contains the true class with the given
        probability.

        The coverage holds for each class: see
        :class:`gattn.apps.fitting.conformal.LabelSetCalibrator`.

        Args:
            smiles: n SMILES, or a table as in :meth:`fit`.
            coverage: the probability, above 0 and below 1.

        Returns:
            [n, c], or [n, t, c] if y was [n, t], bool: True for each class in the set. A set holds
            several classes if the model cannot separate them, and none if a SMILES cannot be
            parsed, with one warning. Targets with fewer than c classes are padded with False.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the coverage is not above 0 and below 1, or the descriptor columns are not
                those of the training.
        """
        mean = self._predict(smiles)[0]
        return self._shaped(self.sets_of(mean, coverage).numpy())

    def score(self, X: Rows, y: Any, sample_weight: np.ndarray | None = None) -> float:
        """Return the accuracy, averaged over targets, for the molecules with a valid SMILES and a
        label.

        Args:
            X: n SMILES, or a table as in :meth:`fit`.
            y: [n] or [n, t] labels.
            sample_weight: [n].

        Returns:
            From 0 to 1; NaN where no label is known.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: a label is not one of the classes, or the descriptor columns are not those
                of the training.

        Warns:
            UnreadableMolecules: some SMILES cannot be parsed.
        """
        from sklearn.metrics import accuracy_score

        return self._score(accuracy_score, X, y, sample_weight)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: there may be several classes and several labels."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True  # pyright: ignore[reportOptionalMemberAccess]
        tags.classifier_tags.multi_label = True  # pyright: ignore[reportOptionalMemberAccess]
        return tags

    def sets_of(self, mean: Tensor, coverage: float) -> Tensor:
        """Return a set of classes for each prediction that contains the true class with the given
        probability, and always the predicted class.

        Args:
            mean: [k, O], the mean of a prediction.
            coverage: probability that a set contains the true class.

        Returns:
            [k, t, c] bool for the largest number c of classes; False beyond the classes of a
            target, and for a prediction of NaN.

        Raises:
            ValueError: the coverage is not above 0 and below 1.
        """
        chances = self.probabilities(mean)
        sets = self.calibrator_.sets(chances, coverage=coverage)
        for i, chance in enumerate(chances):
            readable = chance.isfinite().all(1).nonzero()[:, 0]
            sets[readable, i, chance[readable].argmax(1)] = True
        return sets

    def _calibrate(self, y: Tensor, prediction: Prediction) -> None:
        chances = [each.clamp(0, 1) for each in self.probabilities(prediction.mean)]
        self.calibrator_ = LabelSetCalibrator.fit(y, chances)


ESTIMATORS: dict[str, type[MoleculeEstimator]] = {
    "regression": MoleculeRegressor, "classification": MoleculeClassifier,
    "multiclass": MoleculeClassifier,
}  # fmt: skip
"""Estimators by the name of their task."""
