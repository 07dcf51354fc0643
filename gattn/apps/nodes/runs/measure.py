"""Metrics of the predictions for nodes, in total and for each class, with a reason if a metric
is undefined.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import precision_recall_fscore_support
from torch import Tensor

from gattn.apps.fitting.tasks import Task
from gattn.apps.nodes.features import EncodedGraph
from gattn.apps.nodes.stack.blocks import as_matrix
from gattn.apps.nodes.stack.propagation import Neighbours, propagate
from gattn.apps.run import measure as common

STEPS = 50  # number of steps of label propagation


def baseline_predictions(
    encoded: EncodedGraph,
    y: Tensor,
    train: Tensor,
    task: Task,
    classes: int,
    components: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Train simple models, and return their predictions for every node.

    Args:
        encoded: the graph and its features.
        y: [n] labels: numbers of classes from 0, or numbers to predict.
        train: [k] int64 nodes to train on.
        task: type of the labels.
        classes: number of classes; 1 for numbers.
        components: predictions of the components of a stack, by name. For a compact graph, the
            baselines are the components ``columns`` and ``propagation``, if there are any, and the
            constant.

    Returns:
        Probabilities [n, classes] or numbers [n, 1] by name of the model: ``logistic_regression``
        (for numbers ``ridge``) reads only the features, ``label_propagation`` reads only the edges,
        and ``majority`` (for numbers ``mean``) has the same prediction for all nodes.

    Warns:
        ConvergenceWarning: the logistic regression stopped after 1,000 steps.
    """
    labels = y[train]
    if task.is_class:
        one_hot = torch.nn.functional.one_hot(labels.long(), classes).double()
        first, last = "logistic_regression", "majority"
    else:
        one_hot, first, last = labels[:, None], "ridge", "mean"
    constant = one_hot.mean(0, keepdim=True).expand(len(y), -1)
    if encoded.graph.compact:
        names = {first: "columns", "label_propagation": "propagation"}
        some = {name: components[part] for name, part in names.items() if part in components}
        return {**some, last: constant}
    means = Neighbours(encoded.graph.edge_index, len(y), directed=True).means
    spread = propagate(means, one_hot.numpy(), train.numpy(), STEPS)[:, :-1]
    return {
        first: _features_only(encoded.x, labels, train, task, classes),
        "label_propagation": torch.from_numpy(spread).double(),
        last: constant,
    }


