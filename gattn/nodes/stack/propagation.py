"""Compute means of features and labels over neighbours, as inputs of models without edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Neighbours", "label_features", "propagate", "propagate_folds"]

FOLDS = 5
"""Number of folds of the training nodes. Labels of a fold are hidden to compute its features."""
STEPS = 15
RESTART = 0.15
"""Probability of a restart in each of the ``STEPS`` steps of label propagation."""

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


class Neighbours:
    r"""Matrices A whose product A x is the mean of x over the neighbours of each node.

    .. math:: (A x)_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} x_j

    Args:
        edge_index: [2, e] int64, the edges in the directions of the data; self-loops are ignored.
        nodes: number n of nodes.
        directed: True if the neighbours of a node are only the sources of the edges into it.

    Attributes:
        means: the matrix [n, n] of means over all neighbours.
        along: two matrices, of means over the sources of the edges into a node, and over the
            destinations of the edges out of it. It is empty if ``directed`` is True or if every
            edge has an opposite edge.
        degrees: [n, 2], logarithms of the numbers of edges into and out of a node, plus one.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> Neighbours(path, 3).means.toarray()[1].tolist()
        [0.5, 0.0, 0.5]
    """

    def __init__(self, edge_index: Tensor, nodes: int, *, directed: bool = False) -> None:
        # With a self-loop, a node's own label would be among its features.
        source, destination = edge_index[:, edge_index[0] != edge_index[1]].numpy()
        ones = np.ones(len(source), np.float32)
        into: Matrix = sp.csr_matrix((ones, (destination, source)), (nodes, nodes))
        into.data[:] = 1  # repeated edges, which SciPy sums, count once
        out: Matrix = into.T.tocsr()
        both: Matrix = into.maximum(out).tocsr()
        symmetric = both.nnz == into.nnz
        self.means = _row_means(into if directed else both)
        self.along = [] if directed or symmetric else [_row_means(into), _row_means(out)]
        counts = [np.asarray(one.sum(1)).ravel() for one in (into, out)]
        self.degrees = np.log1p(np.stack(counts, 1)).astype(np.float32)

    def one_hop(self) -> list[Matrix]:
        """Return the matrices of means over one step, one for each direction if they differ."""
        return self.along or [self.means]


def _row_means(matrix: Matrix) -> Matrix:
    counts = np.maximum(np.asarray(matrix.sum(1)).ravel(), 1)
    return (sp.diags((1 / counts).astype(np.float32)) @ matrix).tocsr()


def propagate(means: Matrix, labels: NDArray, train: NDArray) -> NDArray[np.float32]:
    r"""Spread labels along the edges with restarts.

    .. math:: F \leftarrow (1 - r) A F + r Y

    Args:
        means: [n, n] means over neighbours.
        labels: [k, c], one-hot classes or numbers.
        train: [k], the nodes that have these labels.

    Returns:
        [n, c + 1]: the weighted mean of the labels that reach a node, and in the last column the
        sum of the weights. A node that no label reaches has the mean of all labels.

    Reference:
        Klicpera et al., "Predict then propagate" (ICLR 2019).
    """
    start = np.zeros((means.shape[0], labels.shape[1] + 1), np.float32)
    start[train, :-1], start[train, -1] = labels, 1
    value = start
    for _ in range(STEPS):
        value = (1 - RESTART) * (means @ value) + RESTART * start
    amount = value[:, -1:]
    mean = labels.mean(0, dtype=np.float64).astype(np.float32)
    spread = np.where(amount > 0, value[:, :-1] / np.where(amount > 0, amount, 1), mean)
    return np.hstack([spread, amount]).astype(np.float32)


def propagate_folds(
    means: Matrix, labels: NDArray, train: NDArray, seed: int
) -> NDArray[np.float32]:
    """Spread labels as :func:`propagate` does, but to a training node only those of other folds.

    Args:
        means: [n, n] means over neighbours.
        labels: [k, c], one-hot classes or numbers.
        train: [k], the nodes that have these labels.
        seed: seed of the folds.

    Returns:
        [n, c + 1]. The row of a training node does not depend on its label.
    """
    spread = propagate(means, labels, train)
    fold = np.random.default_rng(seed).permutation(len(train)) % min(FOLDS, len(train))
    for number in range(int(fold.max()) + 1 if len(train) > 1 else 0):
        hidden = fold == number
        spread[train[hidden]] = propagate(means, labels[~hidden], train[~hidden])[train[hidden]]
    return spread


def label_features(
    neighbours: Neighbours, labels: NDArray, train: NDArray, guess: NDArray, seed: int
) -> list[NDArray[np.float32]]:
    r"""Return features of each node computed from the labels of other nodes.

    A predicted label stands for that of a node without a label. Means over one step do not contain
    a node's own label. From means over two steps, the walks back to the node are subtracted. If
    edges have a direction, these are also the means over the nodes that share a destination, and
    over those that share a source. To a training node, only the labels of the other folds are
    propagated.

    .. math:: A \tilde Y, \qquad A B \tilde Y - \mathrm{diag}(A B) \tilde Y

    Args:
        neighbours: the graph.
        labels: [k, c], one-hot classes or numbers.
        train: [k], the nodes that have these labels.
        guess: [n, c], predictions of a model that does not read the labels of neighbours.
        seed: seed of the folds.

    Returns:
        Blocks of features [n, ...]. The features of a training node do not depend on its label.
    """
    complete = guess.astype(np.float32)
    complete[train] = labels
    means = neighbours.means
    blocks = [one @ complete for one in (means, *neighbours.along)]
    steps = [(means, means)]
    if neighbours.along:
        into, out = neighbours.along
        steps += [(out, into), (into, out)]
    for last, first in steps:
        back = np.asarray(last.multiply(first.T).sum(1)).ravel()[:, None]
        blocks.append(last @ (first @ complete) - back * complete)
    return [*blocks, propagate_folds(means, labels, train, seed)]
