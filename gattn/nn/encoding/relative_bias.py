"""A learned bias per edge, looked up by what lies between its two ends."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.nn.common.checks import check_at_least, check_features
from gattn.structure import path_features, path_lengths


class RelativeBias(Module):
    r"""A number per head for every kind of edge, to be added to the scores of attention.

    .. math:: \alpha_{ij} = \mathrm{softmax}_j (\tau\, q_i \cdot k_j + b_{r(i, j), h})

    What tells the kinds r apart is the caller's: the type of a bond
    (``RelativeBias(num_types, heads)(edge_type)``), the offset on a grid
    (:func:`gattn.graphs.grid_offsets`), the distance in a sequence (:func:`token_offsets`), or the
    length of the shortest path (:class:`ShortestPathBias`).

    Args:
        num_kinds: number of kinds.
        heads: heads, h.

    Shapes:
        - **input:** kinds [e] in [0, num_kinds)
        - **output:** [e, heads]

    Raises:
        ValueError: for num_kinds < 0, heads < 1 or a kind out of range.

    Reference:
        Shaw, Uszkoreit, Vaswani, "Self-attention with relative position representations" (NAACL
        2018); Raffel et al., "Exploring the limits of transfer learning with a unified
        text-to-text transformer" (JMLR 2020).

    Example:
        >>> import gattn, torch
        >>> from gattn.nn import RelativeBias
        >>> graph = gattn.graphs.grid((8, 8), 1)
        >>> bias = RelativeBias(9, heads=4)(gattn.graphs.grid_offsets((8, 8), 1))
        >>> q, k, v = torch.randn(3, 64, 4, 16)
        >>> gattn.functional.dot_product_attention(q, k, v, graph, attn_bias=bias).shape
        torch.Size([64, 4, 16])
    """

    def __init__(self, num_kinds: int, heads: int = 1) -> None:
        super().__init__()
        check_at_least(0, num_kinds=num_kinds)
        check_at_least(1, heads=heads)
        self.num_kinds = num_kinds
        self.heads = heads
        self.weight = Parameter(torch.empty(num_kinds, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all to zero: attention starts unbiased."""
        torch.nn.init.zeros_(self.weight)

    def forward(self, kind: Tensor) -> Tensor:
        """Look up the bias of every edge.

        Args:
            kind: [e] integers in [0, num_kinds), in the caller's edge order.

        Returns:
            [e, heads].

        Raises:
            ValueError: for a kind out of range.
        """
        return look_up(self.weight, kind, "kind")

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.num_kinds}, heads={self.heads})"


class ShortestPathBias(Module):
    r"""A number per head for every length of the shortest path between the ends of an edge.

    .. math:: b_{ij} = w_{\min(d(j \to i),\, L + 1)}

    Args:
        max_length: L, the longest path told apart from no path at all.
        heads: heads, h.

    Shapes:
        - **input:** the graph to walk on and the graph of attention, both of the same n nodes
        - **output:** [e, heads]

    Raises:
        ValueError: for max_length < 0, heads < 1 or graphs of different nodes.

    Reference:
        Ying et al., "Do transformers really perform badly for graph representation?" (NeurIPS
        2021).

    Example:
        >>> import gattn, torch
        >>> from gattn.nn import ShortestPathBias
        >>> bonds, among_all = torch.tensor([[0, 1], [1, 0]]), gattn.graphs.complete([2, 1])
        >>> ShortestPathBias(4, heads=2)(bonds, among_all).shape
        torch.Size([5, 2])
    """

    def __init__(self, max_length: int, heads: int = 1) -> None:
        super().__init__()
        check_at_least(0, max_length=max_length)
        self.max_length = max_length
        self.bias = RelativeBias(max_length + 2, heads)

    def reset_parameters(self) -> None:
        """Set all to zero: attention starts unbiased."""
        self.bias.reset_parameters()

    def forward(self, edges: Any, over: Graph) -> Tensor:
        """Bias of every edge of the graph that attention runs on.

        Lengths that a transform stored (:class:`gattn.transforms.AddShortestPaths`) go to
        ``self.bias`` straight away.

        Args:
            edges: the graph to walk on, or anything it is made from.
            over: the graph that attention runs on, of the same nodes.

        Returns:
            [e, heads], in the order of the caller's edges of ``over``.
        """
        return self.bias(path_lengths(edges, over, self.max_length))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.max_length}, heads={self.bias.heads})"


