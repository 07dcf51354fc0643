"""Return probabilities of random walks, and probabilities of walks between two nodes."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, as_graph, check_graph
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
        [n, steps] in the default dtype, computed in fp64; zeros for a node without edges.

    Raises:
        TypeError: steps is not an int.
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


def walk_probabilities(
    edges: Any, over: Graph, *, steps: int, edge_weight: Tensor | None = None
) -> Tensor:
    r"""Compute the probability that a random walk from one node of an edge is at the other node
    after 1, 2, ... steps.

    .. math:: p_{ijt} = (P^t)_{ij}, \qquad P = D^{-1} A, \qquad t = 0, \dots, K - 1

    for every edge j → i of ``over``, the graph on which attention runs, such as each molecule's
    complete graph. Walks follow ``edges``, for example the bonds. All matrices are sparse.

    Args:
        edges: a :class:`gattn.Graph` among the nodes of ``over``, or edges from which a Graph can
            be created; walks follow edges from source to destination.
        over: graph with n nodes; its edges are the node pairs.
        steps: number of probabilities, K.
        edge_weight: weights >= 0 of ``edges``, in the caller's order; None if all are 1.

    Returns:
        [e, steps] in the default dtype, computed in fp64, in the caller's edge order of
        ``over``; zeros for pairs that no walk connects.

    Raises:
        TypeError: steps is not an int, or ``over`` is not a Graph.
        ValueError: steps < 1, the graphs have different numbers of nodes, or weights are negative
            or have a wrong shape.

    Reference:
        Ma et al., "Graph inductive biases in transformers without message passing" (ICML 2023).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.structure import walk_probabilities
        >>> bonds = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> walk_probabilities(bonds, graphs.complete([3]), steps=3)[:3]
        tensor([[1.0000, 0.0000, 0.5000],
                [0.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 0.5000]])
    """
    check_count("steps", steps, 1)
    check_graph("over", over)
    if over.num_src != over.num_dst:
        raise ValueError(f"over must have the same nodes as sources and destinations; got {over!r}")
    nodes = over.num_src
    walk = _one_step(as_graph(edges, nodes), edge_weight)
    node = torch.arange(nodes, device=over.device)
    power = _matrix(node, node, torch.ones(nodes, dtype=torch.float64, device=over.device), nodes)
    source, destination = over.edge_index
    codes = destination * nodes + source
    probabilities = [_entries(power, codes)]
    while len(probabilities) < steps:
        power = _product(power, walk)
        probabilities.append(_entries(power, codes))
    return torch.stack(probabilities, dim=1).to(torch.get_default_dtype())


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


def _entries(matrix: Tensor, codes: Tensor) -> Tensor:
    """Return the entries of a sparse matrix at the codes row * size + column; missing entries
    are 0.
    """
    row, col = matrix.indices()
    # The codes are in ascending order, as the binary search requires.
    present = row * matrix.shape[0] + col
    index = torch.searchsorted(present, codes).clamp(max=max(len(present) - 1, 0))
    if not len(present):
        return matrix.values().new_zeros(len(codes))
    return matrix.values()[index].where(present[index] == codes, 0.0)


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
