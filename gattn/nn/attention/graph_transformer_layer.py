"""The layer GraphTransformerLayer: attention along the edges and attention within each graph."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Module

from gattn.nn.attention.block import feed_forward, graph_among
from gattn.nn.attention.graph_attention import GraphAttention, ScoreFunction
from gattn.nn.attention.linear_attention import LinearAttention
from gattn.nn.common.checks import check_at_least, check_input, check_probability
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.segments import segment_graph, within

GLOBAL = ("full", "linear")


class GraphTransformerLayer(CompositeModule):
    r"""Graph transformer layer: attention along the edges, attention within each graph, and an MLP.

    .. math::
        x^L = \mathrm{LN}(x + \mathrm{Local}(x, E)), \qquad
        x^G = \mathrm{LN}(x + \mathrm{Global}(x)), \qquad
        y = x^L + x^G, \qquad x' = \mathrm{LN}(y + \mathrm{MLP}(y))

    Nothing is padded. The graphs of a batch do not influence each other, also in training, because
    layer normalisation acts on each node separately. :class:`GPSConv` has the same structure with
    PyG's interface and parameters.

    Args:
        channels: number of node features; must be divisible by heads.
        heads: number of heads of both attentions.
        local: a layer that replaces the local attention, called as ``local(x, edge_index)``, with
            ``edge_attr=`` if forward gets edge features; None for :class:`GraphAttention`.
        global_attention: ``"full"`` for the softmax over all pairs of a graph's nodes, with time
            and memory quadratic in their number, or ``"linear"`` for :class:`LinearAttention`.
        score: the score of the attentions; not used by ``"linear"``.
        edge_dim: number of edge features of the local attention; None for no edge features.
        ff_channels: hidden width of the MLP; None for 2 * channels.
        dropout: dropout probability, in training, of the attention weights, the hidden features
            and the features that are added to the residual.
        act: activation function of the MLP.

    Shapes:
        - **input:** x [n, channels]; batch [n], the graph of each node, in any order
        - **output:** [n, channels]

    Raises:
        ValueError: for an unknown global_attention, or if both edge_dim and local are passed.

    Reference:
        Rampasek et al., "Recipe for a general, powerful, scalable graph transformer" (NeurIPS
        2022).

    Example:
        >>> import torch
        >>> from gattn.nn import GraphTransformerLayer
        >>> layer = GraphTransformerLayer(16, heads=4, edge_dim=3)
        >>> x, batch = torch.randn(5, 16), torch.tensor([0, 0, 0, 1, 1])
        >>> edge_index, edge_attr = torch.tensor([[0, 1, 3], [1, 2, 4]]), torch.randn(3, 3)
        >>> layer(x, edge_index, batch, edge_attr=edge_attr).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        *,
        local: Module | None = None,
        global_attention: str = "full",
        score: str | ScoreFunction = "scaled_dot",
        edge_dim: int | None = None,
        ff_channels: int | None = None,
        dropout: float = 0.0,
        act: str = "gelu",
    ) -> None:
        super().__init__()
        check_at_least(0, ff_channels=ff_channels)
        check_probability("dropout", dropout)
        if global_attention not in GLOBAL:
            raise ValueError(f"global_attention must be one of {GLOBAL}; got {global_attention!r}")
        if local is not None and edge_dim is not None:
            raise ValueError(
                "edge_dim is only for the built-in local attention; "
                "set it in the local layer instead"
            )
        self.channels = channels
        self.heads = heads
        self.dropout = dropout
        self.local = local
        self.local_attention = None
        if local is None:
            self.local_attention = GraphAttention(
                channels, heads=heads, edge_dim=edge_dim, score=score, dropout=dropout
            )
        self.global_attention: GraphAttention | LinearAttention = (
            GraphAttention(channels, heads=heads, score=score, dropout=dropout)
            if global_attention == "full"
            else LinearAttention(channels, heads)
        )
        self.mlp = feed_forward(
            channels, 2 * channels if ff_channels is None else ff_channels, act, dropout
        )
        self.norm1 = LayerNorm(channels)
        self.norm2 = LayerNorm(channels)
        self.norm3 = LayerNorm(channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        batch: Tensor | None = None,
        *,
        edge_attr: Tensor | None = None,
        batch_size: int | None = None,
        max_num_nodes: int | None = None,
    ) -> Tensor:
        """Update each node by attention to its neighbours and to all nodes of its graph.

        Args:
            x: node features, [n, channels].
            edge_index: the edges: a :class:`gattn.Graph`, or edges in any format it accepts.
            batch: [n], the graph of each node; None for a single graph.
            edge_attr: edge features [e, edge_dim], in the order of the caller's edges.
            batch_size: number of graphs. Without it ``batch.max() + 1`` is read from the device.
            max_num_nodes: largest number of nodes of a graph; required under ``torch.compile``
                with ``global_attention="full"``, and not used otherwise.

        Returns:
            The new node features, [n, channels].
        """
        check_input("x", x, self.channels, self.norm1)
        local = self.norm1(x + self._drop(self._attend_locally(x, edge_index, edge_attr)))
        attended = self._attend_globally(x, batch, batch_size, max_num_nodes)
        y = local + self.norm2(x + self._drop(attended))
        return self.norm3(y + self._drop(self.mlp(y)))

    def _attend_locally(self, x: Tensor, edge_index: Any, edge_attr: Tensor | None) -> Tensor:
        if self.local_attention is not None:
            graph = graph_among(edge_index, x)
            return self.local_attention(x, x, x, graph, edge_attr=edge_attr)
        assert self.local is not None
        if edge_attr is None:
            return self.local(x, edge_index)
        return self.local(x, edge_index, edge_attr=edge_attr)

    def _attend_globally(
        self, x: Tensor, batch: Tensor | None, batch_size: int | None, width: int | None
    ) -> Tensor:
        if isinstance(self.global_attention, LinearAttention):
            return self.global_attention(x, batch, dim_size=batch_size)
        segments = segment_graph(x, batch, dim_size=batch_size)
        complete, bias = within(segments, x.shape[0] if batch is None else width)
        return self.global_attention(x, x, x, complete, attn_bias=bias)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        return f"{self.channels}, heads={self.heads}"
