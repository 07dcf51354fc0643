"""Means of features and labels over the neighbours of nodes, as inputs of simple models."""

from __future__ import annotations

import copy

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.edge_table import EdgeInputs
from gattn.apps.nodes.fields import csr_tensor
from gattn.apps.nodes.scratch import Matrix, Scratch, pieces
from gattn.graph import Graph

COLUMNS = 16
"""Number of columns whose means are computed at once, which limits the memory."""
TYPED = 512
"""Maximum number of features that are means of labels over the neighbours of one edge type."""
FOLDS = 5
"""Number of folds of the training nodes. The labels of a fold are not used for the features of
its own nodes.
"""
STEPS = 15
"""Number of steps of label propagation."""


class Neighbours:
    r"""Sparse matrices A for which A x is the mean of x over the neighbours of each node.

    .. math:: (A x)_i = \frac{1}{\sum_{j \in N(i)} w_{ij}} \sum_{j \in N(i)} w_{ij} x_j

    The weights w are 1 unless the edges have weights. Edges with times that lead to an older node
    are left out.

    Args:
        edge_index: [2, e] int64, the edges in the directions of the data; self-loops are ignored.
        nodes: number n of nodes.
        directed: True if the neighbours of a node are only the sources of the edges into it.
        inputs: attributes of the edges; None without any.

    Attributes:
        means: the matrix [n, n] of means over all neighbours.
        along: two matrices, of means over the sources of the edges into a node, and over the
            destinations of the edges out of it. It is empty if ``directed`` is True or if every
            edge has an opposite edge.
        typed: the same matrices for the edges of each type, and of each quartile of a column of
            numbers; empty without types and numbers.
        degrees: [n, 2], logarithms of the numbers of edges into and out of a node, plus one. With
            weights, their sums are used instead of the numbers; with types, further columns count
            the edges of each.
        timed: True if edges have times, so that a node must not depend on newer ones.
        edge_means: [n, d], means of the edges' features over the edges of each node, for each
            direction if they differ; None without features.
        contexts: further blocks of features [n, ...] of the nodes; empty for a graph of one type.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> Neighbours(path, 3).means.toarray()[1].tolist()
        [0.5, 0.0, 0.5]
    """

    def __init__(
        self,
        edge_index: Tensor,
        nodes: int,
        *,
        directed: bool = False,
        inputs: EdgeInputs | None = None,
    ) -> None:
        # Self-loops are removed, because a node's features must not contain its own label.
        is_edge = (edge_index[0] != edge_index[1]).numpy()
        pairs, n = edge_index.numpy(), nodes
        weights = None if inputs is None else inputs.weights
        is_open = None if inputs is None else inputs.open
        self.timed = is_open is not None
        into, out, both = _adjacency(pairs, n, weights, is_edge, is_open)
        symmetric = both.nnz == into.nnz if inputs is None else not inputs.has_direction
        self.means = row_means(into if directed else both)
        self.along = [] if directed or symmetric else [row_means(into), row_means(out)]
        counts = [np.asarray(one.sum(1)).ravel() for one in (into, out)]
        self.typed: list[Matrix] = []
        groups = () if inputs is None else inputs.groups
        for part in (parts == kind for parts, count in groups for kind in range(count)):
            of_type = is_edge & part
            one, opposite, union = _adjacency(pairs, n, weights, of_type, is_open)
            matrices = [one] if directed else [union] if symmetric else [one, opposite]
            self.typed += map(row_means, matrices)
            counts += [np.asarray(each.sum(1)).ravel() for each in matrices]
        self.degrees = np.log1p(np.stack(counts, 1)).astype(np.float32)
        self.edge_means: NDArray[np.float32] | None = None
        self.contexts: list[NDArray[np.float32]] = []
        if inputs is not None and inputs.row_features is not None:
            ends = pairs[1:] if directed or symmetric else pairs[::-1]
            masks = is_open if is_open is not None else np.stack([is_edge, is_edge])
            rows = inputs.arc_rows
            self.edge_means = np.hstack(
                [
                    edge_means(end, n, is_edge & mask, inputs.row_features, rows)
                    for end, mask in zip(ends, masks)
                ]
            )

    @classmethod
    def of(cls, graph: AttributedGraph) -> Neighbours:
        """Return the matrices of a graph, including those for the edge attributes that the model
        reads.
        """
        inputs = graph.edge_inputs
        return cls(graph.arcs, len(graph), directed=graph.directed, inputs=inputs)

    def one_hop(self) -> list[Matrix]:
        """Return the matrices of means over one step: a single one, or one for each direction of
        the edges.
        """
        return self.along or [self.means]

    def with_directions(self, has_directions: bool) -> Neighbours:
        """Return the graph with the matrices ``along`` if ``has_directions`` is True, and without
        them otherwise. A model reads as many blocks as in training, even if the edges of another
        graph have opposite edges and those of the training had none. Without ``along``, the means
        over both directions are equal.
        """
        if bool(self.along) == has_directions:
            return self
        other = copy.copy(self)
        other.along = [self.means, self.means] if has_directions else []
        return other


