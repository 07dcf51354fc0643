"""Types of labels: their losses, the predictions that outputs of a network stand for, and metrics.

A model of t targets has t outputs, [..., t], or, for several exclusive classes, an output for each
class of each target, [..., O]. The numbers of classes of the targets, which sum to O, are then
``counts``; they are () for the other types.

A new type of labels, such as counts, needs a subclass of :class:`Task` and its entry in
:data:`TASKS`, and in :data:`SINGLE_TARGET_TASKS` if models of nodes have such labels; its name in
``fitting/settings.py``; and an estimator with this task and its entry in the table of estimators in
``molecules/estimators.py`` and in ``nodes/estimators.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from gattn.apps.fitting import losses, metrics
from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.fitting.scaling import moments
from gattn.apps.fitting.types import Loss

Counts: TypeAlias = Sequence[int]
MOST_CLASSES = 100
"""Maximum number of classes of a target. A column with more different values contains names or
numbers.
"""


class Task(ABC):
    """Type of the labels of a model; a new type is a subclass and an entry of :data:`TASKS`.

    Attributes:
        name: name of the type in settings and files.
        is_class: True if the labels are classes, which have sets of classes instead of intervals.
        label: noun phrase of a label, for messages.
        regions: plural noun of the intervals or sets of a given coverage.
        pooled: the values of components that the weights of a stack multiply.
        metrics: names of the metrics of a target.
        most_classes: maximum number of classes of a target.
        calibrator: class of the calibration of the intervals or sets.
    """

    name: ClassVar[str]
    is_class: ClassVar[bool] = True
    label: ClassVar[str]
    regions: ClassVar[str] = "sets of classes"
    pooled: ClassVar[str] = "log probabilities"
    metrics: ClassVar[tuple[str, ...]]
    most_classes: ClassVar[int] = 2
    calibrator: ClassVar[type[IntervalCalibrator | LabelSetCalibrator]] = LabelSetCalibrator

    def __str__(self) -> str:
        return self.name

    def scaling(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means and the standard deviations, [t] float64 each, by which the labels
        [k, t] are scaled for the training; 0 and 1 for labels that are not scaled.
        """
        return torch.zeros(y.shape[1]).double(), torch.ones(y.shape[1]).double()

    @abstractmethod
    def loss(self, counts: Counts = (), **options: Any) -> Loss:
        """Return the element-wise loss of outputs and labels. The options are those of
        :func:`gattn.apps.fitting.losses.regression_loss`; only the loss of numbers depends on them.
        """

    def link(self, outputs: Tensor, counts: Counts = ()) -> Tensor:
        """Convert outputs [..., O], in the unit of the labels, to predictions. Numbers are
        unchanged.
        """
        return outputs

    def clip(self, means: Tensor, counts: Counts = ()) -> Tensor:
        """Convert means [..., O] of labels by a model that reads them as numbers to predictions.
        Numbers are unchanged.
        """
        return means

    def outputs_of(self, y: Tensor, counts: Counts = ()) -> Tensor:
        """Convert labels [k, t] to the form of the outputs, [k, O]."""
        return y

    def probabilities(self, predicted: Tensor, counts: Counts = ()) -> list[Tensor]:
        """Return the probabilities [k, c] of the classes of each target; raise a TypeError for
        numbers.
        """
        raise TypeError(f"{self} has no classes; got {len(predicted)} predictions")

    @abstractmethod
    def measure(self, y: Tensor, predicted: Tensor) -> dict[str, float]:
        """Compute the metrics of one target.

        Args:
            y: [k] labels; NaN for missing labels.
            predicted: [k, 1] predicted numbers or probabilities of class 1; [k, c] probabilities
                for several exclusive classes.
        """

    def undefined(
        self, y: Tensor, names: Sequence[object], classes: Sequence[Sequence[object]]
    ) -> dict[str, str]:
        """Return the reasons why metrics are undefined, or means over a subset of the targets.

        Args:
            y: [k, t] labels; NaN for missing labels.
            names: names of the targets.
            classes: classes of each target; empty for numbers.
        """
        return metrics.undefined_metrics(y, self.metrics, names, classes)


