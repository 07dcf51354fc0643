"""Models of molecules as scikit-learn knows estimators, with intervals around what they predict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags
from torch import Tensor

from gattn.molecules.arrays import as_classes, as_numbers, find_classes
from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.predictor import Prediction
from gattn.molecules.settings import Task
from gattn.training.conformal import IntervalCalibrator, LabelSetCalibrator

__all__ = ["MoleculeClassifier", "MoleculeRegressor"]


class MoleculeRegressor(RegressorMixin, MoleculeEstimator):
    """Predict numbers from SMILES, each with a standard deviation and an interval.

    An estimator as scikit-learn has them: ``clone``, ``cross_val_score``, ``GridSearchCV`` and
    ``Pipeline`` take it. X is a list of SMILES, y [n] or [n, t] with NaN where a target was not
    measured. What it is made of and trained by is described by
    :class:`gattn.molecules.MoleculeSettings`, whose settings are arguments here.

    Args:
        model: ``"stacked"``, ``"attention"``, ``"attentive_fp"`` or ``"ridge"``.
        ensemble: how many networks.
        epochs: passes over the training part.
        batch_size: molecules a step.
        learning_rate: the highest.
        weight_decay: of AdamW.
        width: features of an atom.
        layers: attention layers.
        heads: attention heads.
        dropout: a probability.
        class_weight: of no meaning for numbers.
        kernel_rows: the most training molecules of the kernel ridge.
        seed: of everything that is drawn.
        max_atoms: larger molecules count as unreadable.
        accelerator: ``"cpu"``, ``"gpu"`` or ``"auto"``, a GPU if there is one.
        devices: how many of them.
        precision: ``"32"``, ``"64"``, ``"bf16-mixed"`` or ``"16-mixed"``.
        validation_fraction: of the molecules, where ``fit`` is given no validation part: it
            chooses the epoch and, by cross-fitted predictions, calibrates the intervals.
        on_error: ``"raise"`` reports all unreadable SMILES of ``fit`` in one error, ``"skip"``
            leaves them out and reports them in ``bad_``.
        workers: processes that read SMILES.

    Attributes:
        predictor_: the fitted model.
        calibrator_: of the intervals.
        targets_: the names of the targets, from the columns of y.
        bad_: the rows of ``fit`` that were left out.
        history_: of each network, a record an epoch.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> model = MoleculeRegressor(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, range(24)).predict(["CCCCO", "CCCCCO"]).shape
        (2,)
    """

    task: ClassVar[Task] = "regression"

    def predict(
        self, X: Iterable[str], return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the targets.

        Args:
            X: n SMILES.
            return_std: also give the standard deviation of the error to be expected, as
                scikit-learn's Gaussian processes do.

        Returns:
            [n], or [n, t] where y was so, float64 in the targets' units; the same shape again for
            the standard deviations. NaN in the rows of SMILES that cannot be read, with one
            warning that lists them.

        Raises:
            NotFittedError: the estimator was not fitted.
        """
        mean, std = (self._shaped(made.numpy()) for made in self._predict(X))
        return (mean, std) if return_std else mean

    def predict_interval(
        self, smiles: Iterable[str], coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give the lower and upper ends of intervals that hold the truth as often as promised.

        The promise is of conformal prediction: for molecules drawn as those of the validation
        part, and on average over them. See :class:`gattn.training.conformal.IntervalCalibrator`.

        Args:
            smiles: n texts.
            coverage: the probability, above 0 and below 1.

        Returns:
            Two arrays of the shape of ``predict``; infinite where the validation part is too small
            for the coverage (90 % needs nine molecules), NaN where a SMILES cannot be read.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: a coverage that is no probability.
        """
        mean, std = self._predict(smiles)
        lower, upper = self.calibrator_.interval(mean, std, coverage=coverage)
        return self._shaped(lower.numpy()), self._shaped(upper.numpy())

    def score(self, X: Iterable[str], y: Any, sample_weight: np.ndarray | None = None) -> float:
        """R², the mean over targets, of readable molecules whose target was measured.

        Args:
            X: n SMILES.
            y: [n] or [n, t] labels.
            sample_weight: [n].

        Returns:
            At most 1; 0 for a model that predicts the mean. NaN where no target has two labels.
        """
        return self._score(r2_score, X, y, sample_weight)

    def _learn_labels(self, table: np.ndarray) -> None:
        for name, column in zip(self.targets_, as_numbers(table).T):
            known = column[np.isfinite(column)]
            if len(known) > 1 and known.min() == known.max():
                raise ValueError(f"{name} must hold different numbers; every label is {known[0]:g}")

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_numbers(table)

    def _decide(self, mean: Tensor) -> np.ndarray:
        return mean.numpy()

    def _calibrate(self, y: Tensor, made: Prediction) -> None:
        self.calibrator_ = IntervalCalibrator.fit(y, made.mean, made.std)

    def _labels_state(self) -> dict[str, Any]:
        return {"calibration": self.calibrator_.state()}

    def _take_labels_state(self, state: Mapping[str, Any]) -> None:
        self.calibrator_ = IntervalCalibrator.from_state(state["calibration"])


class MoleculeClassifier(ClassifierMixin, MoleculeEstimator):
    """Predict which of two classes molecules are of, from SMILES, for one target or several.

    An estimator as scikit-learn has them: ``clone``, ``cross_val_score``, ``GridSearchCV`` and
    ``Pipeline`` take it. X is a list of SMILES. y [n] or [n, t] holds two classes a target, of
    numbers or texts, and NaN or None where a label is missing.

    Args:
        model: ``"stacked"``, ``"attention"``, ``"attentive_fp"`` or ``"ridge"``.
        ensemble: how many networks.
        epochs: passes over the training part.
        batch_size: molecules a step.
        learning_rate: the highest.
        weight_decay: of AdamW.
        width: features of an atom.
        layers: attention layers.
        heads: attention heads.
        dropout: a probability.
        class_weight: ``"none"``, or ``"balanced"`` for classes of unequal size.
        kernel_rows: the most training molecules of the kernel ridge.
        seed: of everything that is drawn.
        max_atoms: larger molecules count as unreadable.
        accelerator: ``"cpu"``, ``"gpu"`` or ``"auto"``, a GPU if there is one.
        devices: how many of them.
        precision: ``"32"``, ``"64"``, ``"bf16-mixed"`` or ``"16-mixed"``.
        validation_fraction: of the molecules, where ``fit`` is given no validation part: it
            chooses the epoch and, by cross-fitted predictions, calibrates the sets of labels.
        on_error: ``"raise"`` reports all unreadable SMILES of ``fit`` in one error, ``"skip"``
            leaves them out and reports them in ``bad_``.
        workers: processes that read SMILES.

    Attributes:
        classes_: the two classes [2], or a list of them for each target where y was [n, t].
        predictor_: the fitted model.
        calibrator_: of the sets of labels.
        targets_: the names of the targets, from the columns of y.
        bad_: the rows of ``fit`` that were left out.
        history_: of each network, a record an epoch.

    Example:
        >>> smiles = ["C" * n + end for n in range(1, 13) for end in "ON"]
        >>> model = MoleculeClassifier(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, ["alcohol", "amine"] * 12).predict_proba(["CCCCO"]).shape
        (1, 2)
    """

    task: ClassVar[Task] = "classification"

    def predict(self, X: Iterable[str]) -> np.ndarray:
        """Predict the more probable class.

        Args:
            X: n SMILES.

        Returns:
            [n], or [n, t] where y was so, of the classes. NaN in the rows of SMILES that cannot
            be read, with one warning that lists them; an array of whole numbers becomes one of
            float64 for it, and one of texts an array of objects, as one of texts and numbers is.

        Raises:
            NotFittedError: the estimator was not fitted.
        """
        second = self._decide(self._predict(X)[0])
        columns = [_labels(pair, column) for pair, column in zip(self.classes_by_target, second.T)]
        kinds = {column.dtype.kind for column in columns}
        if "U" in kinds and len(kinds) > 1:  # else NumPy makes texts of the numbers
            columns = [column.astype(object) for column in columns]
        return self._shaped(np.stack(columns, axis=1))

    def predict_proba(self, X: Iterable[str]) -> np.ndarray:
        """Predict probabilities.

        Args:
            X: n SMILES.

        Returns:
            [n, 2] of both classes where y was [n]; [n, t] of each target's second class where y
            was [n, t], as scikit-learn's multilabel classifiers have it. NaN in the rows of SMILES
            that cannot be read, with one warning that lists them.

        Raises:
            NotFittedError: the estimator was not fitted.
        """
        second = self._predict(X)[0].numpy()
        return np.hstack([1 - second, second]) if self.single_target_ else second

    def predict_set(self, smiles: Iterable[str], coverage: float = 0.9) -> np.ndarray:
        """Give sets of classes that hold the true one as often as promised, for each class apart.

        See :class:`gattn.training.conformal.LabelSetCalibrator` for what is promised.

        Args:
            smiles: n texts.
            coverage: the probability, above 0 and below 1.

        Returns:
            [n, 2], or [n, t, 2] where y was [n, t], bool: whether each class is in the set. Both
            are where the model cannot tell; none where a SMILES cannot be read.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: a coverage that is no probability.
        """
        second = self._predict(smiles)[0]
        both = torch.stack([1 - second, second], dim=2)
        return self._shaped(self.calibrator_.sets(both, coverage=coverage).numpy())

    def score(self, X: Iterable[str], y: Any, sample_weight: np.ndarray | None = None) -> float:
        """Accuracy, the mean over targets, of readable molecules whose label is known.

        Args:
            X: n SMILES.
            y: [n] or [n, t] labels.
            sample_weight: [n].

        Returns:
            From 0 to 1; NaN where no label is known.
        """
        return self._score(accuracy_score, X, y, sample_weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False  # pyright: ignore[reportOptionalMemberAccess]
        tags.classifier_tags.multi_label = True  # pyright: ignore[reportOptionalMemberAccess]
        return tags

    @property
    def classes_by_target(self) -> list[np.ndarray]:
        """The two classes of each target, also where y was [n]."""
        return [self.classes_] if self.single_target_ else self.classes_

    def _learn_labels(self, table: np.ndarray) -> None:
        found = find_classes(table, self.targets_)
        self.classes_: Any = found[0] if self.single_target_ else found

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_classes(table, self.classes_by_target, self.targets_)

    def _decide(self, mean: Tensor) -> np.ndarray:
        """Whether the second class is the more probable: 0, 1, or NaN."""
        return torch.where(mean.isnan(), mean, (mean > 0.5).to(mean.dtype)).numpy()

    def _calibrate(self, y: Tensor, made: Prediction) -> None:
        both = torch.stack([1 - made.mean, made.mean], dim=2)
        self.calibrator_ = LabelSetCalibrator.fit(y, both)

    def _labels_state(self) -> dict[str, Any]:
        classes = [kinds.tolist() for kinds in self.classes_by_target]
        return {"classes": classes, "calibration": self.calibrator_.state()}

    def _take_labels_state(self, state: Mapping[str, Any]) -> None:
        found = [np.array(kinds) for kinds in state["classes"]]
        self.classes_ = found[0] if self.single_target_ else found
        self.calibrator_ = LabelSetCalibrator.from_state(state["calibration"])


def _labels(kinds: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The classes that 0 and 1 stand for, NaN where neither does."""
    unknown = np.isnan(second)
    labels = kinds[np.where(unknown, 0, second).astype(int)]
    if unknown.any():
        labels = labels.astype(float if kinds.dtype.kind in "biuf" else object)
        labels[unknown] = np.nan
    return labels