def _adjacency(
    pairs: NDArray,
    nodes: int,
    weights: NDArray | None,
    mask: NDArray[np.bool_],
    is_open: NDArray[np.bool_] | None,
) -> tuple[Matrix, Matrix, Matrix]:
    """Return three matrices of edge weights: for edges into each node, out of each node, and in
    both directions.

    Args:
        pairs: [2, k] edges.
        nodes: number n of nodes.
        weights: [k] weights, which are summed over repeated edges; None for weights of 1, with
            which repeated edges count once.
        mask: [k], True for edges that are used.
        is_open: [2, k], True if the source, and the destination, may be a neighbour; None for all.

    Returns:
        Three matrices [n, n].
    """

    def matrix(rows: NDArray, columns: NDArray, some: NDArray[np.bool_]) -> Matrix:
        """Return the adjacency [n, n] of the edges in the mask ``some``: its entries are the sums
        of the weights of repeated edges or, without weights, 1; an entry that sums to 0 is removed.
        """
        values = np.ones(int(some.sum()), np.float32) if weights is None else weights[some]
        one: Matrix = sp.csr_matrix((values, (rows[some], columns[some])), (nodes, nodes))
        if weights is None:
            # SciPy adds the entries of repeated edges, but each edge must count once.
            one.data[:] = 1
        else:
            one.eliminate_zeros()
        return one

    source, destination = pairs
    along, against = (mask, mask) if is_open is None else (mask & is_open[0], mask & is_open[1])
    into = matrix(destination, source, along)
    out = into.T.tocsr() if is_open is None else matrix(source, destination, against)
    if weights is None:
        return into, out, into.maximum(out).tocsr()
    # Both matrices contain the symmetric edges. Therefore, the sum has a factor of two, which has
    # no effect on means.
    return into, out, into + out


def edge_means(
    end: NDArray, nodes: int, mask: NDArray[np.bool_], features: Matrix, rows: NDArray
) -> NDArray[np.float32]:
    """Return means [n, d] of edge features, for each node over the edges that touch it.

    Args:
        end: [k] the node that each edge touches.
        nodes: number n of nodes.
        mask: [k], the edges that are used.
        features: [m, d] sparse features.
        rows: [k], the row of features of each edge.

    Returns:
        [n, d] float32; zeros for a node without an edge in the mask.
    """
    out = np.zeros((nodes, features.shape[1]), np.float32)
    counts = np.zeros((nodes, 1), np.int64)
    for part in pieces(len(end)):
        different, place = np.unique(end[part][mask[part]], return_inverse=True)
        ones, shape = np.ones(len(place), np.float32), (len(different), len(place))
        incidence: Matrix = sp.csr_matrix((ones, (place, np.arange(len(place)))), shape)
        out[different] += (incidence @ features[rows[part][mask[part]]]).toarray()
        counts[different, 0] += np.bincount(place, minlength=len(different))
    return out / np.maximum(counts, 1).astype(np.float32)


def row_means(matrix: Matrix) -> Matrix:
    """Divide each row of a sparse matrix by its sum; a row of zeros does not change."""
    sums = np.asarray(matrix.sum(1)).ravel()
    scale = (1 / np.where(sums > 0, sums, 1)).astype(np.float32)
    return (sp.diags(scale) @ matrix).tocsr()