class PathFeatureBias(Module):
    r"""A number per head from the features of the edges on the shortest path between two nodes.

    .. math:: c_{ij} = \frac{1}{d_{ij}} \sum_{t=1}^{d_{ij}} w_t \cdot f_{ijt}

    f are the features of :func:`gattn.structure.path_features`, such as those of bonds, and d the
    length of the path from j to i; where none of at most L steps leads, the bias is 0.

    Args:
        max_length: L, the longest path that is followed.
        edge_dim: features of an edge, d.
        heads: heads, h.

    Shapes:
        - **input:** the graph to walk on, of e' edges, the graph of attention, both of the same n
          nodes, and edge features [e', edge_dim]
        - **output:** [e, heads]

    Raises:
        ValueError: for max_length < 1, edge_dim < 1, heads < 1, graphs of different nodes, or
            features of another shape.

    Reference:
        Ying et al., "Do transformers really perform badly for graph representation?" (NeurIPS
        2021).

    Example:
        >>> import gattn, torch
        >>> from gattn.nn import PathFeatureBias
        >>> bonds, among_all = torch.tensor([[0, 1], [1, 0]]), gattn.graphs.complete([2, 1])
        >>> PathFeatureBias(4, edge_dim=3, heads=2)(bonds, among_all, torch.randn(2, 3)).shape
        torch.Size([5, 2])
    """

    def __init__(self, max_length: int, edge_dim: int, heads: int = 1) -> None:
        super().__init__()
        check_at_least(1, max_length=max_length, edge_dim=edge_dim, heads=heads)
        self.max_length, self.edge_dim, self.heads = max_length, edge_dim, heads
        self.weight = Parameter(torch.empty(heads, max_length, edge_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all to zero: attention starts unbiased."""
        torch.nn.init.zeros_(self.weight)

    def forward(self, edges: Any, over: Graph, edge_attr: Tensor) -> Tensor:
        """Bias of every edge of the graph that attention runs on.

        Args:
            edges: the graph to walk on, or anything it is made from.
            over: the graph that attention runs on, of the same nodes.
            edge_attr: features of ``edges``, in the caller's order.

        Returns:
            [e, heads], in the order of the caller's edges of ``over``.
        """
        check_features("edge_attr", edge_attr, self.edge_dim, self.weight)
        return self.weigh(*path_features(edges, over, edge_attr, self.max_length))

    def weigh(self, length: Tensor, features: Tensor) -> Tensor:
        """The bias where paths are known: those that a transform stored.

        Args:
            length: [e] integers, as :class:`gattn.transforms.AddShortestPaths` stores them.
            features: [e, max_length, edge_dim].

        Returns:
            [e, heads].

        Raises:
            ValueError: for features of another shape.
        """
        if features.shape != (length.shape[0], self.max_length, self.edge_dim):
            expected = (length.shape[0], self.max_length, self.edge_dim)
            raise ValueError(f"features must have shape {expected}; got {tuple(features.shape)}")
        summed = torch.einsum("etd,htd->eh", features, self.weight)
        return summed / length.clamp(min=1).unsqueeze(1)

    def __repr__(self) -> str:
        name = self.__class__.__name__
        return f"{name}({self.max_length}, edge_dim={self.edge_dim}, heads={self.heads})"


def token_offsets(graph: Graph, max_offset: int) -> Tensor:
    r"""How many tokens lie between the ends of each edge of a sequence, as a kind of edge.

    .. math:: r(i, j) = \mathrm{clip}(j - i, -w, w) + w

    Args:
        graph: a graph of sequences, such as :func:`gattn.graphs.causal` makes.
        max_offset: w, the largest offset told apart from those beyond.

    Returns:
        [e] int64 in [0, 2 w], in the order of the caller's edges.

    Raises:
        TypeError: for other than a graph and an int.
        ValueError: for max_offset < 0.

    Reference:
        Shaw, Uszkoreit, Vaswani, "Self-attention with relative position representations" (NAACL
        2018).

    Example:
        >>> from gattn import graphs
        >>> from gattn.nn import token_offsets
        >>> token_offsets(graphs.causal([3]), 1)
        tensor([1, 0, 1, 0, 0, 1])
    """
    check_graph("graph", graph)
    check_count("max_offset", max_offset)
    source, destination = graph.edge_index
    return (source - destination).clamp(-max_offset, max_offset) + max_offset


def look_up(table: Tensor, index: Tensor, name: str) -> Tensor:
    """Rows of a table, with one clear error for an index that it does not hold."""
    if index.numel() > 0 and not torch.compiler.is_compiling():
        low, high = (int(bound) for bound in index.aminmax())
        if low < 0 or high >= table.shape[0]:
            raise ValueError(f"{name} must be in [0, {table.shape[0]}); got {low} to {high}")
    return torch.nn.functional.embedding(index, table)
