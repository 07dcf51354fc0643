"""Random walks: how likely a walker is back where it started, or at another node."""

from __future__ import annotations

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
    r"""Probability of a random walk from a node to be at another after 0, 1, ... steps.

    .. math:: p_{ijt} = (P^t)_{ij}, \qquad P = D^{-1} A, \qquad t = 0, \dots, K - 1

    for every edge j → i of ``over``, the graph that attention runs on, such as each molecule's
    complete graph; walkers follow ``edges``, the bonds. Matrices stay sparse.

    Args:
        edges: a :class:`gattn.Graph` among the nodes of ``over``, or anything it is made from; a
            walker follows edges from source to destination.
        over: the graph whose edges ask, of n nodes.
        steps: number of probabilities, K.
        edge_weight: weights >= 0 of ``edges``, in the caller's order; None for ones.

    Returns:
        [e, steps] in the default dtype, computed in fp64, in the order of the caller's edges of
        ``over``: zeros where no walker gets.

    Raises:
        TypeError: for steps that are not an int, or other than a graph to ask for.
        ValueError: for steps < 1, graphs of different nodes, or weights that are negative or of a
            wrong shape.

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
        raise ValueError(f"over must join the nodes of one set; got {over!r}")
    nodes = over.num_src
    walk = _one_step(as_graph(edges, nodes), edge_weight)
    node = torch.arange(nodes, device=over.device)
    power = _matrix(node, node, torch.ones(nodes, dtype=torch.float64, device=over.device), nodes)
    source, destination = over.edge_index
    asked = destination * nodes + source
    found = [_entries(power, asked)]
    while len(found) < steps:
        power = _product(power, walk)
        found.append(_entries(power, asked))
    return torch.stack(found, dim=1).to(torch.get_default_dtype())


def _one_step(graph: Graph, edge_weight: Tensor | None) -> Tensor:
    """P: the probabilities of a step from each node, a row, to each, [n, n] and sparse."""
    if graph.num_src != graph.num_dst:
        raise ValueError(f"edges must join the nodes of one set; got {graph!r}")
    source, destination = graph.edge_index
    if edge_weight is None:
        weight = torch.ones(graph.num_edges, dtype=torch.float64, device=graph.device)
    elif edge_weight.shape != (graph.num_edges,) or bool((edge_weight < 0).any()):
        raise ValueError(f"edge_weight must be ({graph.num_edges},) values >= 0; got {edge_weight}")
    else:
        weight = edge_weight.detach().double()
    degree = weight.new_zeros(graph.num_src).index_add(0, source, weight)
    chance = weight / degree.masked_fill(degree == 0, 1.0)[source]
    return _matrix(source, destination, chance, graph.num_src)


def _entries(matrix: Tensor, asked: Tensor) -> Tensor:
    """The entries of a coalesced square matrix at row * size + column; 0 where it has none."""
    row, col = matrix.indices()
    held = row * matrix.shape[0] + col  # ascending
    place = torch.searchsorted(held, asked).clamp(max=max(len(held) - 1, 0))
    if not len(held):
        return matrix.values().new_zeros(len(asked))
    return matrix.values()[place].where(held[place] == asked, 0.0)


def _matrix(row: Tensor, col: Tensor, value: Tensor, size: int) -> Tensor:
    pairs = torch.stack([row, col])
    return torch.sparse_coo_tensor(pairs, value, (size, size), check_invariants=False).coalesce()


def _product(a: Tensor, b: Tensor) -> Tensor:
    """A B of coalesced matrices: every entry of A meets the row of B that its column names."""
    (row, middle), (first, col) = a.indices(), b.indices()
    rowptr = torch.searchsorted(first, torch.arange(b.shape[0] + 1, device=first.device))
    count = rowptr.diff()[middle]
    if torch.compiler.is_exporting():
        raise ValueError(
            "torch.export fixes what is read from a tensor, as the sizes of products of sparse "
            "matrices are: compute the probabilities of walks beforehand "
            "(gattn.transforms.AddRandomWalkPE, RandomWalkEncoding.encode)"
        )
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
