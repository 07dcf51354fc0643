"""Learned score biases for edge types, distances between nodes, and paths between nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.nn.common.checks import check_at_least, check_features
from gattn.structure import path_features


class RelativeBias(Module):
    r"""Learned score bias for each kind of edge and each head.

    .. math:: \alpha_{ij} = \mathrm{softmax}_j (\tau\, q_i \cdot k_j + b_{r(i, j), h})

    The caller chooses the kinds r of edges. They can be bond types
    (``RelativeBias(num_types, heads)(edge_type)``), offsets on a grid
    (:func:`gattn.graphs.grid_offsets`), distances in a sequence (:func:`token_offsets`), or
    lengths of shortest paths (:func:`gattn.structure.path_lengths`).

    Args:
        num_kinds: number of kinds of edges.
        heads: number of heads, h.

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
        """Set all biases to zero."""
        torch.nn.init.zeros_(self.weight)

    def forward(self, kind: Tensor) -> Tensor:
        """Return the bias of every edge.

        Args:
            kind: [e] integers in [0, num_kinds), in the caller's edge order.

        Returns:
            The biases [e, heads], in the same order.

        Raises:
            ValueError: for a kind out of range.
        """
        if kind.numel() > 0 and not torch.compiler.is_compiling():
            low, high = (int(bound) for bound in kind.aminmax())
            if low < 0 or high >= self.num_kinds:
                raise ValueError(f"kind must be in [0, {self.num_kinds}); got {low} to {high}")
        return torch.nn.functional.embedding(kind, self.weight)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.num_kinds}, heads={self.heads})"


class PathFeatureBias(Module):
    r"""Learned score bias that is computed from the edge features along the shortest path between
    two nodes.

    .. math:: c_{ij} = \frac{1}{d_{ij}} \sum_{t=1}^{d_{ij}} w_t \cdot f_{ijt}

    Here f are the features of :func:`gattn.structure.path_features`, such as bond features, and
    :math:`d_{ij}` is the length of the path from j to i. The bias is 0 if there is no path of at
    most L edges.

    Args:
        max_length: L, the largest length of a path.
        edge_dim: number of edge features.
        heads: number of heads, h.

    Shapes:
        - **input:** the graph that contains the paths, with e' edges, the graph of attention with
          the same n nodes, and edge features [e', edge_dim]
        - **output:** [e, heads]

    Raises:
        ValueError: for max_length < 1, edge_dim < 1, heads < 1, graphs with different numbers of
            nodes, or features of a wrong shape.

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
        """Set all biases to zero."""
        torch.nn.init.zeros_(self.weight)

    def forward(self, edges: Any, over: Graph, edge_attr: Tensor) -> Tensor:
        """Return the bias of every edge of the graph along which attention is computed.

        Args:
            edges: the graph that contains the paths, in any format that :class:`gattn.Graph`
                accepts.
            over: the graph that attention runs on, with the same nodes.
            edge_attr: features of ``edges``, in the caller's order.

        Returns:
            The biases [e, heads], in the order of the caller's edges of ``over``.
        """
        check_features("edge_attr", edge_attr, self.edge_dim, self.weight)
        return self.weigh(*path_features(edges, over, edge_attr, self.max_length))

    def weigh(self, length: Tensor, features: Tensor) -> Tensor:
        """Return the biases, given path lengths and path features that a transform has computed.

        Args:
            length: path lengths, [e] integers, as :class:`gattn.transforms.AddShortestPaths`
                stores them.
            features: features of the edges of each path, [e, max_length, edge_dim].

        Returns:
            The biases [e, heads].

        Raises:
            ValueError: for features of a wrong shape.
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
    r"""Return the clipped offset between the two tokens of each edge, as an input of
    :class:`RelativeBias`.

    .. math:: r(i, j) = \mathrm{clip}(j - i, -w, w) + w

    Args:
        graph: a graph of sequences, such as the result of :func:`gattn.graphs.causal`.
        max_offset: w, the largest offset; larger offsets are clipped to it.

    Returns:
        The offsets [e] int64 in [0, 2 w], in the order of the caller's edges.

    Raises:
        TypeError: if graph is not a Graph or max_offset is not an int.
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
