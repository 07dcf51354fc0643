"""The layer TransformerBlock: self-attention, optional cross-attention, and an MLP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, LayerNorm, Linear, Sequential
from torch_geometric.nn.resolver import activation_resolver

from gattn.graph import Graph, as_graph
from gattn.nn.attention.graph_attention import GraphAttention, ScoreFunction
from gattn.nn.common.checks import check_at_least, check_input, check_probability
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.edge_inputs import check_rows

NORMS = ("pre", "post")


class TransformerBlock(CompositeModule):
    r"""Transformer block: attention along the edges of a graph, and a feed-forward layer.

    .. math::
        x \leftarrow x + \mathrm{Attention}(\mathrm{LN}(x)), \quad
        \bigl(x \leftarrow x + \mathrm{Attention}(\mathrm{LN}(x), m)\bigr), \quad
        x \leftarrow x + \mathrm{MLP}(\mathrm{LN}(x))

    Both parts have a residual connection. This is the pre-norm form; the post-norm form is :math:`x
    \leftarrow \mathrm{LN}(x + f(x))`.
    The graph determines the kind of transformer: a complete graph for an encoder, a causal graph
    for a decoder, a band for long sequences, a molecule's bonds for a graph transformer. With
    ``memory_channels`` there is a cross-attention to a memory between self-attention and
    feed-forward layer, as in an encoder-decoder.

    Args:
        channels: number of node features, d; must be divisible by heads.
        heads: number of heads.
        ff_channels: hidden width of the feed-forward layer; None for 4 d.
        norm: ``"pre"`` or ``"post"``.
        score: the score of :class:`GraphAttention`.
        edge_dim: number of edge features; None for no edge features.
        memory_channels: number of features of the memory; None for no cross-attention.
        dropout: dropout probability, in training, of the attention weights, the hidden features
            and the features that are added to the residual.
        act: activation function of the feed-forward layer.

    Shapes:
        - **input:** x [n, channels]; memory [m, memory_channels]
        - **output:** [n, channels]

    Raises:
        ValueError: for an unknown norm or activation, an invalid width or dropout, heads that do
            not divide channels, or if only one of memory and memory_graph is passed.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017); Xiong et al., "On layer
        normalization in the transformer architecture" (ICML 2020).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import TransformerBlock
        >>> x = torch.randn(5, 16)
        >>> TransformerBlock(16, heads=4)(x, graphs.causal([3, 2])).shape
        torch.Size([5, 16])
        >>> block = TransformerBlock(16, heads=4, memory_channels=8)
        >>> memory, across = torch.randn(7, 8), graphs.bipartite([3, 2], [4, 3])
        >>> block(x, graphs.causal([3, 2]), memory=memory, memory_graph=across).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        ff_channels: int | None = None,
        norm: str = "pre",
        score: str | ScoreFunction = "scaled_dot",
        edge_dim: int | None = None,
        memory_channels: int | None = None,
        dropout: float = 0.0,
        act: str = "gelu",
    ) -> None:
        super().__init__()
        check_at_least(0, ff_channels=ff_channels, memory_channels=memory_channels)
        check_probability("dropout", dropout)
        if norm not in NORMS:
            raise ValueError(f"norm must be one of {NORMS}; got {norm!r}")
        self.channels = channels
        self.heads = heads
        self.norm = norm
        self.dropout = dropout
        self.attention = GraphAttention(
            channels, heads=heads, edge_dim=edge_dim, score=score, dropout=dropout
        )
        self.norm1 = LayerNorm(channels)
        self.cross_attention = self.norm2 = None
        if memory_channels is not None:
            self.cross_attention = GraphAttention(
                channels, heads=heads, key_channels=memory_channels, score=score, dropout=dropout
            )
            self.norm2 = LayerNorm(channels)
        self.mlp = feed_forward(channels, ff_channels, act, dropout)
        self.norm3 = LayerNorm(channels)

    def forward(
        self,
        x: Tensor,
        graph: Any,
        *,
        edge_attr: Tensor | None = None,
        attn_bias: Tensor | None = None,
        memory: Tensor | None = None,
        memory_graph: Graph | None = None,
    ) -> Tensor:
        """Apply self-attention, then cross-attention if there is a memory, then the feed-forward
        layer, in training with dropout. The attention weights are passed to the active recordings.

        Args:
            x: node features, [n, channels].
            graph: the edges among n nodes: a :class:`gattn.Graph`, or edges in any format it
                accepts.
            edge_attr: edge features [e, edge_dim], in the order of the caller's edges.
            attn_bias: score bias [e, heads] or [e, 1] in the same order, such as the result of a
                :class:`RelativeBias`.
            memory: features of the memory, [m, memory_channels], for a block with cross-attention.
            memory_graph: the edges from m rows of the memory to n nodes.

        Returns:
            The new node features, [n, channels].

        Raises:
            ValueError: if memory and memory_graph are missing in a block with cross-attention, if
                one of them is passed to another block, for a wrong width, or for edges or edge
                features that do not fit to x.
            TypeError: if x does not have the dtype of the block, or the edges have another type.
            RuntimeError: under torch.jit.trace.

        Warns:
            UserWarning: as in :meth:`GraphAttention.forward`.
        """
        is_present = {
            memory is not None,
            memory_graph is not None,
            self.cross_attention is not None,
        }
        if len(is_present) > 1:
            raise ValueError(
                "memory and memory_graph are required for a block with memory_channels, and not "
                "allowed for any other block; got "
                f"memory={memory is not None}, memory_graph={memory_graph is not None}, "
                f"memory_channels={self.cross_attention is not None}"
            )
        check_input("x", x, self.channels, self.norm3)
        graph = graph_among(graph, x)

        def attend(y: Tensor) -> Tensor:
            return self.attention(y, y, y, graph, edge_attr=edge_attr, attn_bias=attn_bias)

        def attend_memory(y: Tensor) -> Tensor:
            return self.cross_attention(y, memory, memory, memory_graph)  # type: ignore[misc]

        x = self._add(x, attend, self.norm1)
        if self.norm2 is not None:
            x = self._add(x, attend_memory, self.norm2)
        return self._add(x, self.mlp, self.norm3)

    def attention_weights(
        self,
        x: Tensor,
        graph: Any,
        *,
        edge_attr: Tensor | None = None,
        attn_bias: Tensor | None = None,
    ) -> Tensor:
        """Return the attention weights of the self-attention before dropout.

        Args:
            x: node features, [n, channels].
            graph: the edges, as in :meth:`forward`.
            edge_attr: edge features, as in :meth:`forward`.
            attn_bias: score bias, as in :meth:`forward`.

        Returns:
            The attention weights [e, heads], in the order of the caller's edges.

        Raises:
            ValueError: if x does not have ``channels`` features, or for edges or edge features that
                do not fit to x.
            TypeError: if x does not have the dtype of the block, or the edges have another type.
            RuntimeError: under torch.jit.trace.

        Warns:
            UserWarning: as in :meth:`GraphAttention.forward`.
        """
        check_input("x", x, self.channels, self.norm1)
        y = self.norm1(x) if self.norm == "pre" else x
        return self.attention.attention_weights(
            y, y, graph_among(graph, x), edge_attr=edge_attr, attn_bias=attn_bias
        )

    def _add(self, x: Tensor, function: Callable[[Tensor], Tensor], norm: LayerNorm) -> Tensor:
        """Add the output of a function, after dropout, to x [n, channels], and normalise the input
        of the function if ``norm`` is "pre", otherwise the sum.
        """
        if self.norm == "pre":
            return x + F.dropout(function(norm(x)), self.dropout, self.training)
        return norm(x + F.dropout(function(x), self.dropout, self.training))

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        return f"{self.channels}, heads={self.heads}, norm={self.norm!r}"


def graph_among(edges: Any, x: Tensor) -> Graph:
    """Return the graph of the given edges. Its number of nodes n is read from the features x, [n,
    d] or [b, n, d]. Raises ValueError or TypeError for edges that do not fit to x, and IndexError
    for x of one dimension.
    """
    check_rows(edges, x.shape[-2], x.shape[-2], batch=x.shape[0] if x.dim() == 3 else 0)
    return as_graph(edges, x.shape[-2])


def feed_forward(channels: int, hidden: int | None, act: str, dropout: float) -> Sequential:
    """Create a feed-forward network W_2 act(W_1 x) with dropout of its hidden features.

    The hidden width is ``hidden``, or 4 * channels if that is None. Raises ValueError for an
    unknown activation.
    """
    hidden = 4 * channels if hidden is None else hidden
    return Sequential(
        Linear(channels, hidden), activation_resolver(act), Dropout(dropout),
        Linear(hidden, channels),
    )  # fmt: skip
