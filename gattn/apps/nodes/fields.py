"""Receptive fields: the nodes and edges on which the outputs for given nodes depend."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gattn.apps.nodes.scratch import Matrix
from gattn.graph import Graph


@dataclass(frozen=True, eq=False)
class Field:
    """Receptive field of given nodes: the edges that each layer needs to compute the outputs for
    these nodes.

    Attributes:
        nodes: [m] int64, the nodes whose features are read, beginning with the nodes of the
            outputs; None for all nodes in their order.
        layers: for each layer its edges, and the number of leading rows of its result that the
            next layer reads.
        edges: for each layer the indices of its edges in the graph; empty if every layer reads all
            edges.
    """

    nodes: Tensor | None
    layers: tuple[tuple[Graph, int], ...]
    edges: tuple[Tensor, ...] = ()


@dataclass(frozen=True, eq=False)
class FieldInput:
    """Input of a network: a receptive field and the features of its nodes.

    Attributes:
        x: [m, d] float32 features of the field's nodes, dense or ``torch.sparse_csr``.
        field: the receptive field.
        terms: for each layer the arguments for the attributes of its edges; empty if there are
            none.
        labels: [m, classes] float32 one-hot known labels of the field's nodes, zeros for other
            nodes; None for a network that reads no labels.
    """

    x: Tensor
    field: Field
    terms: tuple[Mapping[str, Tensor], ...] = ()
    labels: Tensor | None = None

    def layer_terms(self, layer: int) -> Mapping[str, Tensor]:
        """Return the arguments with the edge attributes for one layer."""
        return self.terms[layer] if self.terms else {}


def whole_graph(edge_index: Tensor, nodes: int, layers: int) -> Field:
    """Return the receptive field of all nodes, in which each layer uses all edges."""
    graph = Graph(edge_index, nodes)
    return Field(None, ((graph, nodes),) * layers)


def receptive_field(edge_index: Tensor, nodes: int, seeds: Tensor, layers: int) -> Field:
    r"""Return the receptive field of given nodes: all nodes and edges on which their outputs
    depend.

    .. math:: S_L = \text{seeds}, \qquad S_{l-1} = S_l \cup \{j : j \to i,\; i \in S_l\}

    Layer l computes the nodes of S_l from the nodes of S_{l-1}. The seeds' outputs and their
    gradients are the same as on the whole graph if every layer reads only neighbours. In a citation
    network with 20 labelled papers per class, the field is a small part of the network.

    Args:
        edge_index: [2, e] int64 from source to destination.
        nodes: number of nodes.
        seeds: [s] int64, different nodes.
        layers: number of layers.

    Returns:
        The receptive field. The first rows of its outputs are the seeds, in order.

    Example:
        >>> chain = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> field = receptive_field(chain, 5, torch.tensor([3]), layers=2)
        >>> field.nodes, [(graph.num_edges, rows) for graph, rows in field.layers]
        (tensor([3, 2, 1]), [(2, 2), (1, 1)])
    """
    source, destination = edge_index
    member = torch.zeros(nodes, dtype=torch.bool)
    member[seeds] = True
    order, needed, edges = seeds, [], []
    for _ in range(layers):
        rows, mask = len(order), member[destination]
        needed.append((edge_index[:, mask], rows))
        edges.append(mask.nonzero().flatten())
        new = torch.zeros(nodes, dtype=torch.bool)
        new[source[mask]] = True
        order = torch.cat([order, (new & ~member).nonzero().flatten()])
        member = member | new
    place = torch.full((nodes,), -1)
    place[order] = torch.arange(len(order))
    sizes = [*(rows for _, rows in needed[1:]), len(order)]
    layers_reversed = [(Graph(place[pairs], m), rows) for (pairs, rows), m in zip(needed, sizes)]
    return Field(order, tuple(reversed(layers_reversed)), tuple(reversed(edges)))


def edge_terms(terms: Mapping[str, Tensor], field: Field) -> tuple[Mapping[str, Tensor], ...]:
    """Return the arguments with the edge attributes for each layer.

    Args:
        terms: features and biases of the edges of the graph, by the name of a layer's argument.
        field: the edges of each layer.

    Returns:
        For each layer ``edge_attr`` and ``attn_bias``, if the terms contain them; empty without
        terms.
    """
    if not terms:
        return ()
    if not field.edges:
        return (terms,) * len(field.layers)
    return tuple({name: tensor[rows] for name, tensor in terms.items()} for rows in field.edges)


def read_features(x: Tensor, nodes: Tensor | None) -> Tensor:
    """Return the rows ``nodes`` of dense or sparse features, in this order; if it is None, return
    the features themselves.
    """
    if nodes is None:
        return x
    if x.layout == torch.strided:
        return x[nodes]
    start, counts = x.crow_indices()[nodes], x.crow_indices().diff()[nodes]
    ends = counts.cumsum(0)
    offsets = torch.repeat_interleave(start - (ends - counts), counts)
    entries = torch.arange(int(counts.sum())) + offsets
    pointers = torch.cat([counts.new_zeros(1), ends])
    columns, values = x.col_indices()[entries], x.values()[entries]
    return csr_tensor(pointers, columns, values, (len(nodes), x.shape[1]))


def stored_values(x: Tensor) -> int:
    """Return the number of stored values of dense or sparse features."""
    return x.numel() if x.layout == torch.strided else x.values().numel()


class FieldSize(NamedTuple):
    """Size of a receptive field, which determines the time of a training step.

    Attributes:
        nodes: number of nodes whose features are read.
        values: number of stored values of these features.
        edges: number of edges of all layers.
    """

    nodes: int
    values: int
    edges: int


def field_size(x: Tensor, edge_index: Tensor, seeds: Tensor, layers: int) -> FieldSize:
    """Return the size of the receptive field of given nodes.

    Args:
        x: [n, d] features of all nodes, dense or ``torch.sparse_csr``.
        edge_index: [2, e] int64 from source to destination.
        seeds: [s] int64, different nodes.
        layers: number of layers.
    """
    field = receptive_field(edge_index, x.shape[0], seeds, layers)
    assert field.nodes is not None
    values = stored_values(read_features(x, field.nodes))
    return FieldSize(len(field.nodes), values, sum(graph.num_edges for graph, _ in field.layers))


def sparse_tensor(matrix: Matrix) -> Tensor:
    """Convert a matrix of SciPy in CSR form to ``torch.sparse_csr``."""
    pointers, columns = (
        torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices)
    )
    return csr_tensor(pointers, columns, torch.from_numpy(matrix.data), matrix.shape)


def csr_tensor(pointers: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Create a sparse CSR tensor, and suppress torch's warning that this layout is in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointers, columns, values, size, check_invariants=False)
