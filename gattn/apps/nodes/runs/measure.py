"""Metrics of the predictions for nodes, in total and for each class, with a reason if a metric
is undefined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.metrics import precision_recall_fscore_support
from torch import Tensor

from gattn.apps.fitting.metrics import undefined_metrics
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.apps.nodes.models import AnyPredictor, attention_network
from gattn.apps.nodes.settings import NodeTask
from gattn.apps.nodes.typed.predictor import attention_shares
from gattn.apps.run import measure as common

MAX_VALUES = 2_000_000
"""Edges are only permuted if (number of edges) x (number of columns) is at most this number."""


def edge_importance(
    predictor: AnyPredictor, graph: AttributedGraph, y: Tensor, part: Tensor, seed: int
) -> dict[str, dict[str, Any]]:
    """Return for each column of the edges, or for each relation, the metrics of a part after its
    values or the destinations of its edges were permuted, and the attention to a relation.

    For the models of a stack, this takes seconds for each column. It is an importance by
    permutation (Breiman, "Random forests", Machine Learning 2001).

    Args:
        predictor: the fitted model.
        graph: its graph, with the inputs of the edges.
        y: [n] labels.
        part: indices of the nodes on which the metrics are computed.
        seed: seed of the permutations.

    Returns:
        The entries ``permuted`` and ``attention`` by the name of a column or a relation. It is
        empty if no column is read, or if the graph has too many edges.
    """
    encoder, network = predictor.encoder, graph.network
    shares: dict[str, float] = {}
    size = graph.edge_index.shape[1] * (0 if encoder.edges is None else len(encoder.edges.names))
    if network is not None:
        attention: Any = attention_network(predictor)
        shares = {str(name): one for name, one in attention_shares(attention, graph).items()}
        size = sum(map(len, network.edges.values()))
    if size > MAX_VALUES:
        return {}
    importance = {}
    for name, permuted in encoder.permuted(graph, seed):
        predicted = predictor.predict_edited(permuted, graph)
        metrics = measure(predictor.task, y[part], predicted[part])
        importance[name] = {"attention": shares.get(name), "permuted": metrics}
    return importance


SIGNIFICANT = 2.0
"""Number of standard errors by which predictions must be better than a constant."""


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
        return undefined_metrics(y, "multiclass", [str(kind) for kind in estimator.classes_])
    return undefined_metrics(y, "regression")


def class_scores(y: Tensor, guess: Tensor, classes: int) -> list[dict[str, float]]:
    """Return precision, recall, F1 and the number of nodes for each class.

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
    task: NodeTask, metrics: Mapping[str, float], y: Tensor, predicted: Tensor, constant: Tensor
) -> bool:
    """Return True if predictions are not significantly better than a constant prediction.

    Classes are significantly better if the accuracy is higher than that of the constant by more
    than two standard errors, or the area under the ROC curve is higher than 0.5 by more than two
    standard errors of a random order (Mann and Whitney 1947). Numbers are significantly better if
    the mean difference of the squared errors is more than two standard errors,
    which cannot be computed for a single node.

    Args:
        task: classification for classes, regression for numbers.
        metrics: metrics of the predictions, from :func:`measure`.
        y: [k] labels without NaN.
        predicted: [k, classes] probabilities, or [k, 1] numbers.
        constant: the same constant prediction for all nodes, of the same shape: the frequencies of
            the classes, or the mean.

    >>> y, constant = torch.tensor([0.0, 1.0]).repeat(200), torch.full((400, 2), 0.5)
    >>> is_noise("classification", {"accuracy": 0.52, "roc_auc": 0.51}, y, constant, constant)
    True
    >>> is_noise("classification", {"accuracy": 0.52, "roc_auc": 0.64}, y, constant, constant)
    False
    """
    count = len(y)
    if task == "regression":
        if count < 2:
            return True
        errors = torch.stack([y - constant[:, 0], y - predicted[:, 0]]).double()
        # The division prevents an overflow of the squares of large labels.
        squares = (errors / errors[0].abs().max()).square()
        gain = squares[0] - squares[1]
        return not float(gain.mean()) > SIGNIFICANT * float(gain.std()) / count**0.5
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
    estimator: NodeEstimator, y: Tensor, predicted: Tensor, coverage: float
) -> dict[str, float]:
    """Measure how often prediction intervals, or sets of classes, contain the true value.

    Args:
        estimator: a fitted estimator.
        y: [k] labels without NaN.
        predicted: [k, outputs] predictions.
        coverage: the requested coverage.

    Returns:
        The result of :func:`gattn.apps.run.measure.interval_metrics`, or of ``set_metrics`` for
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
