"""Baseline models that use only the features of the nodes, only the edges, or neither."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from gattn.apps.nodes.features import EncodedGraph
from gattn.apps.nodes.settings import NodeTask

STEPS = 50  # number of steps of label propagation


def baseline_predictions(
    encoded: EncodedGraph,
    y: Tensor,
    train: Tensor,
    task: NodeTask,
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
            baselines are the components ``columns`` and ``propagation``.

    Returns:
        Probabilities [n, classes] or numbers [n, 1] by name of the model: ``logistic_regression``
        (for numbers ``ridge``) reads only the features, ``label_propagation`` reads only the edges,
        and ``majority`` (for numbers ``mean``) has the same prediction for all nodes.
    """
    labels = y[train]
    if task == "classification":
        one_hot = torch.nn.functional.one_hot(labels.long(), classes).double()
        first, last = "logistic_regression", "majority"
    else:
        one_hot, first, last = labels[:, None], "ridge", "mean"
    constant = one_hot.mean(0, keepdim=True).expand(len(y), -1)
    if encoded.graph.compact:
        names = {first: "columns", "label_propagation": "propagation"}
        some = {name: components[part] for name, part in names.items() if part in components}
        return {**some, last: constant}
    return {
        first: _features_only(encoded.x, labels, train, task, classes),
        "label_propagation": propagate_labels(encoded.graph.edge_index, one_hot, train, len(y)),
        last: constant,
    }


def propagate_labels(edge_index: Tensor, labels: Tensor, train: Tensor, nodes: int) -> Tensor:
    r"""Predict labels by label propagation: spread the training labels along the edges.

    .. math:: F \leftarrow D^{-1} A F, \qquad F_i = \text{label}_i \text{ where it is known}

    Args:
        edge_index: [2, e] int64.
        labels: [k, c], one-hot classes or numbers.
        train: [k] int64, the nodes that have these labels.
        nodes: number n of nodes.

    Returns:
        [n, c] float64 after 50 steps; nodes that no label reaches get the mean of the labels.

    Reference:
        Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation"
        (CMU technical report 2002).

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> propagate_labels(path, torch.tensor([[0.0], [1.0]]), torch.tensor([0, 2]), 3)
        tensor([[0.0000],
                [0.5000],
                [1.0000]], dtype=torch.float64)
    """
    source, destination = edge_index.numpy()
    matrix = sp.csr_matrix((np.ones(len(source)), (destination, source)), (nodes, nodes))
    start, rows = labels.double().numpy(), train.numpy()
    # The last column is the fraction of a node's value that comes from labelled nodes.
    values = np.zeros((nodes, start.shape[1] + 1))
    clamped = np.hstack([start, np.ones((len(start), 1))])
    values[rows] = clamped
    degree = np.maximum(np.asarray(matrix.sum(1)), 1)
    for _ in range(STEPS):
        values = (matrix @ values) / degree
        values[rows] = clamped
    reached = values[:, -1:] > 0
    spread = values[:, :-1] / np.where(reached, values[:, -1:], 1)
    return torch.from_numpy(np.where(reached, spread, start.mean(0)))


def _features_only(x: Tensor, y: Tensor, train: Tensor, task: NodeTask, classes: int) -> Tensor:
    matrix = _as_scipy(x)
    if task == "regression":
        ridge = Ridge().fit(matrix[train.numpy()], y.numpy())
        return torch.from_numpy(ridge.predict(matrix))[:, None]
    labels = y.long().numpy()
    probability = np.zeros((len(x), classes))
    kinds = np.unique(labels)
    if len(kinds) < 2:
        probability[:, kinds] = 1
        return torch.from_numpy(probability)
    model = LogisticRegression(C=100.0, max_iter=1000, tol=1e-3).fit(matrix[train.numpy()], labels)
    probability[:, kinds] = model.predict_proba(matrix)
    return torch.from_numpy(probability)


def _as_scipy(x: Tensor) -> sp.csr_matrix:
    if x.layout == torch.strided:
        return sp.csr_matrix(x.double().numpy())
    parts = x.values().double().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
    return sp.csr_matrix(parts, shape=tuple(x.shape))
