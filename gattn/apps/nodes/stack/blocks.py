"""Features that the models of a stack read: the features of each node, and their means over its
neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.stack.linear import Scaler
from gattn.apps.nodes.stack.propagation import Neighbours

__all__ = ["Blocks", "Reduction", "as_matrix"]

STORED = 20_000_000
"""If the means over two steps along edges have more nonzero entries than this, the features are
reduced to a lower dimension first.
"""
FIRST_STORED = 10_000_000
"""Maximum number of nonzero entries in the means over one step along edges for which a
perceptron reads them as sparse features. Entries are counted before equal columns are summed.
"""
REDUCED = 128
"""Number of features to which the dimension of the features is reduced."""
WIDE = 512
"""Maximum number of features for which the dimension is not reduced."""

TYPED = 2048
"""Maximum total number of features that are means over neighbours of one edge type."""

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


def as_matrix(x: Tensor) -> Matrix:
    """Convert features [n, d], dense or ``torch.sparse_csr``, to a sparse matrix of SciPy."""
    if x.layout == torch.strided:
        return sp.csr_matrix(x.float().numpy())
    parts = x.values().float().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
    return sp.csr_matrix(parts, shape=tuple(x.shape))


@dataclass(frozen=True, eq=False)
class Reduction:
    """Linear projection of features to a lower dimension.

    Attributes:
        axes: [d, k] float32, the matrix of the projection; empty if features are not reduced.
    """

    axes: NDArray[np.float32]

    @classmethod
    def fit(cls, x: Matrix, seed: int) -> Reduction:
        """Fit the projection to features [n, d] by a randomised singular value decomposition.

        The axes are the first right singular vectors. Up to ``WIDE`` features are not reduced.
        """
        n, d = x.shape
        if d <= WIDE:
            return cls(np.zeros((0, 0), np.float32))
        from sklearn.utils.extmath import randomized_svd

        size = min(REDUCED, n, d)
        # More iterations, as in scikit-learn's default, take more time for the same accuracy.
        options: dict[str, Any] = {"n_iter": 2, "random_state": seed}
        return cls(randomized_svd(x, size, **options)[2].T.astype(np.float32))

    def apply(self, x: Matrix) -> NDArray[np.float32]:
        """Project features [n, d] to [n, k]. If there is no projection, return them as a dense
        array.
        """
        return np.asarray(x @ self.axes if self.axes.size else x.toarray(), np.float32)


class Blocks:
    """Features of the nodes of one graph, from which the models of a stack read.

    Args:
        x: [n, d] encoded features.
        neighbours: the graph.
        reduction: projection of wide features.

    Attributes:
        x: [n, d] sparse, the features of each node.
        reduced: [n, k] dense, the features after the reduction.
        neighbours: the graph.
    """

    def __init__(self, x: Matrix, neighbours: Neighbours, reduction: Reduction) -> None:
        self.x, self.neighbours = x, neighbours
        self.reduced = reduction.apply(x)

    @property
    def joined(self) -> Matrix:
        """Features [n, d] of the nodes, sparse, with those of ``neighbours.contexts``."""
        if not self.neighbours.contexts:
            return self.x
        parts = [self.x, *self.neighbours.contexts]
        return Scaler.fit(parts).join(parts)

    def hops(self) -> list[Matrix]:
        """Return the features of the nodes, their means over one and two steps, and the degrees.

        The means over two steps are computed from the reduced features if the means of all features
        would have too many entries.
        """
        means, x = self.neighbours.means, self.x
        first = [one @ x for one in self.neighbours.one_hop()]
        near = means @ x if self.neighbours.along else first[0]
        entries = float(means.getnnz(1) @ np.ones(means.shape[0])) / max(means.shape[0], 1)
        small = entries * near.nnz <= STORED
        second = means @ near if small else means @ (means @ self.reduced)
        return [x, *first, second, self.neighbours.degrees, *self.edge_blocks()]

    def split_hops(self) -> tuple[list[Matrix], list[NDArray[np.float32]]]:
        """Return the blocks of :meth:`hops` as a list of sparse and a list of dense blocks, for a
        perceptron.

        The means over two steps are those of the reduced features. The features and their means
        over one step are sparse if the reduction is not the identity and the means have few
        entries. Otherwise they are reduced, too.
        """
        means, z = self.neighbours.means, self.reduced
        first = [one @ z for one in self.neighbours.one_hop()]
        near = means @ z if self.neighbours.along else first[0]
        dense = [means @ near, self.neighbours.degrees, *self.edge_blocks()]
        if z.shape[1] == self.x.shape[1]:
            return [], [z, *first, *dense]
        sources = np.diff(self.x.indptr)
        entries = sum(float((one.getnnz(0) * sources).sum()) for one in self.neighbours.one_hop())
        if entries > FIRST_STORED:
            return [self.x], [*first, *dense]
        return [self.x, *(one @ self.x for one in self.neighbours.one_hop())], dense

    def tree_features(self) -> NDArray[np.float32]:
        """Return features [n, d] for trees: reduced features, means over up to three steps, and
        degrees.
        """
        means, z = self.neighbours.means, self.reduced
        first = [one @ z for one in self.neighbours.one_hop()]
        near = means @ z if self.neighbours.along else first[0]
        second = means @ near
        blocks = [z, *first, second, means @ second, self.neighbours.degrees, *self.edge_blocks()]
        return np.hstack(blocks).astype(np.float32)

    @property
    def tree_width(self) -> int:
        """Number of features for trees; it may be slightly too low."""
        neighbours = self.neighbours
        contexts = sum(block.shape[1] for block in neighbours.contexts)
        hops = 3 + len(neighbours.one_hop()) + len(neighbours.typed)
        return self.reduced.shape[1] * hops + contexts

    def edge_blocks(self) -> list[NDArray[np.float32]]:
        """Return means over the neighbours of each edge type, and means of the edges' features.

        The list is empty if no columns of edges are read. With many types and features, the means
        are those of a random projection of the features.
        """
        neighbours = self.neighbours
        blocks = []
        if neighbours.typed:
            z, limit = self.reduced, max(TYPED // len(neighbours.typed), 1)
            if z.shape[1] > limit:
                projection = np.random.RandomState(0).standard_normal((z.shape[1], limit))
                z = z @ (projection / limit**0.5).astype(np.float32)
            blocks += [one @ z for one in neighbours.typed]
        if neighbours.edge_means is not None:
            blocks.append(neighbours.edge_means)
        return [*blocks, *neighbours.contexts]
