"""Eigenvectors of the normalised Laplacian, one and the same for a graph however it is solved."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, as_graph
from gattn.graph.edge_input import check_count

DENSE_LIMIT = 1000
"""Largest component solved densely, in nodes."""
SAME = 1e-11
"""Eigenvalues closer than this count as one; they lie in [0, 2] and are found to about 1e-14."""


def laplacian_eigenvectors(
    edges: Any,
    num_nodes: int | None = None,
    *,
    k: int,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Eigenvectors of each component's Laplacian to its smallest eigenvalues but zero.

    .. math:: L = I - D^{-1/2} A D^{-1/2}, \qquad L u_t = \lambda_t u_t, \qquad
        0 = \lambda_0 < \lambda_1 \le \lambda_2 \le \dots

    Every connected component is solved on its own, so that a batch of graphs gives what each
    graph gives alone. Sign and order are fixed: ascending eigenvalues, and of each eigenvector
    the entry largest in size is positive (the lowest node of several). Where eigenvalues
    coincide, a basis of their space is chosen by the same rule, one vector after the other: it
    depends on the space and not on the solver.

    Args:
        edges: a :class:`gattn.Graph` or anything it is made from; read as undirected, with
            self-loops dropped. Without weights an edge counts once, however often it is given.
        num_nodes: number of nodes, n; may be left out where the edges carry it.
        k: number of eigenvectors.
        edge_weight: [e] weights >= 0 in the caller's edge order; both directions are averaged.

    Returns:
        [n, k] in the default dtype; column t holds u_{t+1} of each node's own component, with
        zeros where that has fewer than k + 1 nodes.

    Raises:
        ImportError: without SciPy, for a component of more than 1,000 nodes.
        TypeError: for a k that is not an int.
        ValueError: for k < 1, or weights that are negative or of a wrong shape.

    Reference:
        Belkin, Niyogi, "Laplacian eigenmaps for dimensionality reduction and data
        representation" (Neural Computation 2003); Dwivedi, Bresson, "A generalization of
        transformer networks to graphs" (AAAI workshop 2021).

    Example:
        >>> from gattn import graphs
        >>> from gattn.structure import laplacian_eigenvectors
        >>> laplacian_eigenvectors(graphs.band([2, 1], 1), k=2)
        tensor([[ 0.7071,  0.0000],
                [-0.7071,  0.0000],
                [ 0.0000,  0.0000]])
    """
    check_count("k", k, 1)
    graph = as_graph(edges, num_nodes)
    nodes = _square(graph)
    source, destination, weight = _undirected(graph, edge_weight)
    degree = weight.new_zeros(nodes).index_add(0, destination, weight)
    scale = degree.clamp(min=torch.finfo(degree.dtype).tiny).rsqrt()
    entry = weight * scale[source] * scale[destination]

    label = _components(source, destination, nodes)
    order = label.argsort(stable=True)
    _, component, size = label[order].unique_consecutive(return_inverse=True, return_counts=True)
    of_node = torch.empty_like(component).index_copy(0, order, component)
    start = size.cumsum(0) - size
    place = torch.empty_like(order)
    place[order] = torch.arange(nodes) - start[component]  # number of a node in its component

    out = torch.zeros(nodes, k, dtype=torch.float64)
    for same_size in size.unique().tolist():
        if same_size < 2:
            continue
        chosen = (size == same_size).nonzero().squeeze(1)
        rank = torch.full_like(size, -1)
        rank[chosen] = torch.arange(len(chosen))
        inside = rank[of_node[source]] >= 0
        which = rank[of_node[source[inside]]]
        row, col = place[destination[inside]], place[source[inside]]
        count = min(k, same_size - 1)
        if same_size <= max(DENSE_LIMIT, count + 2):
            matrix = torch.zeros(len(chosen), same_size, same_size, dtype=torch.float64)
            matrix[which, row, col] = entry[inside]
            value, vector = torch.linalg.eigh(-matrix)  # L - I: ascending in both
            found = [_canonical(a, v, count) for a, v in zip(value, vector)]
        else:
            parts = [which == number for number in range(len(chosen))]
            found = [
                _solve_sparse(row[p], col[p], entry[inside][p], same_size, count) for p in parts
            ]
        members = order[start[chosen][:, None] + torch.arange(same_size)]
        out[members, :count] = torch.stack(found)
    return out.to(graph.device, torch.get_default_dtype())


