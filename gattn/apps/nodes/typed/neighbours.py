"""Means over the neighbours of the labelled nodes along the relations of a typed network."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.edge_table import narrow_block
from gattn.apps.nodes.scratch import Matrix
from gattn.apps.nodes.stack.blocks import as_matrix
from gattn.apps.nodes.stack.propagation import Neighbours, edge_means, row_means
from gattn.apps.nodes.typed.network import Messages, TypedInputs, TypedNetwork, projection
from gattn.apps.nodes.typed.relations import Relation

NEAR, FAR = 256, 32
"""Number of features to which the features of nodes of another type are projected, if they have
more: for means over one step, and for means over two steps.
"""
WALKS = 16
"""Maximum number of pairs of relations for which means over two steps are computed. Pairs that lead
back to labelled nodes come first, then the others in alphabetical order.
"""


class Walk:
    r"""Operator W for which W x is the mean of x over the nodes two steps away. Walks that return
    to their start are left out.

    .. math:: (W x)_i = \frac{(A B x)_i - (A B)_{ii}\, x_i}{1 - (A B)_{ii}}

    A node whose neighbours have no other neighbours has the result 0. The matrix W is not formed,
    because a neighbour with k nodes would give it k² entries.

    Args:
        last: [n, m] means over neighbours, A.
        first: [m, n] means over their neighbours, B.

    Example:
        >>> import scipy.sparse as sp
        >>> venue = sp.csr_matrix(np.full((3, 1), 1.0))
        >>> papers = sp.csr_matrix(np.full((1, 3), 1 / 3))
        >>> (Walk(venue, papers) @ np.array([[1.0], [2.0], [6.0]])).ravel().tolist()
        [4.0, 3.5, 1.5]
    """

    def __init__(self, last: Matrix, first: Matrix) -> None:
        # Rounding errors of float32 could reveal the label of a node to itself.
        self.last, self.first = last.astype(np.float64), first.astype(np.float64)
        self.back = np.asarray(self.last.multiply(self.first.T).sum(1)).ravel()[:, None]
        # The weights of a node sum to 1, unless the node has no neighbours or one of its neighbours
        # has none.
        total = self.last @ np.asarray(self.first.sum(1))
        rest = np.asarray(total) - self.back
        self.scale = np.where(rest > 1e-9, 1 / np.where(rest > 1e-9, rest, 1), 0)
        self.shape = self.last.shape[0], self.first.shape[1]

    def __matmul__(self, x: Any) -> NDArray[np.float32]:
        """Return the means [n, d] for x [n, d], dense or sparse."""
        dense = np.asarray(x.toarray() if sp.issparse(x) else x, np.float64)
        mean = self.last @ (self.first @ dense) - self.back * dense
        return (self.scale * mean).astype(np.float32)


class TypedNeighbours(Neighbours):
    """Means over the neighbours of labelled nodes, as the models of a stack read them.

    ``means`` is :func:`gattn.apps.nodes.typed.network.projection`. ``typed`` has an operator for
    each relation between labelled nodes, and a :class:`Walk` for each pair of relations that leads
    over another type back to labelled nodes. ``contexts`` has, for each relation from another type,
    means of the columns of its nodes, of their numbers of edges and of the columns of the edges,
    and for each pair of relations the means over two steps.

    Args:
        network: the network, with its inputs.

    Attributes:
        walks: the pairs of relations, of which the first in a pair is the last step.
    """

    def __init__(self, network: TypedNetwork) -> None:
        inputs, target = network.inputs, network.target
        assert inputs is not None
        sizes = {kind: network.size(kind) for kind in network.types}
        messages = inputs.messages
        self.timed, self.along, self.edge_means = False, [], None
        self.means = projection(target, sizes, messages)
        self.degrees = inputs.degrees[target].numpy()
        means = {
            relation: row_means(one.matrix(sizes[relation.source], sizes[relation.destination]))
            for relation, one in messages.items()
        }
        into = [relation for relation in messages if relation.destination == target]
        walks = [
            (last, first)
            for last in into
            for first in messages
            if first.destination == last.source != target and _is_used(first, target, inputs)
        ]
        # The columns of a model must be the same for every graph, so that the choice depends on the
        # names of the relations alone.
        self.walks = sorted(walks, key=lambda pair: (pair[1].source != target, pair))[:WALKS]
        self.typed = [means[relation] for relation in into if relation.source == target]
        self.typed += [
            Walk(means[last], means[first]) for last, first in self.walks if first.source == target
        ]
        features = {kind: _features(kind, inputs) for kind in network.others}
        self.contexts = []
        for relation in into:
            if relation.source != target:
                self.contexts.append(
                    _mean(means[relation], narrow_block(features[relation.source], NEAR, NEAR))
                )
            if messages[relation].features is not None:
                self.contexts.append(_edge_means(messages[relation], sizes[target]))
        for last, first in self.walks:
            if first.source != target:
                x = narrow_block(features[first.source], FAR, FAR)
                self.contexts.append(_mean(means[last], means[first] @ x))


def neighbours_of(graph: AttributedGraph) -> Neighbours:
    """Return the means over neighbours for a graph of one type or with a typed network."""
    if graph.network is not None:
        return TypedNeighbours(graph.network)
    return Neighbours.of(graph)


def _is_used(relation: Relation, target: str, inputs: TypedInputs) -> bool:
    """Return True if the sources of a relation are labelled nodes or have columns."""
    return relation.source == target or inputs.x[relation.source].shape[1] > 0


def _features(kind: str, inputs: TypedInputs) -> Matrix:
    """Return the columns and the numbers of edges of the nodes of another type, [m, d] sparse."""
    degrees: Tensor = inputs.degrees[kind]
    parts = [as_matrix(inputs.x[kind]), sp.csr_matrix(degrees.numpy())]
    return sp.csr_matrix(sp.hstack(parts, format="csr", dtype=np.float32))


def _mean(means: Matrix, x: Matrix) -> NDArray[np.float32]:
    result = means @ x
    return np.asarray(result.toarray() if sp.issparse(result) else result, np.float32)


def _edge_means(messages: Messages, nodes: int) -> NDArray[np.float32]:
    """Return the means [n, d] float32 of the features of the edges into each of n nodes; more than
    :data:`FAR` features are projected to this number.
    """
    assert messages.features is not None
    destination = messages.pairs[1].numpy()
    features = narrow_block(sp.csr_matrix(messages.features.numpy()), FAR, FAR)
    every = np.arange(len(destination))
    return edge_means(destination, nodes, np.ones(len(every), bool), features, every)
