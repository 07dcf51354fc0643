"""The layer SuperGATConv: graph attention with a self-supervised loss that predicts edges."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor
from torch_geometric.utils import dropout_edge

from gattn.functional import edge_dot
from gattn.graph import Graph, as_graph
from gattn.nn.common.edge_inputs import edge_sum, read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import (
    add_bias,
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


class SuperGATConv(pyg.SuperGATConv, AttentionConv):
    r"""Graph attention whose scores are also trained to predict the edges (self-supervision).

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} v_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(s_{ij}), \qquad v = W x

    with :math:`s_{ij} = (a_l \cdot v_j + a_r \cdot v_i)\, \sigma(v_i \cdot v_j)` for
    ``attention_type="MX"`` and :math:`s_{ij} = v_i \cdot v_j / \sqrt{c}` for ``"SD"``. Has the
    arguments and the parameters of ``torch_geometric.nn.SuperGATConv`` and returns the same
    outputs.

    Args:
        in_channels: number of node features, d; -1 takes it from the first input.
        out_channels: channels per head, c.
        heads: number of heads, h.
        concat: whether the heads are concatenated; else they are averaged.
        negative_slope: slope of the LeakyReLU for negative inputs.
        dropout: dropout probability of the attention weights in training.
        add_self_loops: whether each node also attends to itself: self-loops in the input are
            replaced by one self-loop per node.
        bias: whether a learned bias is added to the output.
        attention_type: ``"MX"`` or ``"SD"``.
        neg_sample_ratio: number of negative pairs per edge of the attention loss.
        edge_sample_ratio: fraction of the edges that the attention loss uses.
        is_undirected: whether the graph contains the reverse of each edge; negative pairs are
            then looked up in one direction only.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], dense or ``torch.sparse`` CSR, or dense [b, n, d] for b sets of
          features on one set of edges; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`
        - **output:** [n, h * c], or [n, c] with ``concat=False``; [b, n, h * c] or [b, n, c] with
          a batch; the bias for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
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
    """Logits of the last forward pass in training, [number of edges and negative pairs, h].
    """
    att_y: OptTensor
    """Labels of the logits in ``att_x``: 1 for edges, 0 for negative pairs."""

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for an unknown attention_type, or for sampling ratios out of range."""
        kind = arguments["attention_type"]
        if kind not in ("MX", "SD"):
            raise ValueError(f"attention_type must be 'MX' or 'SD'; got {kind!r}")
        ratios = arguments["neg_sample_ratio"], arguments["edge_sample_ratio"]
        if not (ratios[0] > 0 and 0 < ratios[1] <= 1):
            raise ValueError(
                "neg_sample_ratio must be above 0 and edge_sample_ratio in (0, 1]; got "
                f"{ratios[0]} and {ratios[1]}"
            )

    def __getstate__(self) -> dict[str, Any]:
        # The stored logits belong to the autograd graph of the last forward pass, which cannot be
        # copied or pickled.
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
        """Compute the attention along the edges, in training with dropout. In training, also keep
        the logits of edges and negative pairs for :meth:`get_attention_loss`. The first call of a
        layer with the width -1 creates its weights. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            neg_edge_index: the negative pairs (2, number of pairs); None draws them at random.
            batch: [n], the graph of each node; negative pairs are drawn inside each graph.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features.

        Raises:
            TypeError: if the edges have an unsupported type, or the dtypes differ.
            ValueError: for a wrong shape or an index out of range.
            RuntimeError: under torch.jit.trace, or if attention weights are recorded and the layer
                computes edge by edge without them.
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
        """Return the outputs [n, h, c] from the values [n, h, c] and the logits [e, h]: by the
        fused operators, or by PyG's message passing if ``logits`` is None or the layer computes
        edge by edge. Raises RuntimeError if message passing is used and attention weights are
        recorded, and ValueError if a subclass overrides the method that reads one of the ``terms``.
        """
        if logits is None or not self.fused:
            self.record_edge_by_edge(None, graph)
            # propagate_type: (x: Tensor)
            with self.bind_terms(terms):
                return self.propagate(graph.edge_index, x=value)
        score = EdgeScore(F.leaky_relu(self._scores(value, logits, graph), self.negative_slope))
        return attend_with_score(score, value, graph, terms=terms, dropout=self.dropout_now())[0]

    def message(self, edge_index_i: Tensor, x_i: Tensor, x_j: Tensor, size_i: int | None) -> Tensor:
        """Return the values of the source nodes, [e, h, c], multiplied by the attention weights
        after dropout.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        values of both ends are [e, h, c], and ``edge_index_i`` [e] is the destination.
        """
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
        """Return the attention weights [e, h], or the logits, given the gathered values x_i and
        x_j.

        Args:
            edge_index_i: destination of each edge, [e].
            x_i: values of the destinations, [e, h, c].
            x_j: values of the sources, [e, h, c].
            num_nodes: number of destinations.
            return_logits: whether to return the logits of the attention loss.
        """
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
        r"""Return the binary cross entropy of the edges and negative pairs in the last forward
        pass.

        .. math::
            -\frac{1}{|E| + |E^-|} \Big(\sum_{E} \log \sigma(\bar s_{ij})
            + \sum_{E^-} \log(1 - \sigma(\bar s_{ij}))\Big)

        where :math:`\bar s` is the mean of the logits over the heads. In evaluation mode, the
        result is an int64 tensor with the single element 0, as in PyG.

        Raises:
            RuntimeError: if there was no forward in training mode.
        """
        if not self.training:
            return torch.tensor([0], device=next(self.parameters()).device)
        if self.att_x is None or self.att_y is None:
            raise RuntimeError("the attention loss needs a previous forward pass in training mode")
        return F.binary_cross_entropy_with_logits(self.att_x.mean(-1), self.att_y)

    def negative_sampling(
        self, edge_index: Tensor, num_nodes: int, batch: OptTensor = None
    ) -> Tensor:
        """Draw node pairs without an edge in either direction, (2, number) int64, for the attention
        loss, by torch's generator, inside each graph if ``batch`` [n] is not None. Raises the
        errors of :func:`as_graph`.
        """
        return self._draw_negatives(as_graph(edge_index, num_nodes), batch)

    def _draw_negatives(self, graph: Graph, batch: OptTensor) -> Tensor:
        """Draw pairs of nodes without an edge, (2, number), by torch's generator: inside each graph
        if ``batch`` [n], the graph of each node, is not None.
        """
        count = int(self.neg_sample_ratio * self.edge_sample_ratio * graph.num_edges)
        if batch is None:
            return sample_non_edges(graph, count, symmetric=self.is_undirected)
        return sample_within_graphs(graph, batch, count, symmetric=self.is_undirected)

    def _logits(self, value: Tensor, graph: Graph) -> Tensor:
        """Return the logits of the attention loss, v_i . v_j, from the values [n, h, c]; for "SD",
        they are divided by sqrt(c): [e, h]. Raises the errors of :func:`edge_dot`.
        """
        logits = edge_dot(value, value, graph)
        return logits if self.attention_type == "MX" else logits / math.sqrt(self.out_channels)

    def _scores(self, value: Tensor, logits: Tensor, graph: Graph) -> Tensor:
        """Return the scores s_ij before the LeakyReLU, [e, h], computed from the values [n, h, c]
        and the logits [e, h]. Raises the errors of :func:`node_scores`.
        """
        if self.att_l is None or self.att_r is None:
            return logits
        att_r, att_l = head_scores(value, self.att_r, self.att_l)
        return edge_sum(att_r, att_l, graph) * logits.sigmoid()

    def _supervise(
        self, logits: Tensor, value: Tensor, graph: Graph, neg_edge_index: Tensor
    ) -> None:
        """Store the logits [e, h] and labels of the edges, or of a part of them that torch's
        generator draws if ``edge_sample_ratio`` is below 1, and of the negative pairs (2, number)
        for the attention loss, in ``att_x`` and ``att_y``. Raises the errors of :func:`as_graph`
        for the negative pairs.
        """
        if self.edge_sample_ratio < 1:
            dropped = 1.0 - self.edge_sample_ratio
            logits = logits[dropout_edge(graph.edge_index, dropped)[1]]
        negatives = self._logits(value, as_graph(neg_edge_index, graph.size))
        self.att_x = torch.cat([logits, negatives])
        self.att_y = self.att_x.new_zeros(self.att_x.shape[0])
        self.att_y[: logits.shape[0]] = 1
