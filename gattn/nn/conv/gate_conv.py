"""The layer GATEConv: the first layer of AttentiveFP, whose score depends on bond features."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.nn.models import attentive_fp
from torch_geometric.typing import Adj, OptTensor

from gattn.graph import Graph
from gattn.kernels.precision import infinite_as_nan
from gattn.nn.common.checks import check_at_least, check_features, check_tensor, readable_weight
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import add_bias, as_heads, is_plain, redraw
from gattn.nn.common.scores import attend_with_score, gat_score
from gattn.nn.conv.base import AttentionConv


class GATEConv(attentive_fp.GATEConv, AttentionConv):
    r"""Graph attention with a perceptron as score. It reads the features of the neighbour and of
    the edge.

    .. math::
        x'_i = \sum_{j \in N(i)} \alpha_{ij} W_2 x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}
        (a_l \cdot \mathrm{LeakyReLU}(W_1 [x_j, e_{ij}]) + a_r \cdot x_i)

    Has the parameters of the layer of the same name in ``torch_geometric.nn.models.attentive_fp``
    and returns the same outputs.

    Args:
        in_channels: number of node features, d.
        out_channels: number of output features, c; must equal in_channels.
        edge_dim: number of edge features.
        dropout: dropout probability of the attention weights in training.

    Shapes:
        - **input:** x [n, in_channels]; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`; edge features [e, edge_dim]
        - **output:** [n, out_channels]; the bias for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtype of another input than x
            differs.
        ValueError: if out_channels is not in_channels, for a dropout that is not a probability, a
            wrong shape or an index out of range.
        RuntimeError: by torch, if x has another width or dtype than the layer.

    Reference:
        Xiong et al., "Pushing the boundaries of molecular representation for drug discovery with
        the graph attention mechanism" (J. Med. Chem. 2020).

    Example:
        >>> import torch
        >>> from gattn.nn import GATEConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> GATEConv(16, 16, edge_dim=4)(torch.randn(3, 16), edge_index, torch.randn(3, 4)).shape
        torch.Size([3, 16])
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for negative widths, or if the layer would change the number of node
        features.
        """
        in_channels, out_channels = arguments["in_channels"], arguments["out_channels"]
        check_at_least(0, in_channels=in_channels, edge_dim=arguments["edge_dim"])
        if in_channels != out_channels:
            raise ValueError(
                f"out_channels must be in_channels ({in_channels}); got {out_channels}"
            )

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        glorot(self.att_l)
        glorot(self.att_r)
        for linear in (self.lin1, self.lin2):
            redraw(linear, glorot)
        zeros(self.bias)

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        edge_attr: Tensor,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Compute the attention along the edges, in training with dropout. The attention weights
        are passed to the active recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features.

        Raises:
            ValueError: if x is not two-dimensional, edge_attr or a term of the edges has a wrong
                shape, or an index is out of range.
            TypeError: if edge_attr is missing, the edges have an unsupported type, or for a dtype
                of another input than x that differs from the layer.
            RuntimeError: under torch.jit.trace, or by torch if x has another width or dtype than
                the layer.
        """
        if x.dim() != 2:
            expected = self.att_r.shape[1]
            raise ValueError(f"x must have shape (n, {expected}); got {tuple(x.shape)}")
        graph, bonds = read_edges(edge_index, edge_attr, x, x)
        self._check(bonds)
        assert bonds is not None
        terms = self.read_terms(edge_index, graph, x, edge_weight, attn_bias)
        return add_bias(self._attend(x, bonds, graph, terms), self.bias)

    def _check(self, edge_attr: OptTensor) -> None:
        """Check that edge_attr has the width that W_1 expects in addition to the node features.
        Raises TypeError if it is missing or has another dtype, and ValueError for another width,
        and RuntimeError under torch.jit.trace.
        """
        weight = readable_weight(self.lin1)
        if weight is None:
            check_tensor("edge_attr", edge_attr)
        else:
            edge_dim = weight.shape[1] - self.att_r.shape[1]
            check_features("edge_attr", edge_attr, edge_dim, weight)

    def _attend(self, x: Tensor, edge_attr: Tensor, graph: Graph, terms: EdgeTerms) -> Tensor:
        """Return the outputs [n, c] of the nodes x [n, d] with edge features [e, edge_dim], by one
        operator or, if it is not possible, edge by edge, in training with dropout. The weights are
        passed to the active recordings. Raises ValueError if a subclass overrides the method that
        reads one of the ``terms``, and RuntimeError by torch if a width does not fit.
        """
        if not self.fused:
            # edge_updater_type: (x: Tensor, edge_attr: Tensor)
            # propagate_type: (x: Tensor, alpha: Tensor)
            with self.bind_terms(terms):
                alpha = self.edge_updater(graph.edge_index, x=x, edge_attr=edge_attr)
                self.record_edge_by_edge(self.before_dropout(alpha), graph)
                return self.propagate(graph.edge_index, x=x, alpha=alpha)
        query_score = infinite_as_nan(F.linear(x, self.att_r))
        edge_score = self._neighbour_score(x, edge_attr, graph)
        key_score = torch.zeros_like(query_score)
        score = gat_score(query_score, key_score, edge_score=edge_score, negative_slope=0.01)
        value = as_heads(self.lin2(x))
        out, _ = attend_with_score(score, value, graph, terms=terms, dropout=self.dropout_now())
        return out.squeeze(1)

    def edge_update(
        self,
        x_j: Tensor,
        x_i: Tensor,
        edge_attr: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the attention weights [e] after dropout; their values before dropout are
        stored.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        features of both ends are [e, d], and ``index`` [e] is the destination.
        """
        hidden = F.leaky_relu(self.lin1(torch.cat([x_j, edge_attr], dim=-1)))
        score = F.leaky_relu(F.linear(hidden, self.att_l) + F.linear(x_i, self.att_r)).squeeze(-1)
        return self.drop_weights(self.softmax(score, index, ptr, size_i))

    def _neighbour_score(self, x: Tensor, edge_attr: Tensor, graph: Graph) -> Tensor:
        """Return the neighbour's term of the score, a_l . LeakyReLU(W_1 [x_j, e_ij]): [e, 1], from
        x [n, d] and the edge features [e, edge_dim].

        Nodes and edges are multiplied by their columns of W_1 separately, so that each node is
        projected once.
        """
        graph, (x,) = graph.fetch_source_rows(x)
        source = graph.edge_index[0]
        if is_plain(self.lin1):
            widths = [x.shape[1], edge_attr.shape[1]]
            node_weight, edge_weight = self.lin1.weight.split(widths, dim=1)
            hidden = F.linear(x, node_weight)[source]
            hidden = hidden + F.linear(edge_attr, edge_weight, self.lin1.bias)
        else:
            hidden = self.lin1(torch.cat([x[source], edge_attr], dim=-1))
        return infinite_as_nan(F.linear(F.leaky_relu(hidden), self.att_l))