def _square(graph: Graph) -> int:
    if graph.num_src != graph.num_dst:
        raise ValueError(f"edges must join the nodes of one set; got {graph!r}")
    return graph.num_src


def _undirected(graph: Graph, edge_weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions of every edge once, on the CPU, with loops dropped: source, dest., weight."""
    nodes = graph.num_src
    source, destination = graph.edge_index.cpu()
    if edge_weight is None:
        weight = torch.ones(graph.num_edges, dtype=torch.float64)
    elif edge_weight.shape != (graph.num_edges,):
        raise ValueError(
            f"edge_weight must have shape ({graph.num_edges},); got {tuple(edge_weight.shape)}"
        )
    else:
        weight = edge_weight.detach().cpu().double()
        if bool((weight < 0).any()):
            raise ValueError(f"edge_weight must be >= 0; got {float(weight.min())}")
    keep = (source != destination) & (weight > 0)
    source, destination, weight = source[keep], destination[keep], weight[keep]
    code = torch.cat([source * nodes + destination, destination * nodes + source])
    code, inverse = code.unique(return_inverse=True)
    total = torch.zeros(len(code), dtype=torch.float64).index_add(0, inverse, weight.repeat(2))
    total = torch.ones_like(total) if edge_weight is None else total / 2
    return code // max(nodes, 1), code % max(nodes, 1), total


def _components(source: Tensor, destination: Tensor, nodes: int) -> Tensor:
    """For each node the lowest node of its component, by min-label propagation and jumps."""
    label = torch.arange(nodes)
    while True:
        lower = label.scatter_reduce(0, destination, label[source], "amin")
        lower = lower.scatter_reduce(0, label, lower, "amin")[lower]
        if torch.equal(lower, label):
            return label
        label = lower


def _solve_sparse(row: Tensor, col: Tensor, entry: Tensor, size: int, count: int) -> Tensor:
    try:
        from scipy.sparse import coo_matrix, identity
        from scipy.sparse.linalg import ArpackNoConvergence, eigsh
    except ImportError as error:
        raise ImportError(
            f"Laplacian eigenvectors of a component of {size} nodes (more than {DENSE_LIMIT}) "
            "need SciPy (pip install scipy)"
        ) from error
    matrix = coo_matrix((entry.numpy(), (row.numpy(), col.numpy())), shape=(size, size)).tocsr()
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(size, generator=generator, dtype=torch.float64).numpy()
    # One more than is kept, so that a last eigenvalue that coincides with the next is noticed.
    wanted = {"k": count + 2, "v0": first, "return_eigenvectors": True}
    try:
        value, vector = eigsh(matrix, which="LA", maxiter=100, **wanted)
    except ArpackNoConvergence:  # long chains: eigenvalues crowd at 1, so look from just above it
        above = matrix - (1 + 1e-6) * identity(size, format="csr")
        value, vector = eigsh(above.tocsc(), sigma=0.0, which="LM", **wanted)
        value = value + 1 + 1e-6
    value, order = torch.from_numpy(-value).sort(stable=True)
    return _canonical(value, torch.from_numpy(vector.copy())[:, order], count)


def _canonical(value: Tensor, vector: Tensor, count: int) -> Tensor:
    """Vectors 1 to count of ascending eigenpairs, [size, count], each space in its own basis."""
    bounds = [0, *((value.diff() > SAME).nonzero().squeeze(1) + 1).tolist(), len(value)]
    columns: list[Tensor] = []
    for first, last in itertools.pairwise(bounds):
        if first <= count and last > 1:
            columns += _basis(vector[:, max(first, 1) : last])
    return torch.stack(columns[:count], dim=1)


def _basis(vector: Tensor) -> list[Tensor]:
    """An orthonormal basis of a space that depends on the space alone.

    One after the other, the projection onto what is left of the space of the unit vector that
    has the largest one.
    """
    columns = []
    for _ in range(vector.shape[1]):
        share = vector.square().sum(1)
        node = int((share > share.max() * (1 - 1e-6)).nonzero()[0])
        axis = vector[node] / share[node].sqrt()
        columns.append(vector @ axis)
        vector = vector @ _complement(axis)
    return columns


def _complement(axis: Tensor) -> Tensor:
    """Columns that, with the unit vector axis, are an orthonormal basis: [r, r - 1]."""
    return torch.linalg.qr(axis.unsqueeze(1), mode="complete").Q[:, 1:]
