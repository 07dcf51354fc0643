"""Metrics of the predictions for nodes, in total and for each class, with a reason if a metric
is undefined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gattn.nodes.base import NodeEstimator
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.settings import NodeTask
from gattn.pipeline import measure as common
from gattn.training.metrics import undefined_metrics

__all__ = [
    "class_scores",
    "confusion",
    "is_noise",
    "measure",
    "measure_intervals",
    "undefined",
    "undefined_scores",
]


def measure(task: NodeTask, y: Tensor, predicted: Tensor) -> dict[str, float]:
    """Return a dictionary from the name of each metric to its value.

    Args:
        task: classification for classes, regression for numbers.
        y: [k] labels without NaN.
        predicted: [k, classes] probabilities, or [k, 1] numbers.
    """
    if task == "classification":
        return common.measure("multiclass", y, predicted)
    return common.measure("regression", y, predicted[:, 0])


def undefined(estimator: NodeEstimator, y: Tensor) -> dict[str, str]:
    """Return the reasons why some metrics of a part are undefined, or are means over a subset of
    the classes.

    Args:
        estimator: a fitted estimator.
        y: [k] labels of the part, without NaN.

    Returns:
        A reason for each such metric; empty if all are defined for all classes.
    """
    if isinstance(estimator, NodeClassifier):
        lost = undefined_metrics(y, "multiclass", [str(kind) for kind in estimator.classes_])
    else:
        lost = undefined_metrics(y, "regression")
    return {metric: one.reason for metric, one in lost.items()}


def confusion(y: Tensor, predicted: Tensor) -> Tensor:
    """Return the confusion matrix [c, c] int64. Rows are true classes, and columns are predicted
    classes.
    """
    classes = predicted.shape[1]
    return torch.bincount(
        y.long() * classes + predicted.argmax(1), minlength=classes * classes
    ).reshape(classes, classes)


def class_scores(counts: Tensor) -> list[dict[str, float]]:
    """Return precision, recall, F1 and the number of nodes for each class, computed from a
    confusion matrix.

    A score is NaN if it is undefined.

    >>> class_scores(torch.tensor([[3, 1], [0, 4]]))[0]
    {'precision': 1.0, 'recall': 0.75, 'f1': 0.8571428571428571, 'nodes': 4}
    """
    correct, nodes, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
    rows = zip(correct.tolist(), nodes.tolist(), predicted.tolist())
    return [
        {
            "precision": right / predicted if predicted else float("nan"),
            "recall": right / nodes if nodes else float("nan"),
            "f1": 2 * right / (nodes + predicted) if nodes + predicted else float("nan"),
            "nodes": nodes,
        }
        for right, nodes, predicted in rows
    ]


def undefined_scores(counts: Tensor, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the reasons why results of :func:`class_scores` are undefined, for each class and
    score.

    >>> undefined_scores(torch.tensor([[3, 0], [1, 0]]), ["a", "b"])
    {'b': {'precision': 'undefined: no node is predicted to have this class'}}
    """
    reasons: dict[str, dict[str, str]] = {}
    for name, nodes, predicted in zip(names, counts.sum(1).tolist(), counts.sum(0).tolist()):
        missing = {} if predicted else {"precision": "no node is predicted to have this class"}
        missing |= {} if nodes else {"recall": "no node of the test part has this class"}
        if len(missing) == 2:
            missing["f1"] = "no node has this class, and none is predicted to have it"
        if missing:
            reasons[name] = {score: f"undefined: {reason}" for score, reason in missing.items()}
    return reasons


def is_noise(metrics: Mapping[str, float], constant: Mapping[str, float], nodes: int) -> bool:
    """Return True if a model is not significantly better than a constant prediction.

    Args:
        metrics: metrics of the model.
        constant: metrics of the most frequent class, or of the mean.
        nodes: number of nodes on which both were measured.

    >>> is_noise({"accuracy": 0.52}, {"accuracy": 0.5}, 400)
    True
    """
    if "accuracy" in metrics:
        share = constant["accuracy"]
        error = (max(share * (1 - share), 1 / nodes) / nodes) ** 0.5
        return metrics["accuracy"] <= share + 2 * error
    return metrics["rmse"] >= constant["rmse"] * (1 - 1 / nodes**0.5)


def measure_intervals(
    estimator: NodeEstimator, y: Tensor, predicted: Tensor, coverage: float
) -> dict[str, float]:
    """Measure how often prediction intervals, or sets of classes, contain the true value.

    Args:
        estimator: a fitted estimator.
        y: [k] labels without NaN.
        predicted: [k, outputs] predictions.
        coverage: the requested coverage.

    Returns:
        The result of :func:`gattn.pipeline.measure.interval_metrics`, or of ``set_metrics`` for
        classes.
    """
    if isinstance(estimator, NodeRegressor):
        lower, upper = estimator.intervals(predicted, coverage)
        return common.interval_metrics(y[:, None], lower, upper, coverage)
    if isinstance(estimator, NodeClassifier):
        sets = estimator.sets(predicted, coverage)[:, None]
        always = estimator.calibrator_.in_every_set(coverage)
        return common.set_metrics(y[:, None], sets, coverage, in_every_set=always)
    raise TypeError(f"{type(estimator).__name__} has neither intervals nor sets")
