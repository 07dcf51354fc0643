"""Readout by attention of learned queries to the nodes of each graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import LayerNorm, Linear, Parameter

from gattn.functional import edge_softmax
from gattn.graph import Graph
from gattn.nn.attention.learned_query import (
    learned_query_pool,
    learned_query_score,
    segment_attention,
)
from gattn.nn.common.checks import (
    check_at_least,
    check_features,
    check_heads_divide,
    check_probability,
)
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.features import is_plain, is_product, redraw
from gattn.nn.common.segments import zero_empty
from gattn.nn.readout.base import SegmentReadout


class LearnedQueryReadout(SegmentReadout):
    r"""Readout by attention of k learned queries to the nodes of each graph.

    .. math::
        o_{gq} = W_o \Big\Vert_h \sum_{j \in g} \alpha_{jqh} W_v^{(h)} x_j, \qquad
        \alpha_{jqh} = \mathrm{softmax}_{j \in g}
        \frac{q_{qh} \cdot W_k^{(h)} x_j}{\sqrt{c}}

    The queries do not depend on the input. Therefore the result does not depend on the order of the
    nodes, and the score of a node is computed without the key:
    :math:`q \cdot W_k x = (W_k^\top q) \cdot x`. The softmax runs over the nodes of one graph,
    without padding. Keys have no bias, because it would shift all scores of a query by the same
    number. Values have no bias, because the weights sum to 1, so it would have the same effect as
    the bias of W_o.

    Args:
        in_channels: number of node features, d.
        out_channels: number of output features per query; must be divisible by heads.
        num_queries: number of learned queries, k.
        heads: number of heads per query, h, each with c = out_channels / h channels.
        concat: whether the results of the queries are concatenated.
        dropout: dropout probability of the attention weights in training.
        ff_channels: hidden width of a residual feed-forward layer
            :math:`o + W_2 \mathrm{ReLU}(W_1 o)` after the attention; None for no such layer.
        layer_norm: whether to apply layer normalisation after the attention and after the
            feed-forward layer.
        bias: whether W_o has a bias.

    Shapes:
        - **input:** x [n, in_channels]; index [n] in any order, or ptr [g + 1]
        - **output:** [g, num_queries * out_channels] or, with ``concat=False``,
          [g, num_queries, out_channels]; zeros for a graph without nodes
        - **weights:** [n, num_queries, heads]; for each query and head they sum to one over each
          graph

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: if heads does not divide out_channels, for num_queries < 1 or a dropout that
            is not a probability, or if x is not two-dimensional.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019), pooling by attention; Buterez et al., "Graph
        neural networks with adaptive readouts" (NeurIPS 2022).

    Example:
        >>> import torch
        >>> from gattn.nn import LearnedQueryReadout
        >>> readout = LearnedQueryReadout(16, 8, num_queries=4, heads=2)
        >>> x, batch = torch.randn(5, 16), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 32])
        >>> readout.attention_weights(x, batch, dim_size=3).shape
        torch.Size([5, 4, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_queries: int = 1,
        heads: int = 1,
        *,
        concat: bool = True,
        dropout: float = 0.0,
        ff_channels: int | None = None,
        layer_norm: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_at_least(1, num_queries=num_queries)
        check_at_least(
            0, in_channels=in_channels, out_channels=out_channels, ff_channels=ff_channels
        )
        check_probability("dropout", dropout)
        check_heads_divide(heads, out_channels=out_channels)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.num_queries = num_queries
        self.heads = heads
        self.concat = concat
        self.dropout = dropout

        self.query = Parameter(torch.empty(num_queries, out_channels))
        self.lin_key = Linear(in_channels, out_channels, bias=False)
        self.lin_value = Linear(in_channels, out_channels, bias=False)
        self.lin_out = Linear(out_channels, out_channels, bias=bias)
        self.norm = LayerNorm(out_channels) if layer_norm else None
        self.feed_forward = (
            None if ff_channels is None else _FeedForward(out_channels, ff_channels, layer_norm)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the learnable parameters again by torch's generator: the queries and the
        weights of keys and values by Glorot's method, the other layers by their own.
        """
        torch.nn.init.xavier_uniform_(self.query)
        for linear in (self.lin_key, self.lin_value):
            redraw(linear, torch.nn.init.xavier_uniform_)
        for module in (self.lin_out, self.norm, self.feed_forward):
            if module is not None:
                module.reset_parameters()

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the readout of each segment, [g, num_queries * c], or [g, num_queries, c] with
        ``concat=False``; zero for empty segments. The attention weights are passed to the active
        recordings. Raises the errors of :meth:`_score`.
        """
        out = self.lin_out(self._pool(x, segments))
        if self.norm is not None:
            out = self.norm(out)
        if self.feed_forward is not None:
            out = self.feed_forward(out)
        out = zero_empty(out, segments)
        return out.flatten(1) if self.concat else out

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return edge_softmax(self._score(x), segments).view(-1, self.num_queries, self.heads)

    def _pool(self, x: Tensor, segments: Graph) -> Tensor:
        """Return the weighted sum of the values for each graph and query, [g, k, h * c], from the
        rows x [n, in_channels], in training with dropout. The weights are passed to the active
        recordings. Raises the errors of :meth:`_score`.
        """
        dropout = self.dropout if self.training else 0.0
        if is_product(self.lin_value):
            weight = self.lin_value.weight.unflatten(0, (self.heads, -1))
            return learned_query_pool(self._score(x), x, weight, segments, dropout)
        value = self.lin_value(x).unflatten(1, (self.heads, -1))
        out = segment_attention(self._score(x), value, segments, dropout)
        return out.view(segments.num_dst, self.num_queries, -1)

    def _score(self, x: Tensor) -> Tensor:
        """Return the scores q . W_k x / sqrt(c), [n, k * h]; the heads of a query are adjacent.
        Raises ValueError or TypeError if x has a wrong width or dtype and lin_key is a plain layer,
        and RuntimeError under torch.jit.trace.
        """
        if not is_plain(self.lin_key):
            query = self.query.unflatten(1, (self.heads, -1))
            key = self.lin_key(x).unflatten(1, (self.heads, -1)) * query.shape[-1] ** -0.5
            return torch.einsum("nhc,khc->nkh", key, query.to(key.dtype)).flatten(1)
        check_features("x", x, self.in_channels, self.lin_key.weight)
        return learned_query_score(
            self.query, self.lin_key.weight.unflatten(0, (self.heads, -1)), x
        )

    def __repr__(self) -> str:
        """Return the class with its settings as text."""
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"num_queries={self.num_queries}, heads={self.heads})"
        )


class _FeedForward(CompositeModule):
    """Feed-forward layer with a residual connection, o + W_2 ReLU(W_1 o), and with optional
    layer normalisation.
    """

    def __init__(self, channels: int, hidden: int, layer_norm: bool) -> None:
        super().__init__()
        self.lin1 = Linear(channels, hidden)
        self.lin2 = Linear(hidden, channels)
        self.norm = LayerNorm(channels) if layer_norm else None

    def forward(self, x: Tensor) -> Tensor:
        out = x + self.lin2(self.lin1(x).relu())
        return out if self.norm is None else self.norm(out)
