"""Labels of estimators, which are numbers or classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.arrays import as_classes, as_numbers, find_classes
from gattn.apps.molecules.classes import split_classes
from gattn.apps.molecules.settings import Task
from gattn.apps.molecules.smiles_estimator import SmilesEstimator
from gattn.apps.molecules.target_transform import check_domain


class NumberLabels(SmilesEstimator):
    """Base class of the regressors."""

    task: ClassVar[Task] = "regression"

    def _fit_labels(self, table: np.ndarray) -> None:
        for name, column in zip(self.targets_, as_numbers(table).T):
            labels = column[np.isfinite(column)]
            if len(labels) > 1 and labels.min() == labels.max():
                raise ValueError(
                    f"{name} must have different numbers; every label is {labels[0]:g}"
                )
            check_domain(self.settings().target_transform, column, name, "in row {}".format)

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_numbers(table)

    def _decide(self, mean: Tensor) -> np.ndarray:
        return mean.numpy()


class ClassLabels(SmilesEstimator):
    """Base class of the classifiers.

    Attributes:
        classes_: the classes of the only target, or a list of the classes of each target.
    """

    classes_: Any
    single_target_: bool

    @property
    def task(self) -> Task:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The task: multiclass if a target has more than two classes, otherwise classification."""
        return "multiclass" if self.class_counts else "classification"

    @property
    def classes_by_target(self) -> list[np.ndarray]:
        """The classes of each target, as a list even if there is only one target."""
        return [self.classes_] if self.single_target_ else self.classes_

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Number of classes of each target if the task is multiclass; empty if every target has
        two classes.
        """
        if not hasattr(self, "classes_"):
            return ()
        counts = tuple(map(len, self.classes_by_target))
        return counts if max(counts) > 2 else ()

    def probabilities(self, mean: Tensor) -> list[Tensor]:
        """Return a tensor of class probabilities [k, c] for each target.

        Args:
            mean: [k, O], the mean of a prediction.
        """
        if self.class_counts:
            return list(split_classes(mean, self.class_counts))
        return [torch.stack([1 - each, each], 1) for each in mean.unbind(1)]

    def _fit_labels(self, table: np.ndarray) -> None:
        classes = find_classes(table, self.targets_)
        self.classes_ = classes[0] if self.single_target_ else classes

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_classes(table, self.classes_by_target, self.targets_)

    def _decide(self, mean: Tensor) -> np.ndarray:
        """Return the number of the most probable class (the first of several equal ones); NaN is
        returned unchanged.
        """
        chosen = [
            p.argmax(1).double().masked_fill(p.isnan().any(1), torch.nan)
            for p in self.probabilities(mean)
        ]
        return torch.stack(chosen, 1).numpy()

    def labels_of(self, mean: Tensor) -> list[np.ndarray]:
        """Return the most probable class of each prediction [k, O], one array for each target."""
        numbers = self._decide(mean)
        return [_labels(kinds, each) for kinds, each in zip(self.classes_by_target, numbers.T)]


def _labels(kinds: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Convert class numbers to labels; NaN stays NaN."""
    unknown = np.isnan(numbers)
    labels = kinds[np.where(unknown, 0, numbers).astype(int)]
    if unknown.any():
        labels = labels.astype(float if kinds.dtype.kind in "biuf" else object)
        labels[unknown] = np.nan
    return labels
