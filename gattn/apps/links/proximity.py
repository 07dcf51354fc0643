"""Heuristics and features of pairs of nodes: common neighbours, distance, walks, and similarity of
features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from gattn.apps.nodes.stack.propagation import row_means

STEPS = 10
"""Maximum length of the walks between and around the nodes of a pair."""
KATZ_STEPS = 5
"""Maximum length of the walks in Katz' score."""
FEATURES = (
    *("common_neighbours", "adamic_adar", "resource_allocation", "katz"),
    *("preferential_attachment", "pagerank", "propagated_features"),
    *("walks_2", "walks_3", "source_degree", "target_degree"),
    *("same_features", "near_features", "source_near_target", "near_source_target"),
    *("distance", "source_component", "target_component"),
    *(f"walk_{step}" for step in range(2, STEPS + 1)),
    *(f"{end}_return_{step}" for step in range(2, STEPS + 1) for end in ("source", "target")),
)
"""Names of the features of a pair."""
HEURISTICS = FEATURES[:7]
"""Names of the features that are also scores without a model."""
COMPARED = HEURISTICS[:5]
"""Names of the scores that are only compared with the model. Beside the perceptron, which reads
them, none is worth a standard error on a network of ``benchmarks.links``.
"""
DAMPING = 0.005
"""Factor by which each further step reduces the weight of a walk in Katz' score."""
RESTART = 0.15
"""Probability of a restart in each step of the random walks of personalised PageRank."""
LARGE, LARGE_STEPS = 1 << 30, 3
"""Product of the numbers of nodes and edges above which walks have at most :data:`LARGE_STEPS`
steps.
"""
EXACT, SKETCH = 8192, 256
"""Maximum number of nodes for which returns are computed exactly, and number of random vectors by
which they are estimated for more nodes.
"""
CHANCE = 1e4
"""Factor by which probabilities of walks are multiplied before their logarithm is computed."""
CELLS = 1 << 22
"""Maximum number of entries in an array [n, b] of scores for b sources."""
WIDTH = 64
"""Number of random features per node if nodes have no attributes."""

Matrix = Any
"""Type of a sparse matrix; it is Any, because SciPy's type annotations are incomplete."""