def multiply(matrix: Matrix, x: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the product of a sparse matrix [n, m] with features [m, d] to ``out``, a few columns at
    a time.
    """
    for start in range(0, x.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        out[:, columns] = matrix @ np.ascontiguousarray(x[:, columns])


def propagate(
    means: Matrix, labels: NDArray, train: NDArray, steps: int = STEPS
) -> NDArray[np.float32]:
    r"""Spread labels along the edges.

    .. math:: F \leftarrow A G, \qquad G_i = \text{label}_i \text{ where it is known, else } F_i

    Args:
        means: [n, n] means over neighbours.
        labels: [k, c], one-hot classes or numbers; k is at least 1.
        train: [k], the nodes that have these labels.
        steps: number of steps.

    Returns:
        [n, c + 1] float32: the weighted mean of the labels that reach a node, for a training node
        from its neighbours, and in the last column the sum of the weights. A node that no label
        reaches has the mean of all labels.

    Reference:
        Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation"
        (CMU technical report 2002).

    Example:
        >>> path = Neighbours(torch.tensor([[0, 1], [1, 2]]), 3)
        >>> propagate(path.means, np.array([[0.0], [1.0]]), np.array([0, 2])).tolist()
        [[0.5, 1.0], [0.5, 1.0], [0.5, 1.0]]
    """
    complete = np.hstack([labels, np.ones((len(labels), 1))]).astype(np.float32)
    result = np.zeros((means.shape[0], complete.shape[1]), np.float32)
    for start in range(0, complete.shape[1], COLUMNS):
        columns = slice(start, start + COLUMNS)
        value = result[:, columns]
        for _ in range(steps):
            value[train] = complete[:, columns]
            value = means @ value
        result[:, columns] = value
    spread, amount = result[:, :-1], result[:, -1:]
    mean = labels.mean(0, dtype=np.float64).astype(np.float32)
    spread[:] = np.where(amount > 0, spread / np.where(amount > 0, amount, 1), mean)
    # Rounding errors can exceed the range of the labels.
    np.clip(spread, labels.min(0), labels.max(0), out=spread)
    return result


def propagate_folds(
    means: Matrix, labels: NDArray, train: NDArray, seed: int, spread: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Spread labels like :func:`propagate`. Each training node receives only labels from other
    folds.

    Args:
        means: [n, n] means over neighbours.
        labels: [k, c], one-hot classes or numbers.
        train: [k], the nodes that have these labels.
        seed: seed of the folds.
        spread: the result of :func:`propagate`.

    Returns:
        [n, c + 1], a new array. The row of a training node does not depend on its label, unless it
        is the only training node.
    """
    spread = spread.copy()
    fold = np.random.default_rng(seed).permutation(len(train)) % min(FOLDS, len(train))
    for number in range(int(fold.max()) + 1 if len(train) > 1 else 0):
        hidden = fold == number
        spread[train[hidden]] = propagate(means, labels[~hidden], train[~hidden])[train[hidden]]
    return spread


def label_features(
    neighbours: Neighbours, labels: NDArray, train: NDArray, guess: NDArray, scratch: Scratch
) -> list[NDArray[np.float32]]:
    r"""Compute features of each node from the labels of other nodes.

    Nodes without a label get a predicted label. A mean over one step does not contain the label of
    the node itself. From a mean over two steps, the walks back to the node are subtracted. If edges
    have a direction, there are also means over the nodes that have a destination in common with the
    node, and over those that have a source in common with it.

    .. math:: A \tilde Y, \qquad A B \tilde Y - \mathrm{diag}(A B) \tilde Y

    Args:
        neighbours: the graph.
        labels: [k, c], one-hot classes or numbers.
        train: [k], the nodes that have these labels.
        guess: [n, c], predictions of a model that does not read the labels of neighbours.
        scratch: temporary files of the result.

    Returns:
        Blocks of features [n, c] float32, which do not depend on a training node's own label: means
        over one step, over all neighbours, then those of ``along``, then those of the first 512 / c
        matrices of ``typed``; and means over two steps, over all neighbours and, with ``along``,
        over the nodes with a common destination and those with a common source.
    """
    n, c = guess.shape
    complete = guess.astype(np.float32)
    complete[train] = labels
    means = neighbours.means
    one_step = [means, *neighbours.along, *neighbours.typed[: TYPED // c]]
    steps = [(means, means)]
    if neighbours.along:
        into, out = neighbours.along
        steps += [(out, into), (into, out)]
    features = scratch.array(n, c * (len(one_step) + len(steps)))
    blocks = np.split(features, len(one_step) + len(steps), axis=1)
    for matrix, block in zip(one_step, blocks):
        multiply(matrix, complete, block)
    for (last, first), block in zip(steps, blocks[len(one_step) :]):
        multiply(last, first @ complete, block)
        opposite = first.T.tocsr()
        for rows in pieces(n):
            back = np.asarray(last[rows].multiply(opposite[rows]).sum(1)).reshape(-1, 1)
            block[rows] -= back * complete[rows]
    return blocks


def normalise(means: Matrix) -> Matrix:
    r"""Return the propagation of a graph convolutional network, [n, n]: with the diagonal matrix D
    of the numbers of neighbours plus one, and means A over neighbours,

    .. math:: \hat A = D^{-1/2} \, (I + (D - I) A) \, D^{-1/2}

    Without weights of the edges and with messages in both directions, this is the symmetric
    normalisation of the adjacency matrix with self-loops.
    """
    counts = means.getnnz(1).astype(np.float32)
    roots: Matrix = sp.diags((counts + 1) ** -0.5)
    sums: Matrix = sp.diags(counts) @ means
    return (roots @ (sp.identity(len(counts)) + sums) @ roots).tocsr()


def walks(means: Matrix, train: NDArray) -> Matrix:
    r"""Return the weights of walks of two steps to the k training nodes ``train``, [n, k] sparse,
    without those that return to their start. ``means`` [n, n] are the means over neighbours.

    .. math:: (\hat A^2)_{ij}, \quad i \ne j

    The matrix is that of :func:`normalise`.
    """
    step = normalise(means)
    back = np.asarray(step.multiply(step.T).sum(1)).ravel()[train]
    both = step @ step[:, train]
    return (both - sp.csr_matrix((back, (train, np.arange(len(train)))), both.shape)).tocsr()


def weighted_graph(matrix: Matrix) -> tuple[Graph, Tensor]:
    """Return a CSR matrix as a graph, whose edges lead from columns to rows, and the weights of the
    edges, [e, 1] float32. The indices of the matrix are sorted in place.
    """
    matrix.sort_indices()
    pointers, columns = (
        torch.from_numpy(a.astype(np.int64)) for a in (matrix.indptr, matrix.indices)
    )
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return Graph(csr_tensor(pointers, columns, values, matrix.shape)), values[:, None]
