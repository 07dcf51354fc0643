"""Graphs of points in space, based on nearest neighbours or on all neighbours within a radius."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.edge_input import check_count


def knn(
    position: Tensor, k: int, *, index: Tensor | None = None, self_loops: bool = False
) -> Graph:
    r"""Build a graph in which every point attends to its k nearest points.

    .. math:: j \to i \quad\text{for } j \text{ among the } k \text{ nearest to } i

    Args:
        position: [n, d], any floating dtype; distances are Euclidean, in fp64.
        k: number of neighbours of each point; fewer if its cloud has fewer points.
        index: [n] integers, the point cloud of each point, in any order; None for one cloud.
        self_loops: whether a point may be one of its own k neighbours.

    Returns:
        The graph of n nodes, on the device of position; edges ordered by destination, then by
        distance. Built on the CPU by SciPy's k-d tree.

    Raises:
        ImportError: SciPy is not installed.
        TypeError: position or index is not a tensor, index has a non-integer dtype,
            or k is not an int.
        ValueError: a shape is wrong, a position is not finite, or k < 1.

    Reference:
        Wang et al., "Dynamic graph CNN for learning on point clouds" (ACM TOG 2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> graphs.knn(torch.tensor([[0.0], [1.0], [3.0]]), 1).edge_index
        tensor([[1, 0, 1],
                [0, 1, 2]])
    """
    check_count("k", k, 1)
    pairs = []
    for points, tree in _trees(position, index):
        count = k if self_loops else k + 1
        _, near = tree.query(tree.data, k=range(1, count + 1))
        near = torch.from_numpy(near)
        valid = near < len(points)
        if not self_loops:
            is_self = near == torch.arange(len(points))[:, None]
            valid &= ~is_self
            # If more than k + 1 points coincide, the list of a point's k + 1 nearest points may not
            # contain the point. In this case, the last of these points is removed.
            valid[:, -1] &= is_self.any(1)
        destination, rank = valid.nonzero().unbind(1)
        pairs.append(torch.stack([points[near[destination, rank]], points[destination]]))
    return _collect(pairs, position)


def radius(
    position: Tensor, r: float, *, index: Tensor | None = None, self_loops: bool = False
) -> Graph:
    r"""Build a graph in which every point attends to all points within a radius.

    .. math:: j \to i \quad\text{for } \lVert x_i - x_j \rVert \le r

    Args:
        position: [n, d], any floating dtype; distances are Euclidean, in fp64.
        r: radius, in the unit of position.
        index: [n] integers, the point cloud of each point, in any order; None for one cloud.
        self_loops: whether a point is its own neighbour.

    Returns:
        The graph of n nodes, on the device of position; edges ordered by (destination, source)
        inside each cloud. Built on the CPU by SciPy's k-d tree.

    Raises:
        ImportError: SciPy is not installed.
        TypeError: position or index is not a tensor, index has a non-integer dtype,
            or r is not a number.
        ValueError: a shape is wrong, a position is not finite, or r < 0.

    Reference:
        Schütt et al., "SchNet" (NeurIPS 2017).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> graphs.radius(torch.tensor([[0.0], [1.0], [3.0]]), 1.5).edge_index
        tensor([[1, 0],
                [0, 1]])
    """
    if not hasattr(r, "__float__"):
        raise TypeError(f"r must be a number; got {r!r}")
    if not r >= 0:
        raise ValueError(f"r must be >= 0; got {r}")
    pairs = []
    for points, tree in _trees(position, index):
        indices = tree.query_pairs(r, output_type="ndarray").reshape(-1, 2)
        a, b = points[torch.from_numpy(indices).long()].unbind(1)
        edges = torch.stack([torch.cat([a, b]), torch.cat([b, a])])
        if self_loops:
            edges = torch.cat([edges, points.expand(2, -1)], dim=1)
        order = (edges[1] * position.shape[0] + edges[0]).argsort()
        pairs.append(edges[:, order])
    return _collect(pairs, position)


def _trees(position: Tensor, index: Tensor | None) -> list[tuple[Tensor, Any]]:
    """Return the indices of the points in each point cloud, and its k-d tree. Raises ImportError
    without SciPy, TypeError for anything but tensors, and ValueError for a wrong shape or positions
    that are not finite.
    """
    try:
        from scipy.spatial import KDTree
    except ImportError as error:
        raise ImportError("knn and radius need SciPy (pip install scipy)") from error
    if not isinstance(position, Tensor):
        raise TypeError(f"position must be a tensor; got {type(position).__name__}")
    if position.dim() != 2 or position.shape[1] == 0 or not position.is_floating_point():
        raise ValueError(
            "position must be a floating-point tensor of shape (n, d) with d >= 1; got "
            f"{tuple(position.shape)}, {position.dtype}"
        )
    points = position.detach().cpu().double()
    if not bool(points.isfinite().all()):
        raise ValueError("position must be finite; got an infinite value or NaN")
    if index is None:
        return [(torch.arange(len(points)), KDTree(points.numpy()))]
    if not isinstance(index, Tensor):
        raise TypeError(f"index must be a tensor; got {type(index).__name__}")
    if index.shape != position.shape[:1]:
        raise ValueError(f"index must have shape ({len(points)},); got {tuple(index.shape)}")
    if index.is_floating_point():
        raise TypeError(f"index must contain integers; got {index.dtype}")
    order = index.cpu().argsort(stable=True)
    _, counts = index.cpu()[order].unique_consecutive(return_counts=True)
    clouds = order.split(counts.tolist())
    return [(cloud, KDTree(points[cloud].numpy())) for cloud in clouds]


def _collect(pairs: list[Tensor], position: Tensor) -> Graph:
    edges = torch.cat([torch.empty(2, 0, dtype=torch.int64), *pairs], dim=1)
    return Graph(edges.to(position.device), position.shape[0])
