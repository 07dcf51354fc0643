"""How good predictions of nodes are, and whether their sets or intervals keep their word."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.nodes.base import NodeEstimator
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.settings import NodeTask
from gattn.training.metrics import (
    multiclass_metrics,
    regression_metrics,
    undefined_metrics,
)

__all__ = [
    "class_scores",
    "confusion",
    "measure",
    "measure_intervals",
    "undefined",
    "undefined_scores",
]


def measure(task: NodeTask, y: Tensor, made: Tensor) -> dict[str, float]:
    """The metrics of a task.

    Args:
        task: what is predicted.
        y: [k] labels, none missing.
        made: [k, classes] probabilities, or [k, 1] numbers.
    """
    if task == "classification":
        return multiclass_metrics(y.long(), made)
    return regression_metrics(y, made[:, 0])


def undefined(estimator: NodeEstimator, y: Tensor) -> dict[str, str]:
    """Say why metrics of a part are undefined, or are means that leave out classes.

    Args:
        estimator: a fitted one.
        y: [k] labels of the part, none missing.

    Returns:
        A reason for each such metric; empty where all are defined for all classes.
    """
    if isinstance(estimator, NodeClassifier):
        return undefined_metrics(y, "multiclass", [str(kind) for kind in estimator.classes_])
    return undefined_metrics(y, "regression")


def confusion(y: Tensor, made: Tensor) -> Tensor:
    """How many nodes of each class (rows) were predicted as each class (columns): [c, c] int64."""
    classes = made.shape[1]
    return torch.bincount(y.long() * classes + made.argmax(1), minlength=classes * classes).reshape(
        classes, classes
    )


def class_scores(counts: Tensor) -> list[dict[str, float]]:
    """Precision, recall, F1 and the number of nodes of every class, from :func:`confusion`.

    >>> class_scores(torch.tensor([[3, 1], [0, 4]]))[0]
    {'precision': 1.0, 'recall': 0.75, 'f1': 0.8571428571428571, 'nodes': 4}
    """
    hit, real, said = counts.diagonal(), counts.sum(1), counts.sum(0)
    rows = zip(hit.tolist(), real.tolist(), said.tolist())
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
    """Say why scores of :func:`class_scores` are undefined, for each class that has such a score.

    >>> undefined_scores(torch.tensor([[3, 0], [1, 0]]), ["a", "b"])
    {'b': {'precision': 'undefined: no node is predicted to have this class'}}
    """
    reasons: dict[str, dict[str, str]] = {}
    for name, nodes, predicted in zip(names, counts.sum(1).tolist(), counts.sum(0).tolist()):
        told = {} if predicted else {"precision": "no node is predicted to have this class"}
        told |= {} if nodes else {"recall": "no node of the test part has this class"}
        if len(told) == 2:
            told["f1"] = "no node has this class, and none is predicted to have it"
        if told:
            reasons[name] = {score: f"undefined: {reason}" for score, reason in told.items()}
    return reasons


def measure_intervals(
    estimator: NodeEstimator, y: Tensor, made: Tensor, coverage: float
) -> dict[str, float]:
    """Whether intervals, or sets of classes, hold the truth as often as they promise.

    Args:
        estimator: a fitted one.
        y: [k] labels, none missing.
        made: [k, outputs] predictions.
        coverage: the promise.

    Returns:
        ``coverage``; ``held``, the share of labels in their interval or set; ``mean_width`` of
        intervals, or ``mean_size`` of sets; ``in_every_set``, how many classes had too few
        validation nodes for that promise.
    """
    if isinstance(estimator, NodeRegressor):
        low, high = estimator.intervals(made, coverage)
        held, size, name = (low <= y[:, None]) & (y[:, None] <= high), high - low, "mean_width"
        more = {}
    elif isinstance(estimator, NodeClassifier):
        sets = estimator.sets(made, coverage)
        held, size, name = sets.gather(1, y.long()[:, None]), sets.sum(1), "mean_size"
        more = {"in_every_set": estimator.calibrator_.in_every_set(coverage)}
    else:
        raise TypeError(f"{type(estimator).__name__} has neither intervals nor sets")
    return {
        "coverage": coverage,
        "held": float(held.double().mean()),
        name: float(size.double().mean()),
        **more,
    }
