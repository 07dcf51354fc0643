"""Random walks: how likely a walker is back where it started."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.edges import check_count
from gattn.graph import as_graph


def return_probabilities(
    edges: Any,
    num_nodes: int | None = None,
    *,
    steps: int,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Probability of a random walk to be back at its start after 1, 2, ... steps.

    .. math:: p_{it} = (P^t)_{ii}, \qquad P = D^{-1} A

    Matrices stay sparse, and only half the powers are formed, since
    :math:`(P^{a+b})_{ii} = \sum_j (P^a)_{ij} (P^b)_{ji}`.

    Args:
        edges: a :class:`gattn.Graph` or anything it is made from; a walker follows edges from
            source to destination.
        num_nodes: number of nodes, n; may be left out where the edges carry it.
        steps: number of steps, K.
        edge_weight: [e] weights >= 0 in the caller's edge order; None for ones.

    Returns:
        [n, steps] in the default dtype, computed in fp64; zeros for a node without edges.

    Raises:
        TypeError: for steps that are not an int.
        ValueError: for steps < 1, a bipartite graph, or weights that are negative or of a wrong
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
    graph = as_graph(edges, num_nodes)
    if graph.num_src != graph.num_dst:
        raise ValueError(f"edges must join the nodes of one set; got {graph!r}")
    nodes = graph.num_src
    source, destination = graph.edge_index
    if edge_weight is None:
        weight = torch.ones(graph.num_edges, dtype=torch.float64, device=graph.device)
    elif edge_weight.shape != (graph.num_edges,) or bool((edge_weight < 0).any()):
        raise ValueError(f"edge_weight must be ({graph.num_edges},) values >= 0; got {edge_weight}")
    else:
        weight = edge_weight.detach().double()
    degree = weight.new_zeros(nodes).index_add(0, source, weight)
    chance = weight / degree.masked_fill(degree == 0, 1.0)[source]
    walk = _matrix(source, destination, chance, nodes)

    powers = [walk]
    while len(powers) < (steps + 1) // 2:
        powers.append(_product(powers[-1], walk))
    later = (
        _diagonal_of_product(powers[(step + 1) // 2 - 1], powers[step // 2 - 1])
        for step in range(2, steps + 1)
    )
    return torch.stack([_diagonal(walk), *later], dim=1).to(torch.get_default_dtype())


def _matrix(row: Tensor, col: Tensor, value: Tensor, size: int) -> Tensor:
    pairs = torch.stack([row, col])
    return torch.sparse_coo_tensor(pairs, value, (size, size), check_invariants=False).coalesce()


def _product(a: Tensor, b: Tensor) -> Tensor:
    """A B of coalesced matrices: every entry of A meets the row of B that its column names."""
    (row, middle), (first, col) = a.indices(), b.indices()
    rowptr = torch.searchsorted(first, torch.arange(b.shape[0] + 1, device=first.device))
    count = rowptr.diff()[middle]
    total = int(count.sum())
    entry = torch.repeat_interleave(count, output_size=total)
    shift = rowptr[middle] - (count.cumsum(0) - count)
    other = torch.arange(total, device=count.device) + shift[entry]
    return _matrix(row[entry], col[other], a.values()[entry] * b.values()[other], a.shape[0])


def _diagonal(matrix: Tensor) -> Tensor:
    row, col = matrix.indices()
    own = row == col
    return matrix.values().new_zeros(matrix.shape[0]).index_add(0, row[own], matrix.values()[own])


def _diagonal_of_product(a: Tensor, b: Tensor) -> Tensor:
    """(A B)_ii = sum_j A_ij B_ji: the row sums of A times B transposed, entry by entry."""
    both = (a * b.t().coalesce()).coalesce()
    return both.values().new_zeros(a.shape[0]).index_add(0, both.indices()[0], both.values())
