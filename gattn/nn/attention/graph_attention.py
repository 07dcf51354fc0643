"""The layer GraphAttention: multi-head attention along the edges of any graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from gattn.graph import Graph, as_graph
from gattn.nn.common.checks import (
    check_at_least,
    check_heads_divide,
    check_input_of,
    check_probability,
    check_tensor,
    readable_weight,
)
from gattn.nn.common.edge_inputs import batch_first, check_rows
from gattn.nn.common.features import (
    features_and_weight,
    is_plain,
    merge_heads,
    nodes_first,
    project,
    redraw,
    split_heads,
    tile_heads,
)
from gattn.nn.common.scores import (
    Score,
    SortedScore,
    attend_with_score,
    dot_product_score,
    gatv2_score,
)
from gattn.ops.custom_score.api import sorted_scores
from gattn.ops.registration.checks import as_bias

ScoreFunction = Callable[[Tensor, Tensor, Tensor | None], Tensor]
SCORES = ("dot", "scaled_dot", "embedded_gaussian", "additive", "cosine")


class GraphAttention(Module):
    r"""Multi-head attention from queries to keys and values, along the edges of a graph.

    .. math::
        o_i = W_o \Big\Vert_h \sum_{j \in N(i)} \alpha_{ij} (W_v v_j + W_e e_{ij}), \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, (s(W_q q_i, W_k k_j, e_{ij}) + b_{ij})

    The score s, per head of c channels, is one of

    - ``"scaled_dot"``: :math:`q \cdot (k + W_e e) / \sqrt{c}`, the score of the Transformer;
    - ``"dot"``: :math:`q \cdot (k + W_e e)`;
    - ``"embedded_gaussian"``: another name of ``"dot"``: the softmax of this score is the embedded
      Gaussian :math:`\exp(q \cdot k)` divided by its sum;
    - ``"additive"``: :math:`w \cdot \tanh(q + k + W_e e)`, the additive score of Bahdanau et al.
      It is computed by :func:`gattn.functional.gatv2_attention`, and differs from GAT's sum of two
      scalars in :func:`gattn.functional.gat_attention`. Edge features are not added to the values;
    - ``"cosine"``: :math:`\beta \cos(q, k)` with a learned :math:`\beta`, without edge features;
    - a callable from q_i [b, h, c], k_j [b, h, c] and the edge_attr of b edges to [b, h], as in
      :func:`gattn.functional.attention`. Edge features are not added to the values.

    A complete graph gives self-attention over a set, a causal graph gives masked attention, and a
    bipartite graph gives cross-attention: see :mod:`gattn.graphs`.

    Args:
        query_channels: number of features of a query.
        out_channels: number of output features; None for query_channels.
        heads: number of heads, h.
        key_channels: number of features of a key; None for query_channels.
        value_channels: number of features of a value; None for key_channels.
        channels: channels per head, c; None for out_channels / heads.
        edge_dim: number of edge features, for the scores with :math:`W_e`; None for no edge
            features.
        score: the score, see above.
        dropout: dropout probability of the attention weights in training.
        bias: whether the projections, except the projection of edges, have a bias.

    Shapes:
        - **input:** query [n, query_channels], key [m, key_channels], value [m, value_channels],
          all with a leading batch dimension or all without; a :class:`gattn.Graph` from m sources
          to n destinations, or edges in any format it accepts; edge_attr [e, edge_dim], or of any
          shape for a callable score
        - **output:** [n, out_channels], with the batch dimension if the inputs have one; a query
          without edges gets the bias of W_o, or zeros without a bias

    Raises:
        ValueError: for an unknown score, an invalid width or dropout, heads that do not divide
            out_channels, a wrong shape, or edge features with a score that does not use them.
        TypeError: if an input does not have the dtype of the layer.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017); Wang et al., "Non-local neural
        networks" (CVPR 2018); Bahdanau, Cho, Bengio, "Neural machine translation by jointly
        learning to align and translate" (ICLR 2015).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import GraphAttention
        >>> attention = GraphAttention(16, heads=4, key_channels=8, score="additive")
        >>> query, memory = torch.randn(3, 16), torch.randn(5, 8)
        >>> graph = graphs.bipartite([2, 1], [1, 4])
        >>> attention(query, memory, memory, graph).shape
        torch.Size([3, 16])
        >>> attention.attention_weights(query, memory, graph).shape
        torch.Size([6, 4])
    """

    def __init__(
        self,
        query_channels: int,
        out_channels: int | None = None,
        heads: int = 1,
        *,
        key_channels: int | None = None,
        value_channels: int | None = None,
        channels: int | None = None,
        edge_dim: int | None = None,
        score: str | ScoreFunction = "scaled_dot",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_at_least(1, heads=heads)
        check_at_least(
            0, query_channels=query_channels, out_channels=out_channels, channels=channels
        )
        check_at_least(0, edge_dim=edge_dim)
        check_probability("dropout", dropout)
        out_channels = query_channels if out_channels is None else out_channels
        key_channels = query_channels if key_channels is None else key_channels
        value_channels = key_channels if value_channels is None else value_channels
        if not callable(score) and score not in SCORES:
            raise ValueError(f"score must be one of {SCORES} or a callable; got {score!r}")
        if edge_dim is not None and (callable(score) or score == "cosine"):
            raise ValueError(
                f"edge_dim must be None unless the score is a dot or additive score; got {score!r}"
            )
        if channels is None:
            check_heads_divide(heads, out_channels=out_channels)
        self.query_channels = query_channels
        self.key_channels = key_channels
        self.value_channels = value_channels
        self.edge_dim = edge_dim
        self.out_channels = out_channels
        self.heads = heads
        self.channels = out_channels // heads if channels is None else channels
        self.score = score
        self.dropout = dropout
        width = heads * self.channels
        self.lin_query = Linear(query_channels, width, bias=bias)
        self.lin_key = Linear(key_channels, width, bias=bias)
        self.lin_value = Linear(value_channels, width, bias=bias)
        self.lin_out = Linear(width, out_channels, bias=bias)
        self.lin_edge = None if edge_dim is None else Linear(edge_dim, width, bias=False)
        self.weight = Parameter(torch.empty(heads, self.channels)) if score == "additive" else None
        self.beta = Parameter(torch.empty(heads)) if score == "cosine" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the learnable parameters again: projections and w by Glorot's method, biases
        as 0, and beta as 1.
        """
        for linear in (self.lin_query, self.lin_key, self.lin_value, self.lin_out, self.lin_edge):
            if linear is not None:
                redraw(linear, torch.nn.init.xavier_uniform_)
                if readable_weight(linear) is not None and linear.bias is not None:
                    torch.nn.init.zeros_(linear.bias)
        if self.weight is not None:
            torch.nn.init.xavier_uniform_(self.weight)
        if self.beta is not None:
            torch.nn.init.ones_(self.beta)

    @property
    def slow_path_reason(self) -> str:
        """Reason why a part of the forward pass does not use a fused operator; "" if all parts
        do.
        """
        if callable(self.score):
            return ("its score is a callable, which runs in plain PyTorch on some thousand edges "
                    "at a time; only the softmax and the sum run on the kernels")  # fmt: skip
        return ""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        graph: Any,
        *,
        edge_attr: Tensor | None = None,
        attn_bias: Tensor | None = None,
    ) -> Tensor:
        """Compute the attention of the queries to the keys and values, in training with dropout,
        and pass its weights to the active recordings.

        Args:
            query: features of the queries, see Shapes.
            key: features of the keys, see Shapes.
            value: features of the values, see Shapes.
            graph: the edges, from keys to queries: a :class:`gattn.Graph`, or edges in any
                format it accepts.
            edge_attr: edge features in the order of the caller's edges.
            attn_bias: score bias b, [e, h] or [e, 1] in the same order, such as the result of a
                :class:`RelativeBias`; -inf removes an edge. A boolean mask keeps the edges that
                are True.

        Returns:
            The output features, see Shapes.

        Raises:
            ValueError: for a wrong shape, an index out of range, or edge features that the score
                does not use.
            TypeError: if an input does not have the dtype of the layer, or the edges another type.
            RuntimeError: under torch.jit.trace.

        Warns:
            UserWarning: torch finds no compiler, or cannot compile a callable score for a large
                graph, which then runs uncompiled.
        """
        q, k = self._query_and_key(query, key)
        v = self._split(self.lin_value, value, "value")
        graph = _graph_between(graph, k, q)
        score = self._score(q, k, graph, edge_attr, attn_bias)
        dropout = self.dropout if self.training else 0.0
        out, _ = attend_with_score(score, v, graph, dropout=dropout)
        return self.lin_out(merge_heads(out, self.heads, nodes_first(query), concat=True))

    def attention_weights(
        self,
        query: Tensor,
        key: Tensor,
        graph: Any,
        *,
        edge_attr: Tensor | None = None,
        attn_bias: Tensor | None = None,
    ) -> Tensor:
        """Return the attention weights of the edges before dropout.

        Args:
            query: features of the queries, see Shapes.
            key: features of the keys, see Shapes.
            graph: the edges, from keys to queries: a :class:`gattn.Graph`, or edges in any
                format it accepts.
            edge_attr: edge features in the order of the caller's edges.
            attn_bias: score bias, as in :meth:`forward`.

        Returns:
            The weights [e, h] in the order of the caller's edges; [b, e, h] for inputs with a
            batch dimension.

        Raises:
            ValueError: for a wrong shape, an index out of range, or edge features that the score
                does not use.
            TypeError: if an input does not have the dtype of the layer, or the edges another type.
            RuntimeError: under torch.jit.trace.

        Warns:
            UserWarning: as in :meth:`forward`.
        """
        q, k = self._query_and_key(query, key)
        graph = _graph_between(graph, k, q)
        alpha = self._score(q, k, graph, edge_attr, attn_bias).weights(graph)
        return batch_first(alpha, nodes_first(query))

    def _query_and_key(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Return the projected queries [n, h, c] and keys [m, h, c]; for the cosine score they have
        length one, and the queries are multiplied by the factor beta of their head. Raises
        TypeError or ValueError for another number of dimensions, width or dtype, and RuntimeError
        under torch.jit.trace.
        """
        q = self._split(self.lin_query, query, "query")
        k = self._split(self.lin_key, key, "key")
        if self.beta is not None:
            beta = tile_heads(self.beta, 0, q.shape[1])[:, None]
            return (F.normalize(q, dim=-1) * beta).to(q.dtype), F.normalize(k, dim=-1).to(k.dtype)
        return q, k

    def _split(self, linear: Linear, x: Tensor, name: str) -> Tensor:
        return split_heads(project(linear, nodes_first(x, name), name), self.channels)

    def _score(
        self,
        query: Tensor,
        key: Tensor,
        graph: Graph,
        edge_attr: Tensor | None,
        attn_bias: Tensor | None,
    ) -> Score:
        """Return the score s + b of projected queries [n, h, c] and keys [m, h, c]. It is stored as
        the arguments of the operator that computes it. Raises ValueError or TypeError if edge_attr
        or the bias does not fit.
        """
        bias = None if attn_bias is None else self._per_head(attn_bias, key, graph)
        if callable(self.score):
            return self._call_score(query, key, graph, edge_attr, bias)
        edge_attr, edge_proj = self._edge_term(edge_attr, key)
        options = {"edge_attr": edge_attr, "edge_proj": edge_proj, "attn_bias": bias}
        if self.weight is not None:
            weight = tile_heads(self.weight, 0, key.shape[1]).to(key.dtype)
            return gatv2_score(query, key, weight, activation="tanh", **options)
        scale = None if self.score == "scaled_dot" else 1.0
        return dot_product_score(query, key, scale=scale, **options)

    def _edge_term(
        self, edge_attr: Tensor | None, key: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the edge features [e, d] and their projection [h, c, d]; None if there are no edge
        features. If ``lin_edge`` is no plain layer, they are its outputs [e, h * c] and the
        identity. Raises ValueError if only one of ``edge_attr`` and ``edge_dim`` is set, or if
        ``edge_attr`` has a wrong width, TypeError for a wrong dtype, and RuntimeError under
        torch.jit.trace.
        """
        if (edge_attr is None) != (self.lin_edge is None):
            raise ValueError(
                "edge_attr must be passed if edge_dim is set, and only then; edge_dim is "
                f"{self.edge_dim}"
            )
        if edge_attr is None or self.lin_edge is None:
            return None, None
        if is_plain(self.lin_edge):
            check_input_of("edge_attr", edge_attr, self.lin_edge)
            features, weight = features_and_weight(self.lin_edge, edge_attr)
        else:
            # The module lin_edge is not a plain linear layer, so the operator cannot apply it. It
            # is therefore called here, and the operator multiplies its output by the identity
            # matrix.
            features = self.lin_edge(edge_attr)
            weight = torch.eye(features.shape[-1], device=key.device)
        projection = tile_heads(weight.unflatten(0, (self.heads, -1)), 0, key.shape[1])
        return features.to(key.dtype), projection.to(key.dtype)

    def _per_head(self, attn_bias: Tensor, like: Tensor, graph: Graph) -> Tensor:
        """Check the bias [e, h] or [e, 1]; return it for all heads in the dtype of ``like``. Raises
        TypeError if it is not a tensor, and ValueError if it has another shape.
        """
        check_tensor("attn_bias", attn_bias)
        edges = graph.num_edges
        if tuple(attn_bias.shape) not in ((edges, self.heads), (edges, 1)):
            raise ValueError(
                f"attn_bias must have shape ({edges}, {self.heads}) or ({edges}, 1); got "
                f"{tuple(attn_bias.shape)}"
            )
        per_head = as_bias(attn_bias, like).expand(-1, self.heads)
        return tile_heads(per_head, 1, like.shape[1]).to(like.dtype)

    def _call_score(
        self,
        query: Tensor,
        key: Tensor,
        graph: Graph,
        edge_attr: Tensor | None,
        bias: Tensor | None,
    ) -> SortedScore:
        """Return the scores [e, h] of the user's score function for projected queries [n, h, c] and
        keys [m, h, c], sorted by destination, with the bias [e, h] to add, in the caller's order.
        Raises ValueError if the function returns another shape, and TypeError if it returns no
        floating-point numbers, and the other errors and the warning of :func:`sorted_scores`.
        """
        assert callable(self.score)
        score = sorted_scores(self.score, query, key, graph, edge_attr)
        if score.shape != (graph.num_edges, query.shape[1]):
            raise ValueError(
                f"score must return shape ({graph.num_edges}, {query.shape[1]}); "
                f"got {tuple(score.shape)}"
            )
        return SortedScore(score, bias)

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        score = getattr(self.score, "__name__", type(self.score).__name__)
        score = repr(self.score) if isinstance(self.score, str) else score
        return f"heads={self.heads}, channels={self.channels}, score={score}"


def _graph_between(edges: Any, key: Tensor, query: Tensor) -> Graph:
    """Return the graph of the given edges; sources are rows of key, and destinations are rows of
    query. Raises TypeError or ValueError for edges that do not fit to them.
    """
    check_rows(edges, key.shape[0], query.shape[0], "query and key")
    if isinstance(edges, Graph):
        return edges
    return as_graph(edges, (key.shape[0], query.shape[0]))
