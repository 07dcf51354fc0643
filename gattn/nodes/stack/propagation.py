"""Means of features and of labels over neighbours, for models that do not read the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Neighbours", "label_features", "propagate"]

FOLDS = 5
"""Parts of the training nodes, whose labels are hidden in turn."""
STEPS = 15
RESTART = 0.15
"""Steps and restart probability of propagation along the edges."""

Matrix = Any
"""A sparse matrix of SciPy, whose types are incomplete."""


class Neighbours:
    r"""Matrices whose products are means over the neighbours of each node.

    .. math:: (A x)_i = \frac{1}{|N(i)|} \sum_{j \in N(i)} x_j

    Args:
        edge_index: [2, e] int64, the edges as they are in the data; self-loops are left out.
        nodes: n.
        directed: True if only the sources of a node's edges are its neighbours.

    Attributes:
        means: the matrix over all neighbours [n, n].
        along: matrices over the sources of the edges into a node and over the destinations of the
            edges out of it; empty if every edge has its opposite, or messages have one direction.
        degrees: [n, 2], logarithms of the numbers of both.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> Neighbours(path, 3).means.toarray()[1].tolist()
        [0.5, 0.0, 0.5]
    """

    def __init__(self, edge_index: Tensor, nodes: int, *, directed: bool = False) -> None:
        # A loop would give a node its own label.
        source, destination = edge_index[:, edge_index[0] != edge_index[1]].numpy()
        ones = np.ones(len(source), np.float32)
        into: Matrix = sp.csr_matrix((ones, (destination, source)), (nodes, nodes))
        into.data[:] = 1  # SciPy adds the values of repeated edges
        out: Matrix = into.T.tocsr()
        both: Matrix = into.maximum(out).tocsr()
        symmetric = both.nnz == into.nnz
        self.means = _row_means(into if directed else both)
        self.along = [] if directed or symmetric else [_row_means(into), _row_means(out)]
        counts = [np.asarray(one.sum(1)).ravel() for one in (into, out)]
        self.degrees = np.log1p(np.stack(counts, 1)).astype(np.float32)

    def one_hop(self) -> list[Matrix]:
        """Return the matrices of one step: along both directions apart, if they differ."""
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
        train: [k] nodes with these labels.

    Returns:
        [n, c + 1]: the mean of the labels that reach a node, and the amount that does. A node that
        no label reaches has the mean of all labels.

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


def label_features(
    neighbours: Neighbours, labels: NDArray, train: NDArray, guess: NDArray, seed: int
) -> list[NDArray[np.float32]]:
    r"""Describe each node by the labels around it, without its own.

    Unlabelled nodes count with a guess. Means over one step contain no label of the node; those
    over two steps are taken without the walks back to it. Propagated labels of a training node
    come from those of the other folds.

    .. math:: A \tilde Y, \qquad A A \tilde Y - \mathrm{diag}(A A) \tilde Y

    Args:
        neighbours: the graph.
        labels: [k, c], one-hot classes or numbers.
        train: [k] nodes with these labels.
        guess: [n, c] of a model that reads no labels of neighbours.
        seed: seed of the folds.

    Returns:
        Blocks [n, ...]. A block's row of a training node does not change with its label.
    """
    complete = guess.astype(np.float32)
    complete[train] = labels
    means = neighbours.means
    back = np.asarray(means.multiply(means.T).sum(1)).ravel()[:, None]
    blocks = [one @ complete for one in (means, *neighbours.along)]
    blocks.append(means @ blocks[0] - back * complete)
    spread = propagate(means, labels, train)
    fold = np.random.default_rng(seed).permutation(len(train)) % min(FOLDS, len(train))
    for number in range(int(fold.max()) + 1 if len(train) > 1 else 0):
        hidden = fold == number
        spread[train[hidden]] = propagate(means, labels[~hidden], train[~hidden])[train[hidden]]
    return [*blocks, spread]
