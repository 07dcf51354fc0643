"""Nodes of several types, and the edges between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.fields import sparse_tensor
from gattn.apps.nodes.scratch import Matrix
from gattn.apps.nodes.stack.blocks import as_matrix
from gattn.apps.nodes.stack.propagation import row_means
from gattn.apps.nodes.typed.relations import Relation

if TYPE_CHECKING:
    from gattn.apps.nodes.attributed import Nodes

PAIRS = 2_000_000
"""Maximum number of pairs of labelled nodes that share a neighbour. If there are more, neighbours
of the most nodes are left out: see :func:`projection`.
"""


@dataclass(frozen=True, eq=False)
class Messages:
    """Edges of a relation along which messages are sent.

    Attributes:
        pairs: [2, e] int64, positions of the sources among the nodes of the source type, and of
            the destinations among those of the destination type.
        features: [e, d] float32; None if there are no columns.
        weights: [e] float32, weights with mean 1; None if there are no weights.
    """

    pairs: Tensor
    features: Tensor | None
    weights: Tensor | None

    def reverse(self) -> Messages:
        """Return the messages in the opposite direction."""
        return Messages(self.pairs.flip(0), self.features, self.weights)

    def matrix(self, sources: int, destinations: int) -> Matrix:
        """Return the sparse matrix [destinations, sources] of the weights of the edges, in which
        those of repeated edges are added. Without weights, every entry is 1.
        """
        source, destination = self.pairs.numpy()
        values = np.ones(len(source), np.float32) if self.weights is None else self.weights.numpy()
        shape = destinations, sources
        matrix: Matrix = sp.csr_matrix((values, (destination, source)), shape)
        if self.weights is None:
            # SciPy adds the entries of repeated edges, but each pair of nodes must count once.
            matrix.data[:] = 1
        return matrix


@dataclass(frozen=True, eq=False)
class TypedInputs:
    """Tensors of a typed network that the models read.

    Attributes:
        x: for each other type its features [m, d] float32, dense or ``torch.sparse_csr``.
        degrees: for each type [m, r] float32, the logarithm of one plus the number of messages to
            a node, for each of r relations.
        messages: the edges of each relation, and of its reverse unless messages follow the
            direction of edges only.
    """

    x: Mapping[str, Tensor]
    degrees: Mapping[str, Tensor]
    messages: Mapping[Relation, Messages]

    @property
    def offsets(self) -> dict[str, int]:
        """Number of the first node of each type in :attr:`edge_index`; the labelled nodes are the
        first.
        """
        sizes = [len(degrees) for degrees in self.degrees.values()]
        return dict(zip(self.degrees, accumulate(sizes, initial=0)))

    @property
    def edge_index(self) -> Tensor:
        """Messages of all relations, [2, e] int64, among the nodes of all types."""
        first = self.offsets
        pairs = [
            one.pairs + torch.tensor([[first[relation.source]], [first[relation.destination]]])
            for relation, one in self.messages.items()
        ]
        return torch.cat(pairs, 1)

    @property
    def terms(self) -> dict[str, Tensor]:
        """Features and biases of the edges of :attr:`edge_index`, by the name of a layer's
        argument.

        The features [e, d] have columns of their own for each relation: a one and the features of
        its edges; the edges of other relations have zeros there. The biases [e] are the logarithms
        of the weights, 0 for a relation without weights; if no relation has weights, there are
        none.
        """
        messages = self.messages.values()
        ones = [torch.ones(one.pairs.shape[1], 1) for one in messages]
        blocks = [
            column if one.features is None else torch.cat([column, one.features], 1)
            for column, one in zip(ones, messages)
        ]
        terms = {"edge_attr": torch.block_diag(*blocks)}
        if any(one.weights is not None for one in messages):
            weights = [
                column[:, 0] if one.weights is None else one.weights
                for column, one in zip(ones, messages)
            ]
            terms["attn_bias"] = torch.cat(weights).log()
        return terms

    def joined(self, x: Tensor) -> Tensor:
        """Return the features of the nodes of all types, given those [n, d] of the labelled nodes.

        The features of a type, the numbers of edges of its nodes and a one are columns of their
        own; the nodes of other types have zeros in them. The result is ``torch.sparse_csr`` if the
        features of a type are.
        """
        features = [x, *(self.x[kind] for kind in self.degrees if kind in self.x)]
        blocks = [
            sp.hstack([as_matrix(one), degrees.numpy(), np.ones((len(degrees), 1))])
            for one, degrees in zip(features, self.degrees.values())
        ]
        matrix: Matrix = sp.block_diag(blocks, format="csr", dtype=np.float32)
        if all(one.layout == torch.strided for one in features):
            return torch.from_numpy(matrix.toarray())
        return sparse_tensor(matrix)


@dataclass(frozen=True, eq=False)
class TypedNetwork:
    """Nodes of all types of a network, and the edges between them.

    Attributes:
        target: type of the labelled nodes, which are also those of the ``AttributedGraph``.
        nodes: nodes of each type.
        edges: edges and their columns, by relation.
        inputs: tensors for the models; None before an encoder attached them.
    """

    target: str
    nodes: Mapping[str, Nodes]
    edges: Mapping[Relation, EdgeTable]
    inputs: TypedInputs | None = None

    @property
    def types(self) -> list[str]:
        """Names of all types: the target, and the others in alphabetical order."""
        return [self.target, *sorted(self.nodes.keys() - {self.target})]

    @property
    def others(self) -> dict[str, Nodes]:
        """Nodes of each type but the target, in the order of :attr:`types`."""
        return {kind: self.nodes[kind] for kind in self.types[1:]}

    def titles(self) -> tuple[list[str], Tensor]:
        """Return the names of all nodes in the order in which an attention network reads them, and
        the position of the type of each in :attr:`types`, [m] int64.

        The name of a node that is not predicted is followed by its type.
        """
        names = [
            f"{name} ({kind})" if place else str(name)
            for place, kind in enumerate(self.types)
            for name in self.nodes[kind].names
        ]
        sizes = torch.tensor(list(map(self.size, self.types)))
        return names, torch.arange(len(sizes)).repeat_interleave(sizes)

    def size(self, kind: str) -> int:
        """Return the number of nodes of a type."""
        return len(self.nodes[kind])

    def without_inputs(self) -> TypedNetwork:
        """Return the network as it was read."""
        return self if self.inputs is None else replace(self, inputs=None)


def projection(
    target: str, sizes: Mapping[str, int], messages: Mapping[Relation, Messages]
) -> Matrix:
    r"""Return a graph of the labelled nodes: weights of neighbours that are one or two steps away.

    .. math:: P = D^{-1} \Bigl( \sum_r A_r + \sum_{r, s} \bigl(A_r A_s -
        \mathrm{diag}(A_r A_s)\bigr) \Bigr)

    A_r computes means over the messages of a relation. The first sum is over the relations from
    labelled nodes to labelled nodes, and the second over pairs of relations that lead from labelled
    nodes to nodes of another type and from these to labelled nodes. The diagonal is removed, so
    that a node is no neighbour of itself. If the products would have more than 2,000,000 entries,
    the nodes of other types with the most neighbours are left out.

    Args:
        target: type of the labelled nodes.
        sizes: number of nodes of each type.
        messages: edges of each relation.

    Returns:
        Sparse [n, n], whose rows sum to 1, or to 0 for a node without neighbours.
    """
    n = sizes[target]
    total: Matrix = sp.csr_matrix((n, n), dtype=np.float32)
    for relation, edges in messages.items():
        if relation.source == relation.destination == target:
            total = total + row_means(_without_diagonal(edges.matrix(n, n)))
    pairs = [
        (first, last)
        for first in messages
        for last in messages
        if first.source == target == last.destination and first.destination == last.source != target
    ]
    for first, last in pairs:
        m = sizes[last.source]
        into, out = messages[first].matrix(n, m), messages[last].matrix(m, n)
        counts = np.diff(into.indptr).astype(np.float64) * out.getnnz(0)
        order = np.argsort(counts, kind="stable")
        allowed = np.cumsum(counts[order]) <= PAIRS / len(pairs)
        keep = np.zeros(m, np.float32)
        keep[order[allowed]] = 1
        product = row_means(out) @ sp.diags(keep) @ row_means(into)
        total = total + row_means(_without_diagonal(product))
    return row_means(sp.csr_matrix(total, dtype=np.float32))


def projected_edges(matrix: Matrix) -> Tensor:
    """Return the edges [2, e] int64 of a projection, sorted by destination."""
    rows, columns = matrix.nonzero()
    order = np.lexsort((columns, rows))
    return torch.from_numpy(np.stack([columns[order], rows[order]]).astype(np.int64))


def _without_diagonal(matrix: Matrix) -> Matrix:
    """Return a copy of a sparse matrix in which the entries of the diagonal are removed."""
    matrix = matrix.tocsr(copy=True)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    return matrix
