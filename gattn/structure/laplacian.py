"""Eigenvectors of the normalised Laplacian in a basis that does not depend on the eigensolver."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph, as_graph
from gattn.graph.edge_input import check_count

DENSE_LIMIT = 1000
"""Maximum number of nodes in a connected component for which the dense eigensolver is used."""
EIGENVALUE_TOLERANCE = 1e-11
"""Two eigenvalues are treated as equal if they differ by at most this number. Eigenvalues are in
[0, 2], and solvers reach about 1e-14.
"""


def laplacian_eigenvectors(
    edges: Any,
    num_nodes: int | None = None,
    *,
    k: int,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Compute the eigenvectors of each component's Laplacian for the smallest nonzero eigenvalues.

    .. math:: L = I - D^{-1/2} A D^{-1/2}, \qquad L u_t = \lambda_t u_t, \qquad
        0 = \lambda_0 < \lambda_1 \le \lambda_2 \le \dots

    Every connected component is solved separately, so a batch of graphs gives the same result as
    each graph alone. Order and sign are fixed: eigenvalues ascend, and the entry of each
    eigenvector with the largest absolute value is positive (the entry of the lowest node if several
    are equal). For equal eigenvalues, a basis of the eigenspace is chosen by the same rule, vector
    by vector, so that it depends on the space and not on the solver.

    Args:
        edges: a :class:`gattn.Graph` or edges from which a Graph can be created; read as
            undirected, without self-loops. Without weights, repeated edges count once.
        num_nodes: number of nodes, n; optional if the edges include it.
        k: number of eigenvectors.
        edge_weight: [e] weights >= 0 in the caller's edge order; the weights of both directions
            are averaged.

    Returns:
        [n, k] in the default dtype; column t has u_{t+1} of each node's component, and zeros if the
        component has fewer than t + 2 nodes.

    Raises:
        ImportError: a component has more than 1,000 nodes and SciPy is not installed.
        TypeError: k is not an int.
        ValueError: k < 1, or weights are negative or have a wrong shape.

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
    node_component = torch.empty_like(component).index_copy(0, order, component)
    start = size.cumsum(0) - size
    # The tensor contains the position of each node within its component.
    position = torch.empty_like(order)
    position[order] = torch.arange(nodes) - start[component]

    out = torch.zeros(nodes, k, dtype=torch.float64)
    for same_size in size.unique().tolist():
        if same_size < 2:
            continue
        components = (size == same_size).nonzero().squeeze(1)
        matrix_index = torch.full_like(size, -1)
        matrix_index[components] = torch.arange(len(components))
        edge_matrix = matrix_index[node_component[source]]
        inside = edge_matrix >= 0
        edge_matrix = edge_matrix[inside]
        row, col = position[destination[inside]], position[source[inside]]
        count = min(k, same_size - 1)
        if same_size <= max(DENSE_LIMIT, count + 2):
            matrix = torch.zeros(len(components), same_size, same_size, dtype=torch.float64)
            matrix[edge_matrix, row, col] = entry[inside]
            # The matrix is negated, so that its eigenvalues are in the same order as those of L = I
            # - matrix.
            value, vector = torch.linalg.eigh(-matrix)
            vectors = [_canonical(a, v, count) for a, v in zip(value, vector)]
        else:
            masks = [edge_matrix == index for index in range(len(components))]
            vectors = [
                _solve_sparse(row[m], col[m], entry[inside][m], same_size, count) for m in masks
            ]
        component_nodes = order[start[components][:, None] + torch.arange(same_size)]
        out[component_nodes, :count] = torch.stack(vectors)
    return out.to(graph.device, torch.get_default_dtype())


def _square(graph: Graph) -> int:
    if graph.num_src != graph.num_dst:
        raise ValueError(
            f"edges must have the same nodes as sources and destinations; got {graph!r}"
        )
    return graph.num_src


def _undirected(graph: Graph, edge_weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return sources, destinations and weights of the undirected graph without parallel edges,
    on the CPU.
    """
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
    """Return for each node the node with the lowest index in the same connected component."""
    label = torch.arange(nodes)
    while True:
        lower = label.scatter_reduce(0, destination, label[source], "amin")
        lower = lower.scatter_reduce(0, label, lower, "amin")[lower]
        if torch.equal(lower, label):
            return label
        label = lower


def _solve_sparse(row: Tensor, col: Tensor, entry: Tensor, size: int, count: int) -> Tensor:
    """Compute eigenvectors 1 to count of one component with a sparse eigensolver: [size, count]."""
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
    start_vector = torch.randn(size, generator=generator, dtype=torch.float64).numpy()
    # One more eigenvalue than requested is computed, because it may equal the last requested one.
    options = {"k": count + 2, "v0": start_vector, "return_eigenvectors": True}
    try:
        value, vector = eigsh(matrix, which="LA", maxiter=100, **options)
    except ArpackNoConvergence:
        # In a long chain, many eigenvalues are close to 1 and ARPACK does not converge. Its
        # shift-invert mode with a shift just above 1 does.
        shifted = matrix - (1 + 1e-6) * identity(size, format="csr")
        value, vector = eigsh(shifted.tocsc(), sigma=0.0, which="LM", **options)
        value = value + 1 + 1e-6
    value, order = torch.from_numpy(-value).sort(stable=True)
    return _canonical(value, torch.from_numpy(vector.copy())[:, order], count)


def _canonical(value: Tensor, vector: Tensor, count: int) -> Tensor:
    """Return the eigenvectors 1 to count, [size, count], in a unique basis of each eigenspace."""
    bounds = [
        0,
        *((value.diff() > EIGENVALUE_TOLERANCE).nonzero().squeeze(1) + 1).tolist(),
        len(value),
    ]
    columns: list[Tensor] = []
    for first, last in itertools.pairwise(bounds):
        if first <= count and last > 1:
            columns += _basis(vector[:, max(first, 1) : last])
    return torch.stack(columns[:count], dim=1)


def _basis(vector: Tensor) -> list[Tensor]:
    """Return an orthonormal basis of a space. It does not depend on the vectors by which the space
    is given.

    Each step selects the coordinate axis with the largest projection onto the rest of the space,
    and adds this normalised projection to the basis.
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
    """Return r - 1 columns, [r, r - 1], which together with a unit vector form an orthonormal
    basis.
    """
    return torch.linalg.qr(axis.unsqueeze(1), mode="complete").Q[:, 1:]