def _features_only(x: Tensor, y: Tensor, train: Tensor, task: Task, classes: int) -> Tensor:
    """Return the predictions [n, c] of a linear model that reads only the features x of the n
    nodes, [n, d], dense or sparse.

    The model is fitted to the labels y [k] of the nodes ``train`` [k]: a logistic regression, whose
    class probabilities are returned, or a ridge regression (c = 1). Classes without a label have
    probability 0. scikit-learn issues a ConvergenceWarning if the logistic regression stops after
    1,000 steps.
    """
    matrix = as_matrix(x).astype(np.float64)
    if not task.is_class:
        ridge = Ridge().fit(matrix[train.numpy()], y.numpy())
        return torch.from_numpy(ridge.predict(matrix))[:, None]
    labels = y.long().numpy()
    probability = np.zeros((len(x), classes))
    kinds = np.unique(labels)
    if len(kinds) < 2:
        probability[:, kinds] = 1
        return torch.from_numpy(probability)
    model = LogisticRegression(C=100.0, max_iter=1000, tol=1e-3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model.fit(matrix[train.numpy()], labels)
    probability[:, kinds] = model.predict_proba(matrix)
    return torch.from_numpy(probability)


SIGNIFICANT = 2.0
"""Number of standard errors by which predictions must be better than a constant."""


def class_scores(y: Tensor, guess: Tensor, classes: int) -> list[dict[str, float]]:
    """Return a dictionary for each class with its precision, recall, F1 and number of nodes, given
    the classes y [k] of the nodes and their predicted classes [k].

    A score is NaN if it is undefined.

    >>> class_scores(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2)[0]
    {'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666, 'nodes': 2}
    """
    # scikit-learn accepts NaN, but its type annotation does not.
    undefined_score: Any = np.nan
    scores: Any = precision_recall_fscore_support(
        y.long(), guess, labels=range(classes), zero_division=undefined_score
    )
    names = "precision", "recall", "f1", "nodes"
    return [dict(zip(names, row)) for row in zip(*(column.tolist() for column in scores))]


def is_noise(
    task: Task, metrics: Mapping[str, float], y: Tensor, predicted: Tensor, constant: Tensor
) -> bool:
    """Return True if predictions are not significantly better than a constant prediction.

    Classes are significantly better if the accuracy is higher than that of the constant by more
    than two standard errors, or the area under the ROC curve is higher than 0.5 by more than two
    standard errors of a random order (Mann and Whitney 1947). Numbers are significantly better if
    the mean difference of the squared errors, or Spearman's rank correlation with the labels, which
    no outlier determines, is more than two standard errors. Both need two nodes or more.

    Args:
        task: type of the labels.
        metrics: metrics of the predictions.
        y: [k] labels without NaN.
        predicted: [k, classes] probabilities, or [k, 1] numbers.
        constant: the same constant prediction for all nodes, of the same shape: the frequencies of
            the classes, or the mean.

    >>> from gattn.apps.fitting.tasks import CLASS_INDICES
    >>> y, constant = torch.tensor([0.0, 1.0]).repeat(200), torch.full((400, 2), 0.5)
    >>> is_noise(CLASS_INDICES, {"accuracy": 0.52, "roc_auc": 0.51}, y, constant, constant)
    True
    >>> is_noise(CLASS_INDICES, {"accuracy": 0.52, "roc_auc": 0.64}, y, constant, constant)
    False
    """
    count = len(y)
    if not task.is_class:
        if count < 2:
            return True
        errors = torch.stack([y - constant[:, 0], y - predicted[:, 0]]).double()
        # The division prevents an overflow of the squares of large labels.
        squares = (errors / errors[0].abs().max()).square()
        gain = squares[0] - squares[1]
        ranks = rankdata(torch.stack([y, predicted[:, 0]]).numpy(), axis=1) - (count + 1) / 2
        correlated = (ranks[0] * ranks[1]).sum() * (count - 1) ** 0.5
        return not (
            float(gain.mean()) > SIGNIFICANT * float(gain.std()) / count**0.5
            or correlated > SIGNIFICANT * np.sqrt(np.square(ranks).sum(1).prod())
        )
    share = float((constant.argmax(1) == y).double().mean())
    error = (max(share * (1 - share), 1 / count) / count) ** 0.5
    sizes = y.long().bincount().double()
    sizes = sizes[(sizes > 0) & (sizes < count)]
    ordered = float(((count + 1) / (12 * sizes * (count - sizes))).sqrt().mean())
    return not (
        metrics["accuracy"] > share + SIGNIFICANT * error
        or metrics["roc_auc"] > 0.5 + SIGNIFICANT * ordered
    )


def measure_intervals(
    estimator: Any, y: Tensor, predicted: Tensor, coverage: float
) -> dict[str, float]:
    """Measure how often prediction intervals, or sets of classes, contain the true value.

    Args:
        estimator: a fitted :class:`NodeClassifier` or :class:`NodeRegressor`.
        y: [k] labels without NaN.
        predicted: [k, outputs] predictions.
        coverage: the requested coverage.

    Returns:
        The result of :func:`gattn.apps.run.measure.interval_metrics`, or of ``set_metrics`` for
        classes.
    """
    if not estimator.task.is_class:
        lower, upper = estimator.intervals(predicted, coverage)
        return common.interval_metrics(y[:, None], lower, upper, coverage)
    sets = estimator.sets(predicted, coverage)[:, None]
    always = estimator.calibrator_.in_every_set(coverage, {"": estimator.classes_})
    return common.set_metrics(y[:, None], sets, coverage, always)