class Proximity:
    r"""Scores of pairs of nodes that are computed from the edges of a graph, without training.

    With the neighbours N(u) of u, their number d(u), the adjacency matrix A, the probabilities P of
    a step of a random walk and features Z that were propagated over two steps:

    .. math::
        \sum_{w \in N(u) \cap N(v)} 1, \quad
        \sum_{w \in N(u) \cap N(v)} \frac{1}{\log d(w)}, \quad
        \sum_{w \in N(u) \cap N(v)} \frac{1}{d(w)}, \quad
        \sum_{l=1}^{5} \beta^l (A^l)_{uv}, \quad
        d(u) d(v), \quad
        \sum_{l=1}^{10} 0.85^l (P^l_{uv} + P^l_{vu}), \quad
        \cos(Z_u, Z_v)

    Nodes of a bipartite graph have no common neighbours. Therefore the first three sums are over
    the walks of three steps u, w, x, v. For links with a direction, d(u) counts the edges out of u
    and d(v) the edges into v in the product of degrees; the other scores ignore the direction.

    The other features are the distance, the sizes of the components of both nodes and, for
    :math:`l = 2, \ldots, 10`, the walks from u to v and the probabilities that a random walk
    returns:

    .. math::
        (S^l)_{uv}, \quad (S^l)_{uu}, \quad (S^l)_{vv}, \quad
        S_{uv} = \frac{A_{uv}}{\sqrt{d(u) d(v)}}

    In a large graph, walks have at most three steps, and the returns are estimated by random
    projections.

    The result for a pair that is joined by an edge of the graph depends on this edge. Remove the
    edge before the pair is scored.

    Args:
        arcs: [2, k] int64 edges, in the direction of the data.
        nodes: number n of nodes.
        z: [n, d] features; None if there are no features.
        directed: True if links have a direction.
        bipartite: True if the sources and targets of the edges are disjoint.

    Attributes:
        both: [n, n] sparse adjacency matrix A, without directions.
        out, into: [n, n] sparse edges in the direction of the links, and in the opposite one.
        walk, walk_out, walk_into: the rows of ``both``, ``out`` and ``into`` divided by their sums.
        symmetric: [n, n] sparse matrix S of the walks (see above).
        local: [10, n] logarithms of the sizes of the components and of the returns of 2, ..., 10
            steps.
        vectors: the five pairs of unit vectors of the cosines; empty without features.

    References:
        Liben-Nowell and Kleinberg, "The link prediction problem for social networks" (CIKM 2003);
        Zhou, Lü and Zhang, "Predicting missing links via local information" (EPJ B 2009);
        Li et al., "Distance encoding" (NeurIPS 2020).

    Example:
        >>> path = np.array([[0, 1, 3], [1, 2, 4]])
        >>> scores = Proximity(path, 5, None, directed=False, bipartite=False)
        >>> scores.measure(np.array([0]), np.array([[2, 4]]))[0, :, 0].tolist()
        [0.6931471824645996, 0.0]
    """

    def __init__(
        self,
        arcs: NDArray,
        nodes: int,
        z: NDArray[np.float32] | None,
        *,
        directed: bool,
        bipartite: bool,
    ) -> None:
        self.nodes, self.bipartite, self.is_ordered = nodes, bipartite, directed or bipartite
        ones = np.ones(arcs.shape[1], np.float32)
        out: Matrix = sp.csr_matrix((ones, (arcs[0], arcs[1])), (nodes, nodes))
        out.data[:] = 1
        into = out.T.tocsr()
        both = out.maximum(into).tocsr()
        self.both = both
        self.out, self.into = (out, into) if directed else (both, both)
        self.degree = degree = np.diff(both.indptr).astype(np.float32)
        self.out_degree = np.diff(self.out.indptr).astype(np.float32)
        self.in_degree = np.diff(self.into.indptr).astype(np.float32)
        large = np.maximum(degree, 2)
        self.weights = (1 / np.log(large), 1 / large)
        # A random walk takes one step along an edge, one step against an edge, and one more step
        # along an edge.
        self.walk_out, self.walk_into, self.walk = map(row_means, (self.out, self.into, both))
        self.steps = STEPS if nodes * both.nnz <= LARGE else LARGE_STEPS
        scale: Matrix = sp.diags(1 / np.sqrt(np.maximum(degree, 1)))
        self.symmetric = (scale @ both @ scale).tocsr()
        _, self.component = connected_components(both, directed=False)
        sizes = np.bincount(self.component)[self.component]
        # One row for each quantity of a node that both nodes of a pair contribute.
        self.local = np.stack([np.log1p(sizes), *np.log(self._returns() + 1e-3)]).astype(np.float32)
        self.vectors: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
        if z is not None:
            self.vectors = self._vectors(z)

    def _returns(self) -> NDArray[np.float32]:
        """Compute the probabilities [9, n] that a random walk of 2, 3, ..., 10 steps from a node
        ends at this node; zeros for steps that are not computed. For more than :data:`EXACT`
        nodes, they are estimated from random vectors with a fixed seed.
        """
        n, is_exact = self.nodes, self.nodes <= EXACT
        out = np.zeros((STEPS - 1, n), np.float32)
        count = n if is_exact else SKETCH
        vectors = np.random.default_rng(0)
        for part in self.chunks(count):
            width = min(part.stop, count) - part.start
            if is_exact:
                walks = np.eye(n, width, -part.start, dtype=np.float32)
            else:
                walks = vectors.standard_normal((n, width), np.float32) / count**0.5
            for step in range(2, self.steps + 1, 2):
                before, walks = walks, self.symmetric @ walks
                # The walk of l steps is the product of two walks of l / 2 steps, as S is symmetric.
                if step > 2:
                    out[step - 3] += (before * walks).sum(1)
                out[step - 2] += np.square(walks).sum(1)
        return np.maximum(out, 0)

    def random_features(self, seed: int) -> NDArray[np.float32]:
        r"""Return features for nodes without attributes: random vectors that are propagated along
        the edges.

        .. math:: X = [P R, \; P^2 R], \qquad R_{ij} \sim \mathcal{N}(0, 1)

        P x is the mean of x over the neighbours, so that nodes with the same neighbours have
        similar features.

        Args:
            seed: seed of the random vectors.

        Returns:
            [n, 128] float32 with unit vectors of 64 numbers each; zeros for a node without an edge.

        Reference:
            Chen et al., "Fast and accurate network embeddings via very sparse random projection"
            (CIKM 2019).
        """
        vectors = np.random.default_rng(seed).standard_normal((self.nodes, WIDTH))
        near = self.walk @ vectors.astype(np.float32)
        return np.hstack([_unit(near), _unit(self.walk @ near)])

    def _vectors(self, z: NDArray) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Return five pairs of arrays [n, d] of unit vectors: one array for sources and one for
        targets, whose dot products are cosines. The pairs are in the order of the cosines in
        :data:`FEATURES`; the vectors of a node without features are zeros.
        """
        near = self.walk @ z
        smooth = (z + near) / 2
        smooth = (smooth + self.walk @ smooth) / 2
        used, users = self.walk_out @ z, self.walk_into @ z
        plain, around = _unit(z), _unit(near)
        whole = _unit(smooth)
        return [
            (whole, whole), (plain, plain), (around, around), (plain, _unit(users)),
            (_unit(used), plain),
        ]  # fmt: skip

    def rows(self, sources: NDArray) -> ProximityRows:
        """Return the scores of all n targets for b sources."""
        return ProximityRows(self, sources)

    def chunks(self, count: int) -> Iterator[slice]:
        """Yield consecutive slices of the positions 0 to ``count`` - 1 of sources, so short that
        arrays [n, b] of the scores of a slice fit into memory.
        """
        size = int(np.clip(CELLS // max(self.nodes, 1), 16, 1024))
        for start in range(0, count, size):
            yield slice(start, min(start + size, count))

    def measure(self, sources: NDArray, targets: NDArray) -> NDArray[np.float32]:
        """Compute the features of pairs of nodes.

        Args:
            sources: [m, c] int64, indices of nodes.
            targets: [m, c] int64, indices of nodes; -1 for no target.

        Returns:
            [m, c, features] float32 in the order of :data:`FEATURES`; NaN without a target. See
            :meth:`ProximityRows.measure`.
        """
        out = np.empty((targets.size, len(FEATURES)), np.float32)
        different, place = np.unique(sources.ravel(), return_inverse=True)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(different) + 1))
        for part in self.chunks(len(different)):
            some = order[ends[part.start] : ends[part.stop]]
            rows = self.rows(different[part])
            out[some] = rows.measure(place[some] - part.start, targets.ravel()[some])
        out[targets.ravel() < 0] = np.nan
        return out.reshape(*targets.shape, -1)


class ProximityRows:
    """Scores of all targets for b sources, in arrays [n, b].

    Args:
        proximity: the graph.
        sources: [b] sources.
    """

    def __init__(self, proximity: Proximity, sources: NDArray) -> None:
        self.proximity, self.sources = proximity, sources
        both, leave = proximity.both, proximity.walk_out
        # The first two steps are products of sparse matrices, as they reach few nodes.
        near, out = both[sources], leave[sources]
        second = near @ both
        walks = _columns(second)
        # A link without a direction is no edge of the graph, and a walk of one step is the opposite
        # link of a link with a direction.
        self.common, self.katz = walks, _columns(DAMPING * near + DAMPING**2 * second)
        for step in range(3, KATZ_STEPS + 1):
            walks = both @ walks
            self.katz += DAMPING**step * walks
            if step == 3 and proximity.bipartite:
                self.common = walks
        self.shared = [_columns(near.multiply(weight) @ both) for weight in proximity.weights]
        if proximity.bipartite:
            self.shared = [both @ values for values in self.shared]
        # The transpose of walk_out distributes a node's probability equally to its neighbours.
        self.walks_2 = _columns(out @ leave)
        self.walks_3 = leave.T @ _columns(out @ proximity.walk_into)

    def measure(self, rows: NDArray, targets: NDArray) -> NDArray[np.float32]:
        """Compute the features of k pairs, each of one of the b sources and any target.

        Args:
            rows: [k] positions of the pairs' sources among the b sources.
            targets: [k] indices of the pairs' targets among the n nodes of the graph.

        Returns:
            [k, features] float32 in the order of :data:`FEATURES`. Counts and probabilities are
            logarithmic; cosines are 0 if nodes have no features. The distance is 11 for nodes that
            no walk of the computed lengths connects, and 12 for nodes of different components. If
            links have no direction, the columns of degrees, components and returns contain the
            smaller value of the two nodes as that of the source.
        """
        p, sources = self.proximity, self.sources[rows]
        at = targets, rows
        leave, enter = p.out_degree[sources], p.in_degree[targets]
        adamic, allocation = self.shared
        vectors = [(left[sources], right[targets]) for left, right in p.vectors]
        cosines = [np.einsum("kd,kd->k", *each) for each in vectors] or [np.zeros(len(rows))] * 5
        walks = self._walks(at)
        ratio = np.sqrt(np.maximum(p.degree[sources], 1) / np.maximum(p.degree[targets], 1))
        share = (1 - RESTART) ** np.arange(1, STEPS + 1) @ walks * (ratio + 1 / ratio)
        distance = np.where(walks > 0, np.arange(1, STEPS + 1)[:, None], STEPS + 1).min(0)
        distance[p.component[sources] != p.component[targets]] = STEPS + 2
        left, right = p.local[:, sources], p.local[:, targets]
        if not p.is_ordered:
            left, right = np.minimum(left, right), np.maximum(left, right)
            leave, enter = np.minimum(leave, enter), np.maximum(leave, enter)
        columns = [
            np.log1p(self.common[at]), np.log1p(adamic[at]), np.log1p(allocation[at]),
            np.log1p(self.katz[at] / DAMPING**2), np.log1p(leave * enter), np.log1p(CHANCE * share),
            cosines[0],
            np.log1p(CHANCE * self.walks_2[at]), np.log1p(CHANCE * self.walks_3[at]),
            np.log1p(leave), np.log1p(enter), *cosines[1:], distance, left[0], right[0],
            *np.log(walks[1:] + 1e-6), *np.stack([left[1:], right[1:]], 1).reshape(-1, len(rows)),
        ]  # fmt: skip
        return np.stack(columns, 1).astype(np.float32)

    def _walks(self, at: tuple[NDArray, NDArray]) -> NDArray[np.float32]:
        """Return the weights [10, k] of the walks of 1, 2, ..., 10 steps between the nodes of k
        pairs; zeros for steps that are not computed.

        Args:
            at: [k] indices of the targets, and [k] positions of the sources among the b sources.
        """
        p = self.proximity
        first = p.symmetric[self.sources]
        out = np.zeros((STEPS, len(at[0])), np.float32)
        out[0] = _columns(first)[at]
        walks = _columns(first @ p.symmetric)
        out[1] = walks[at]
        for step in range(2, p.steps):
            walks = p.symmetric @ walks
            out[step] = walks[at]
        return out

    def shortlists(self) -> Sequence[NDArray[np.float32]]:
        """Return arrays [n, b] of the scores of all targets for each source: Katz' score, the walks
        of two and of three steps, the degree of the target and, if nodes have features, five
        cosines. The first three arrays are those of this object, and no copies.
        """
        p = self.proximity
        degree = np.repeat(p.in_degree[:, None], len(self.sources), 1)
        similar = [right @ left[self.sources].T for left, right in p.vectors]
        return [self.katz, self.walks_2, self.walks_3, degree, *similar]


def _columns(rows: Matrix) -> NDArray[np.float32]:
    """Return the transpose [n, b] of a sparse matrix [b, n] as an array."""
    return np.asarray(rows.T.toarray(), np.float32)


def _unit(z: NDArray) -> NDArray[np.float32]:
    """Scale the rows of features to unit length; rows of zeros remain zero."""
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return (z / np.where(length > 0, length, 1)).astype(np.float32)
