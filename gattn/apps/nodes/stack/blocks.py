"""Features that the models of a stack read: the features of each node, and their means over its
neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.scratch import Matrix, Scratch, pieces, sample
from gattn.apps.nodes.stack.linear import Scaler
from gattn.apps.nodes.stack.propagation import Neighbours, multiply

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

PROJECTED_ROWS = 200_000
"""Maximum number of nodes from whose features the projection of wide features is computed."""
TYPED = 1024
"""Maximum total number of features that are means over neighbours of one edge type."""


def as_matrix(x: Tensor) -> Matrix:
    """Convert features [n, d], dense or ``torch.sparse_csr``, to a CSR matrix of SciPy, [n, d]
    float32. The zeros of dense features are not stored.
    """
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
        """Return the projection that is fitted to features [n, d] by a randomised singular value
        decomposition.

        The axes are at most :data:`REDUCED` right singular vectors. Up to :data:`WIDE` features are
        not reduced, and the axes are [0, 0].
        """
        n, d = x.shape
        if d <= WIDE:
            return cls(np.zeros((0, 0), np.float32))
        from sklearn.utils.extmath import randomized_svd

        size = min(REDUCED, n, d)
        some = x if n <= PROJECTED_ROWS else x[sample(np.arange(n), PROJECTED_ROWS, seed)]
        # More iterations, as in scikit-learn's default, take more time for the same accuracy.
        options: dict[str, Any] = {"n_iter": 2, "random_state": seed}
        return cls(randomized_svd(some, size, **options)[2].T.astype(np.float32))

    def apply(self, x: Matrix) -> NDArray[np.float32]:
        """Project features [n, d], dense or sparse, to [n, k]. If there is no projection, return
        them as a dense array.
        """
        x = x @ self.axes if self.axes.size else x
        return np.asarray(x.toarray() if sp.issparse(x) else x, np.float32)


class Blocks:
    """Features of the nodes of one graph, from which the models of a stack read.

    Args:
        x: [n, d] encoded features.
        neighbours: the graph.
        reduction: projection of wide features; None to fit it.
        seed: seed of the projection.

    Attributes:
        x: [n, d] the features of each node, dense or sparse.
        neighbours: the graph.
        reduction: projection of wide features.
        scratch: temporary files of large arrays.
    """

    def __init__(
        self, x: Tensor, neighbours: Neighbours, reduction: Reduction | None, seed: int = 0
    ) -> None:
        self.x: Matrix = x.float().numpy() if x.layout == torch.strided else as_matrix(x)
        self.neighbours, self.scratch = neighbours, Scratch()
        self.reduction = Reduction.fit(self.x, seed) if reduction is None else reduction

    @cached_property
    def reduced(self) -> NDArray[np.float32]:
        """Dense features [n, k] after the reduction; those of ``x`` if they are not reduced."""
        if isinstance(self.x, np.ndarray) and not self.reduction.axes.size:
            return self.x
        width = self.reduction.axes.shape[1] or self.x.shape[1]
        out = self.scratch.array(self.x.shape[0], width)
        for rows in pieces(len(out)):
            out[rows] = self.reduction.apply(self.x[rows])
        return out

    @property
    def joined(self) -> Matrix:
        """Features [n, d] of the nodes, sparse, followed by those of ``neighbours.contexts``. If
        there are contexts, each block is scaled by :class:`Scaler`.
        """
        if not self.neighbours.contexts:
            return sp.csr_matrix(self.x)
        parts = [self.x, *self.neighbours.contexts]
        return Scaler.fit(parts).join(parts)

    def hops(self) -> list[Matrix]:
        """Return the blocks of features of the nodes, [n, ...] each, that linear models read.

        The means over two steps are computed from the reduced features if the means of all features
        would have more than about :data:`STORED` entries.

        Returns:
            In this order: the features, sparse; their means over one step, one block or one for
            each direction of the edges; their means over two steps; ``neighbours.degrees``; and the
            result of :meth:`edge_blocks`.
        """
        means, x = self.neighbours.means, sp.csr_matrix(self.x)
        first = [one @ x for one in self.neighbours.one_hop()]
        near = means @ x if self.neighbours.along else first[0]
        entries = float(means.getnnz(1) @ np.ones(means.shape[0])) / max(means.shape[0], 1)
        small = entries * near.nnz <= STORED
        second = means @ near if small else means @ (means @ self.reduced)
        return [x, *first, second, self.neighbours.degrees, *self.edge_blocks()]

    def split_hops(self) -> list[Matrix]:
        """Return the blocks of :meth:`hops` for perceptrons: a list of sparse blocks, and one dense
        block [n, ...] float32 at its end, in which the other blocks are joined.

        The means over two steps are those of the reduced features, and dense. If features are not
        reduced, all blocks are dense. Otherwise the features are sparse, and so are their means
        over one step if these have at most :data:`FIRST_STORED` entries; with more entries, means
        of the reduced features replace them, and are dense.
        """
        means, z = self.neighbours.means, self.reduced
        one_hop = self.neighbours.one_hop()
        near = self.scratch.array(*z.shape)
        multiply(means, z, near)
        first = [(one, z) for one in one_hop] if self.neighbours.along else [near]
        sparse: list[Matrix] = []
        if not self.reduction.axes.size:
            first = [z, *first]
        else:
            x = sp.csr_matrix(self.x)
            sources = np.diff(x.indptr)
            entries = sum(float((one.getnnz(0) * sources).sum()) for one in one_hop)
            sparse = [x]
            if entries <= FIRST_STORED:
                sparse, first = [x, *(one @ x for one in one_hop)], []
        parts = [*first, (means, near), self.neighbours.degrees, *self._edge_parts()]
        widths = [part[1].shape[1] if isinstance(part, tuple) else part.shape[1] for part in parts]
        dense = self.scratch.array(len(z), sum(widths))
        for part, out in zip(parts, np.split(dense, np.cumsum(widths)[:-1], axis=1)):
            if isinstance(part, tuple):
                multiply(part[0], part[1], out)
            else:
                out[:] = part
        return [*sparse, dense]

    def edge_blocks(self) -> list[NDArray[np.float32]]:
        """Return blocks [n, ...]: means of the reduced features over the neighbours of each edge
        type, means of the edges' features, and ``neighbours.contexts``.

        The list is empty if a graph of one type has no columns of edges that are read. With many
        types and features, the means are those of a random projection of the features.
        """
        parts = self._edge_parts()
        return [part[0] @ part[1] if isinstance(part, tuple) else part for part in parts]

    def _edge_parts(self) -> list[Any]:
        """Return the blocks of :meth:`edge_blocks`; a pair (matrix, features) stands for the
        product of both. Wide features are projected by a random matrix with a fixed seed.
        """
        neighbours, parts = self.neighbours, []
        if neighbours.typed:
            z, limit = self.reduced, max(TYPED // len(neighbours.typed), 1)
            if z.shape[1] > limit:
                projection = np.random.RandomState(0).standard_normal((z.shape[1], limit))
                z = z @ (projection / limit**0.5).astype(np.float32)
            parts += [(one, z) for one in neighbours.typed]
        if neighbours.edge_means is not None:
            parts.append(neighbours.edge_means)
        return [*parts, *neighbours.contexts]
