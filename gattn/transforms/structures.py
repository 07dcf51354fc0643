"""Transform that stores the lengths of the shortest paths of pairs of nodes."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gattn import graphs
from gattn.structure import path_lengths


class AddShortestPaths(BaseTransform):
    r"""Store the length of the shortest path for every pair of nodes.

    .. math:: d_{ij} = \min(\text{steps of the shortest path } j \to i,\; L + 1)

    Stores ``path_index``, [2, n^2], the edges of the complete graph in the form of ``edge_index``,
    and ``path_length``, [n^2] int64, the path lengths along the graph's edges: 0 from a node to
    itself, ``max_length + 1`` if there is no path of at most max_length steps. PyG batches both
    attributes like edges, so attention among all atoms of each molecule, with a
    :class:`gattn.nn.RelativeBias` of path lengths, runs on ``batch.path_index``.

    Args:
        max_length: maximum path length.
        complete: whether to store all pairs; False stores only those at most ``max_length`` steps
            apart.

    Raises:
        TypeError: data is no homogeneous ``Data``, or max_length is not an int.
        ValueError: max_length is negative.

    Reference:
        Ying et al., "Do transformers really perform badly for graph representation?" (NeurIPS
        2021).

    Example:
        >>> import torch
        >>> from gattn.transforms import AddShortestPaths
        >>> from torch_geometric.data import Data
        >>> data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
        >>> data = AddShortestPaths(2)(data)
        >>> data.path_index
        tensor([[0, 1, 2, 0, 1, 2, 0, 1, 2],
                [0, 0, 0, 1, 1, 1, 2, 2, 2]])
        >>> data.path_length
        tensor([0, 1, 3, 1, 0, 3, 3, 3, 0])
    """

    def __init__(self, max_length: int, *, complete: bool = True) -> None:
        self.max_length = max_length
        self.complete = complete

    def forward(self, data: Any) -> Any:
        """Store the attributes of the class description in a graph, in place, and return the graph;
        calling the transform first makes a shallow copy. Raises TypeError unless it is a
        homogeneous ``Data``, and ValueError if it has no ``edge_index``; raises TypeError or
        ValueError for a ``max_length`` that is not an integer of at least 0.
        """
        nodes, edges = edges_of(data)
        over = graphs.complete([nodes], device=edges.device)
        length = path_lengths(edges, over, self.max_length)
        mask = slice(None) if self.complete else length <= self.max_length
        data.path_index, data.path_length = over.edge_index[:, mask], length[mask]
        return data

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(max_length={self.max_length})"


def edges_of(data: Any) -> tuple[int, Tensor]:
    """Check that data is a homogeneous graph; return its number of nodes and its edge_index. Raises
    TypeError for another class, and ValueError if one of them is missing.
    """
    if not isinstance(data, Data):
        raise TypeError(f"data must be a homogeneous torch_geometric Data; got {type(data)}")
    nodes, edges = data.num_nodes, data.edge_index
    if nodes is None or edges is None:
        raise ValueError(f"data must have edge_index and a number of nodes; got {data}")
    return nodes, edges
