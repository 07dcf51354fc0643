"""A layer of a graph transformer: local attention on edges beside attention within each graph."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Module
from torch_geometric.nn.inits import reset

from gattn.nn.attention.block import feed_forward, graph_among
from gattn.nn.attention.graph_attention import GraphAttention, ScoreFunction
from gattn.nn.attention.linear_attention import LinearAttention
from gattn.nn.common.checks import check_at_least, check_input, check_probability
from gattn.nn.common.segments import segment_graph, within

GLOBAL = ("full", "linear")


class GraphTransformerLayer(Module):
    r"""Attention along the edges, attention among all nodes of each graph, and an MLP.

    .. math::
        x^L = \mathrm{LN}(x + \mathrm{Local}(x, E)), \qquad
        x^G = \mathrm{LN}(x + \mathrm{Global}(x)), \qquad
        y = x^L + x^G, \qquad x' = \mathrm{LN}(y + \mathrm{MLP}(y))

    Nothing is padded and no graph sees another; normalising each node on its own keeps it so in
    training, too. (:class:`GPSConv` is the same recipe with PyG's interface and parameters.)

    Args:
        channels: features of a node; divisible by heads.
        heads: number of heads, in both attentions.
        local: a layer to stand for the local attention, called as ``local(x, edge_index)``, or
            with ``edge_attr=`` where that is given; None for :class:`GraphAttention`.
        global_attention: ``"full"`` for the softmax over all pairs, in time and memory quadratic
            in the size of a graph, or ``"linear"`` for :class:`LinearAttention`.
        score: the score of the attentions; ``"linear"`` has none.
        edge_dim: features of an edge, for the local attention; None for none.
        ff_channels: hidden width of the MLP; None for 2 channels.
        dropout: probability of dropping, in training, an attention weight, a hidden feature and
            a feature that is added to the residual.
        act: activation of the MLP.

    Shapes:
        - **input:** x [n, channels]; batch [n], the graph of each node, in any order
        - **output:** [n, channels]

    Raises:
        ValueError: for another global_attention, or edge_dim beside a local layer.

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
            raise ValueError("edge_dim goes with the built-in local attention; the local layer "
                             "that was given knows its own")  # fmt: skip
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

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for module in self.children():
            reset(module)

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
        """Mix each node with its neighbours and with all nodes of its graph.

        Args:
            x: [n, channels].
            edge_index: the edges: a :class:`gattn.Graph` or anything it is made from.
            batch: [n], the graph of each node; None puts all into one.
            edge_attr: [e, edge_dim], in the order of the caller's edges.
            batch_size: number of graphs. Without it ``batch.max() + 1`` is read from the device.
            max_num_nodes: the most nodes of any graph; needed under ``torch.compile`` alone, and
                there with ``global_attention="full"``.

        Returns:
            [n, channels].
        """
        check_input("x", x, self.channels, self.norm1)
        local = self.norm1(x + self._drop(self._attend_locally(x, edge_index, edge_attr)))
        globally = self._attend_globally(x, batch, batch_size, max_num_nodes)
        y = local + self.norm2(x + self._drop(globally))
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
        """The settings, for repr."""
        return f"{self.channels}, heads={self.heads}"
