"""Return probabilities of random walks."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, as_graph
from gattn.graph.edge_input import check_count


def return_probabilities(
    edges: Any,
    num_nodes: int | None = None,
    *,
    steps: int,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Compute the probability that a random walk is at its start after 1, 2, ... steps.

    .. math:: p_{it} = (P^t)_{ii}, \qquad P = D^{-1} A

    All matrices are sparse. Only half the powers are computed, because
    :math:`(P^{a+b})_{ii} = \sum_j (P^a)_{ij} (P^b)_{ji}`.

    Args:
        edges: a :class:`gattn.Graph` or edges from which a Graph can be created; walks follow edges
            from source to destination.
        num_nodes: number of nodes, n; optional if the edges include it.
        steps: number of steps, K.
        edge_weight: [e] weights >= 0 in the caller's edge order; None if all are 1.

    Returns:
        [n, steps] in the default dtype, computed in fp64 without gradients; zeros for a node
        without edges.

    Raises:
        TypeError: steps is not an int, or edges have another type.
        ValueError: steps < 1, the graph is bipartite, or weights are negative or have a wrong
            shape.

    Reference:
        Dwivedi et al., "Graph neural networks with learnable structural and positional
        representations" (ICLR 2022).

    Example:
        >>> from gattn import graphs
        >>> from gattn.structure import return_probabilities
        >>> from torch import tensor
        >>> return_probabilities(tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, steps=2)
        tensor([[0.0000, 0.5000],
                [0.0000, 1.0000],
                [0.0000, 0.5000]])
    """
    check_count("steps", steps, 1)
    walk = _one_step(as_graph(edges, num_nodes), edge_weight)
    powers = [walk]
    while len(powers) < (steps + 1) // 2:
        powers.append(_product(powers[-1], walk))
    later = (
        _diagonal_of_product(powers[(step + 1) // 2 - 1], powers[step // 2 - 1])
        for step in range(2, steps + 1)
    )
    return torch.stack([_diagonal(walk), *later], dim=1).to(torch.get_default_dtype())


def _one_step(graph: Graph, edge_weight: Tensor | None) -> Tensor:
    """Return the sparse transition matrix P, [n, n]. Row i contains the probabilities of the steps
    from node i. A node without edges has a row of zeros. Raises ValueError for a bipartite graph,
    and for weights that are negative or not [e].
    """
    if graph.num_src != graph.num_dst:
        raise ValueError(
            f"edges must have the same nodes as sources and destinations; got {graph!r}"
        )
    source, destination = graph.edge_index
    if edge_weight is None:
        weight = torch.ones(graph.num_edges, dtype=torch.float64, device=graph.device)
    elif edge_weight.shape != (graph.num_edges,) or bool((edge_weight < 0).any()):
        raise ValueError(f"edge_weight must be ({graph.num_edges},) values >= 0; got {edge_weight}")
    else:
        weight = edge_weight.detach().double()
    degree = weight.new_zeros(graph.num_src).index_add(0, source, weight)
    probability = weight / degree.masked_fill(degree == 0, 1.0)[source]
    return _matrix(source, destination, probability, graph.num_src)


def _matrix(row: Tensor, col: Tensor, value: Tensor, size: int) -> Tensor:
    pairs = torch.stack([row, col])
    return torch.sparse_coo_tensor(pairs, value, (size, size), check_invariants=False).coalesce()


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two sparse matrices, coalesced."""
    with warnings.catch_warnings():
        # torch multiplies in the CSR format, and warns that this format is in beta.
        warnings.simplefilter("ignore", UserWarning)
        return (a @ b).coalesce()


def _diagonal(matrix: Tensor) -> Tensor:
    """Return the diagonal [n] of a sparse matrix [n, n]."""
    row, col = matrix.indices()
    mask = row == col
    zeros = matrix.values().new_zeros(matrix.shape[0])
    return zeros.index_add(0, row[mask], matrix.values()[mask])


def _diagonal_of_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the diagonal of a product, (A B)_ii = sum_j A_ij B_ji."""
    both = (a * b.t().coalesce()).coalesce()
    return both.values().new_zeros(a.shape[0]).index_add(0, both.indices()[0], both.values())
