"""Scikit-learn estimators for molecules that also return prediction intervals or sets of
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.molecules.base import MoleculeEstimator, Rows
from gattn.apps.molecules.smiles_estimator import ClassLabels, NumberLabels
from gattn.apps.molecules.target_transform import Prediction


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
            cannot be parsed.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the coverage is not above 0 and below 1.
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
        """Number of validation labels of each target, which calibrate its intervals."""
        return [len(scores) for scores in self.calibrator_.scores]

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        self.calibrator_ = IntervalCalibrator.from_state(state["calibration"])

    def _calibrate(self, y: Tensor, prediction: Prediction) -> None:
        mean, std = self._transformed(prediction)
        self.calibrator_ = IntervalCalibrator.fit(self.predictor_.transform(y), mean, std)

    def _labels_state(self) -> dict[str, Any]:
        return {"calibration": self.calibrator_.state()}


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
            parsed. Targets with fewer than c classes are padded with False.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the coverage is not above 0 and below 1.
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
        """
        from sklearn.metrics import accuracy_score

        return self._score(accuracy_score, X, y, sample_weight)

    def __sklearn_tags__(self) -> Tags:
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
            target.
        """
        chances = self.probabilities(mean)
        sets = self.calibrator_.sets(chances, coverage=coverage)
        for i, chance in enumerate(chances):
            readable = chance.isfinite().all(1).nonzero()[:, 0]
            sets[readable, i, chance[readable].argmax(1)] = True
        return sets

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        super()._load_labels_state(state)
        self.calibrator_ = LabelSetCalibrator.from_state(state["calibration"])

    def _calibrate(self, y: Tensor, prediction: Prediction) -> None:
        chances = [each.clamp(0, 1) for each in self.probabilities(prediction.mean)]
        self.calibrator_ = LabelSetCalibrator.fit(y, chances)

    def _labels_state(self) -> dict[str, Any]:
        return super()._labels_state() | {"calibration": self.calibrator_.state()}
