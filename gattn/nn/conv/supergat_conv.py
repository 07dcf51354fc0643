"""SuperGATConv: attention that is taught to tell edges from pairs without one."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import dropout_edge

from gattn.functional import edge_dot
from gattn.graph import Graph, as_graph
from gattn.nn.common.checks import check_at_least
from gattn.nn.common.edge_inputs import edge_sum, read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import (
    add_bias,
    glorot_linear,
    head_scores,
    merge_heads,
    node_pair,
    project,
    split_heads,
    tile_heads,
)
from gattn.nn.common.scores import EdgeScore, attend_with_score
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.negatives import sample_non_edges, sample_within_graphs


class SuperGATConv(AttentionConv):
    r"""Graph attention with a self-supervised score.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} v_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(s_{ij}), \qquad v = W x

    with :math:`s_{ij} = (a_l \cdot v_j + a_r \cdot v_i)\, \sigma(v_i \cdot v_j)` for
    ``attention_type="MX"`` and :math:`s_{ij} = v_i \cdot v_j / \sqrt{c}` for ``"SD"``. Takes the
    arguments and the parameters of ``torch_geometric.nn.SuperGATConv`` and gives its outputs.

    Args:
        in_channels: features of a node, d; -1 takes it from the first input.
        out_channels: channels per head, c.
        heads: number of heads, h.
        concat: whether heads are laid side by side, or averaged.
        negative_slope: slope of the LeakyReLU below zero.
        dropout: probability of dropping a weight in training.
        add_self_loops: whether each node attends to itself: loops in the input are replaced by
            one loop per node.
        bias: whether a bias is added.
        attention_type: ``"MX"`` or ``"SD"``.
        neg_sample_ratio: negative pairs drawn per edge.
        edge_sample_ratio: share of the edges that the attention loss sees.
        is_undirected: whether every edge is there in both directions; negative pairs are then
            checked in one.
        **kwargs: of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], dense or ``torch.sparse`` CSR, or dense [b, n, d] for b sets of
          features on one set of edges; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, -] with a batch; the
          bias for a node without edges

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a wrong shape, setting, ratio or attention_type, or an index out of range.

    Reference:
        Kim and Oh, "How to find your friendly neighborhood: graph attention design with
        self-supervision" (ICLR 2021).

    Example:
        >>> import torch
        >>> from gattn.nn import SuperGATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> conv = SuperGATConv(16, 8, heads=4)
        >>> conv(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 32])
        >>> conv.get_attention_loss().shape
        torch.Size([])
    """

    att_x: OptTensor
    """Logits [edges and negative pairs, h] of the last training forward."""
    att_y: OptTensor
    """1 for those that are edges, 0 for the others."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        bias: bool = True,
        attention_type: str = "MX",
        neg_sample_ratio: float = 0.5,
        edge_sample_ratio: float = 1.0,
        is_undirected: bool = False,
        **kwargs: Any,
    ) -> None:
        if attention_type not in ("MX", "SD"):
            raise ValueError(f"attention_type must be 'MX' or 'SD'; got {attention_type!r}")
        if not (neg_sample_ratio > 0 and 0 < edge_sample_ratio <= 1):
            raise ValueError(
                "neg_sample_ratio must be above 0 and edge_sample_ratio in (0, 1]; got "
                f"{neg_sample_ratio} and {edge_sample_ratio}"
            )
        check_at_least(-1, in_channels=in_channels)
        super().__init__(
            kwargs, in_channels=in_channels, out_channels=out_channels, heads=heads, concat=concat,
            negative_slope=negative_slope, dropout=dropout, add_self_loops=add_self_loops,
        )  # fmt: skip
        self.attention_type = attention_type
        self.neg_sample_ratio = neg_sample_ratio
        self.edge_sample_ratio = edge_sample_ratio
        self.is_undirected = is_undirected
        self.lin = glorot_linear(in_channels, heads * out_channels)
        mixed = attention_type == "MX"
        self.att_l = Parameter(torch.empty(1, heads, out_channels)) if mixed else None
        self.att_r = Parameter(torch.empty(1, heads, out_channels)) if mixed else None
        self.att_x = self.att_y = None
        total = heads * out_channels if concat else out_channels
        self.bias = Parameter(torch.empty(total)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        super().reset_parameters()
        self.lin.reset_parameters()
        glorot(self.att_l)
        glorot(self.att_r)
        zeros(self.bias)

    def __getstate__(self) -> dict[str, Any]:
        # What the last training forward left belongs to its autograd graph: it is not copied.
        return {**self.__dict__, "att_x": None, "att_y": None}

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        neg_edge_index: OptTensor = None,
        batch: OptTensor = None,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Attend along the edges and, in training, compare them with pairs that have none.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            neg_edge_index: the pairs (2, -) to compare with; None draws them.
            batch: [n], the graph of each node: pairs are drawn inside each.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], is added to the score of each edge; -inf drops it.

        Returns:
            The new node features.
        """
        x, _ = node_pair(x)
        graph, _ = read_edges(edge_index, None, x, x, self_loops=self.add_self_loops)
        value = split_heads(project(self.lin, x), self.out_channels)
        logits = self._logits(value, graph) if self.fused or self.training else None
        terms = self.read_terms(edge_index, graph, x, edge_weight, attn_bias)
        out = self._attend(value, logits, graph, terms)
        if self.training and logits is not None:
            if neg_edge_index is None:
                neg_edge_index = self._draw_negatives(graph, batch)
            self._supervise(logits, value, graph, neg_edge_index)
        return add_bias(merge_heads(out, self.heads, x, self.concat), self.bias)

    def _attend(self, value: Tensor, logits: OptTensor, graph: Graph, terms: EdgeTerms) -> Tensor:
        if logits is None or not self.fused:
            self.note_edge_by_edge(None, graph)
            # propagate_type: (x: Tensor)
            with self.bind_terms(terms):
                return self.propagate(graph.edge_index, x=value)
        score = EdgeScore(F.leaky_relu(self._scores(value, logits, graph), self.negative_slope))
        return attend_with_score(score, value, graph, terms=terms, dropout=self.dropout_now())[0]

    def message(self, edge_index_i: Tensor, x_i: Tensor, x_j: Tensor, size_i: int | None) -> Tensor:
        """Weighted values [e, h, c] of the edges: the edge-by-edge path."""
        alpha = self.get_attention(edge_index_i, x_i, x_j, num_nodes=size_i)
        alpha = F.dropout(alpha, self.dropout, self.training)
        return x_j * alpha.unsqueeze(-1)

    def get_attention(
        self,
        edge_index_i: Tensor,
        x_i: Tensor,
        x_j: Tensor,
        num_nodes: int | None,
        return_logits: bool = False,
    ) -> Tensor:
        """Weights, or logits, of edges whose values x_i and x_j [e, h, c] are written out."""
        logits = (x_i * x_j).sum(-1)
        score = logits / math.sqrt(self.out_channels)
        if return_logits:
            return logits if self.attention_type == "MX" else score
        if self.att_l is not None and self.att_r is not None:
            att_l, att_r = (tile_heads(a, 1, x_j.shape[1]) for a in (self.att_l, self.att_r))
            score = ((x_j * att_l).sum(-1) + (x_i * att_r).sum(-1)) * logits.sigmoid()
        score = F.leaky_relu(score, self.negative_slope)
        return self.softmax(score, edge_index_i, size=num_nodes)

    def get_attention_loss(self) -> Tensor:
        r"""Cross entropy of telling edges from negative pairs, after a training forward.

        .. math::
            -\frac{1}{|E| + |E^-|} \Big(\sum_{E} \log \sigma(\bar s_{ij})
            + \sum_{E^-} \log(1 - \sigma(\bar s_{ij}))\Big)

        with the logits' mean over heads; 0 in eval mode.
        """
        if not self.training:
            return torch.tensor([0], device=next(self.parameters()).device)
        if self.att_x is None or self.att_y is None:
            raise RuntimeError("the attention loss follows a forward in training mode; none came")
        return F.binary_cross_entropy_with_logits(self.att_x.mean(-1), self.att_y)

    def positive_sampling(self, edge_index: Tensor) -> Tensor:
        """Edges that the attention loss sees: a share ``edge_sample_ratio`` of those given."""
        return dropout_edge(edge_index, 1.0 - self.edge_sample_ratio, training=self.training)[0]

    def negative_sampling(
        self, edge_index: Tensor, num_nodes: int, batch: OptTensor = None
    ) -> Tensor:
        """Pairs without an edge in either direction, for the attention loss."""
        return self._draw_negatives(as_graph(edge_index, num_nodes), batch)

    def _draw_negatives(self, graph: Graph, batch: OptTensor) -> Tensor:
        count = int(self.neg_sample_ratio * self.edge_sample_ratio * graph.num_edges)
        if batch is None:
            return sample_non_edges(graph, count, symmetric=self.is_undirected)
        return sample_within_graphs(graph, batch, count, symmetric=self.is_undirected)

    def _logits(self, value: Tensor, graph: Graph) -> Tensor:
        """v_i . v_j, scaled for SD: [e, h]."""
        logits = edge_dot(value, value, graph)
        return logits if self.attention_type == "MX" else logits / math.sqrt(self.out_channels)

    def _scores(self, value: Tensor, logits: Tensor, graph: Graph) -> Tensor:
        """s_ij: [e, h]."""
        if self.att_l is None or self.att_r is None:
            return logits
        att_r, att_l = head_scores(value, self.att_r, self.att_l)
        return edge_sum(att_r, att_l, graph) * logits.sigmoid()

    def _supervise(
        self, logits: Tensor, value: Tensor, graph: Graph, neg_edge_index: Tensor
    ) -> None:
        """Keep the logits of edges and of negative pairs for the attention loss."""
        if self.edge_sample_ratio < 1:
            dropped = 1.0 - self.edge_sample_ratio
            logits = logits[dropout_edge(graph.edge_index, dropped)[1]]
        negatives = self._logits(value, as_graph(neg_edge_index, graph.size))
        self.att_x = torch.cat([logits, negatives])
        self.att_y = self.att_x.new_zeros(self.att_x.shape[0])
        self.att_y[: logits.shape[0]] = 1

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, type={self.attention_type})"