class Regression(Task):
    """Numbers, predicted with their intervals."""

    name, is_class, label = "regression", False, "a number"
    regions, pooled, calibrator = "intervals", "predictions", IntervalCalibrator
    metrics = ("rmse", "mae", "r2")

    def scaling(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means and the standard deviations of the labels."""
        return moments(y)

    def loss(self, counts: Counts = (), **options: Any) -> Loss:
        """Return the squared or the absolute error."""
        return losses.regression_loss(**options)

    def measure(self, y: Tensor, predicted: Tensor) -> dict[str, float]:
        """Compute the result of :func:`gattn.apps.fitting.metrics.regression_metrics`."""
        return metrics.regression_metrics(y, predicted[:, 0])


class Classification(Task):
    """Two classes, 0 and 1; the output is the logit of class 1."""

    name, label = "classification", "one of two classes"
    metrics = ("roc_auc", "pr_auc", "accuracy")

    def loss(self, counts: Counts = (), **options: Any) -> Loss:
        """Return the binary cross entropy."""
        return losses.cross_entropy

    def link(self, outputs: Tensor, counts: Counts = ()) -> Tensor:
        """Return the probabilities of class 1."""
        return outputs.sigmoid()

    def clip(self, means: Tensor, counts: Counts = ()) -> Tensor:
        """Clip the means to 0..1."""
        return means.clamp(0, 1)

    def probabilities(self, predicted: Tensor, counts: Counts = ()) -> list[Tensor]:
        """Return the probabilities of both classes, [k, 2] for each target."""
        return [torch.stack([1 - each, each], 1) for each in predicted.unbind(1)]

    def measure(self, y: Tensor, predicted: Tensor) -> dict[str, float]:
        """Compute the result of :func:`gattn.apps.fitting.metrics.classification_metrics`."""
        return metrics.classification_metrics(y, predicted[:, 0])


class Multiclass(Task):
    """Several exclusive classes for each target, numbered from 0; the outputs are logits.

    Example:
        >>> MULTICLASS.outputs_of(torch.tensor([[1.0], [torch.nan]]), [3])
        tensor([[0., 1., 0.],
                [nan, nan, nan]], dtype=torch.float64)
        >>> MULTICLASS.clip(torch.tensor([[0.5, 1.5, -1.0], [-1.0, 0.0, 0.0]]), [3])
        tensor([[0.3333, 0.6667, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """

    name, label = "multiclass", "a class"
    metrics = ("accuracy", "f1", "roc_auc", "pr_auc")
    most_classes = MOST_CLASSES

    def loss(self, counts: Counts = (), **options: Any) -> Loss:
        """Return the cross entropy of each target."""
        return losses.multiclass_cross_entropy(counts)

    def link(self, outputs: Tensor, counts: Counts = ()) -> Tensor:
        """Return probabilities; those of the classes of a target sum to 1."""
        parts = self.probabilities(outputs, counts)
        return torch.cat([part.softmax(-1) for part in parts], -1)

    def clip(self, means: Tensor, counts: Counts = ()) -> Tensor:
        """Clip the means to 0..1, and divide those of the classes of a target by their sum. If all
        means of a target are 0 or less, its classes have equal probabilities.
        """
        columns = []
        for part in self.probabilities(means.clamp(0, 1), counts):
            total = part.sum(-1, keepdim=True)
            share = part / total.clamp(min=1e-12)
            columns.append(torch.where(total > 0, share, 1 / part.shape[-1]))
        return torch.cat(columns, -1)

    def outputs_of(self, y: Tensor, counts: Counts = ()) -> Tensor:
        """Return 1 in the column of each label's class, and 0 in the other columns of its target;
        NaN in all columns of a target without a label: [k, O] float64. ``counts`` are the numbers
        of classes of the targets. Raises ValueError if their number is another.
        """
        columns = []
        for label, count in zip(y.double().unbind(1), counts, strict=True):
            column = (label[:, None] == torch.arange(count)).double()
            columns.append(column.masked_fill(label.isnan()[:, None], torch.nan))
        return torch.cat(columns, 1)

    def probabilities(self, predicted: Tensor, counts: Counts = ()) -> list[Tensor]:
        """Split predictions [..., O] into one tensor [..., c] for each target."""
        return list(predicted.split(list(counts), dim=-1))

    def measure(self, y: Tensor, predicted: Tensor) -> dict[str, float]:
        """Compute the results of :func:`gattn.apps.fitting.metrics.multiclass_metrics` and
        :func:`gattn.apps.fitting.metrics.class_agreement` on the rows with a label.
        """
        labelled = y.isfinite()
        classes, chances = y[labelled].long(), predicted[labelled].clamp(0, 1)
        results = metrics.multiclass_metrics(classes, chances)
        return results | metrics.class_agreement(classes, chances)

    def undefined(
        self, y: Tensor, names: Sequence[object], classes: Sequence[Sequence[object]]
    ) -> dict[str, str]:
        """Return the reasons for each metric, joined by semicolons if several targets have one. The
        arguments are those of :meth:`Task.undefined`.
        """
        reasons: dict[str, str] = {}
        for name, kinds, column in zip(names, classes, y.T):
            title = f"{name!r}: " if len(names) > 1 else ""
            labels = column[column.isfinite()].long()
            lost = metrics.undefined_class_metrics(labels, self.metrics, kinds)
            for metric, reason in lost.items():
                before = reasons.get(metric)
                reasons[metric] = f"{before}; " * bool(before) + title + reason
        return reasons


class ClassIndices(Multiclass):
    """Several exclusive classes of a single target, whose labels [k, 1] are not encoded as columns
    of outputs.
    """

    name = "classification"

    def loss(self, counts: Counts = (), **options: Any) -> Loss:
        """Return the cross entropy of class indices."""
        return losses.class_loss

    def probabilities(self, predicted: Tensor, counts: Counts = ()) -> list[Tensor]:
        """Return the predictions as those of the only target."""
        return [predicted]

    def measure(self, y: Tensor, predicted: Tensor) -> dict[str, float]:
        """Compute the result of :func:`gattn.apps.fitting.metrics.multiclass_metrics`. The labels
        must not be missing.
        """
        return metrics.multiclass_metrics(y.long(), predicted)


REGRESSION, CLASSIFICATION, MULTICLASS = Regression(), Classification(), Multiclass()
CLASS_INDICES = ClassIndices()
TASKS: dict[str, Task] = {str(t): t for t in (REGRESSION, CLASSIFICATION, MULTICLASS)}
"""Types of labels by name."""
SINGLE_TARGET_TASKS: dict[str, Task] = {str(t): t for t in (REGRESSION, CLASS_INDICES)}
"""Types of labels of a model with a single target, by name."""


def class_task(count: int) -> Task:
    """Return the type of the labels of targets with at most ``count`` classes."""
    return MULTICLASS if count > 2 else CLASSIFICATION
