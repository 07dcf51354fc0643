"""Learned score biases for edge types and distances between nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.nn.common.checks import check_at_least


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
            kind: [e] int32 or int64 in [0, num_kinds), in the caller's edge order.

        Returns:
            The biases [e, heads], in the same order.

        Raises:
            ValueError: for a kind out of range; compiled code does not check it.
            RuntimeError: by torch, for another dtype.
        """
        if kind.numel() > 0 and not torch.compiler.is_compiling():
            low, high = (int(bound) for bound in kind.aminmax())
            if low < 0 or high >= self.num_kinds:
                raise ValueError(f"kind must be in [0, {self.num_kinds}); got {low} to {high}")
        return torch.nn.functional.embedding(kind, self.weight)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.num_kinds}, heads={self.heads})"


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
