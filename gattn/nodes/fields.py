"""Receptive fields: the nodes and edges on which the outputs of some nodes depend."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from gattn.graph import Graph

__all__ = ["Field", "FieldInput", "csr_tensor", "read_features", "receptive_field", "whole_graph"]


@dataclass(frozen=True, eq=False)
class Field:
    """Receptive field of some nodes: the edges that each layer needs to compute their outputs.

    Attributes:
        nodes: [m] int64, the nodes whose features are read, beginning with the nodes of the
            outputs; None for all nodes in their order.
        layers: for each layer its edges, and the number of leading rows of its result that the
            next layer reads.
    """

    nodes: Tensor | None
    layers: tuple[tuple[Graph, int], ...]


@dataclass(frozen=True, eq=False)
class FieldInput:
    """Input of a network: a receptive field and the features of its nodes.

    Attributes:
        x: [m, d] float32 features of the field's nodes, dense or ``torch.sparse_csr``.
        field: the receptive field.
    """

    x: Tensor
    field: Field


def whole_graph(edge_index: Tensor, nodes: int, layers: int) -> Field:
    """Return the receptive field of all nodes, in which each layer uses all edges."""
    graph = Graph(edge_index, nodes)
    return Field(None, ((graph, nodes),) * layers)


def receptive_field(edge_index: Tensor, nodes: int, seeds: Tensor, layers: int) -> Field:
    r"""Return the nodes and edges on which the outputs of some nodes depend.

    .. math:: S_L = \text{seeds}, \qquad S_{l-1} = S_l \cup \{j : j \to i,\; i \in S_l\}

    Layer l computes the nodes of S_l from the nodes of S_{l-1}. The seeds' outputs and their
    gradients are the same as on the whole graph if every layer reads only neighbours. In a citation
    network with
    20 labelled papers per class, the field is a small part of the network.

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
    order, needed = seeds, []
    for _ in range(layers):
        rows, mask = len(order), member[destination]
        needed.append((edge_index[:, mask], rows))
        new = torch.zeros(nodes, dtype=torch.bool)
        new[source[mask]] = True
        order = torch.cat([order, (new & ~member).nonzero().flatten()])
        member = member | new
    place = torch.full((nodes,), -1)
    place[order] = torch.arange(len(order))
    sizes = [*(rows for _, rows in needed[1:]), len(order)]
    layers_reversed = [(Graph(place[pairs], m), rows) for (pairs, rows), m in zip(needed, sizes)]
    return Field(order, tuple(reversed(layers_reversed)))


def read_features(x: Tensor, nodes: Tensor | None) -> Tensor:
    """Return the rows ``nodes`` of dense or sparse features; all rows if ``nodes`` is None."""
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


def csr_tensor(pointers: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Create a sparse CSR matrix without torch's warning that the layout is in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointers, columns, values, size, check_invariants=False)
