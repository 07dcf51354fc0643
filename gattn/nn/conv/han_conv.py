"""The layer HANConv: attention along the edges of each type, then among the edge types."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, EdgeType, NodeType, OptTensor

from gattn.graph import Graph
from gattn.nn.common.checks import check_heads_divide
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.edge_terms import NARROW, read_typed_terms, report_shape
from gattn.nn.common.features import head_scores
from gattn.nn.common.scores import FusedScore, gat_score
from gattn.nn.conv.base import AttentionConv, Nodes


class HANConv(pyg.HANConv, AttentionConv):
    r"""Layer of the heterogeneous graph attention network (HAN).

    .. math::
        z^{(r)}_i = \mathrm{ReLU} \Big( \Big\Vert_h \sum_{j \in N_r(i)} \alpha^{(r)}_{ij} h_j
        \Big), \qquad
        \alpha^{(r)}_{ij} = \mathrm{softmax}_{j}\, \mathrm{LeakyReLU}(a^{(r)}_d \cdot h_i +
        a^{(r)}_s \cdot h_j), \qquad x'_i = \sum_r \beta_r z^{(r)}_i

    with a linear projection h of x for each node type, and
    :math:`\beta = \mathrm{softmax}_r\, q \cdot \overline{\tanh(W z^{(r)} + b)}`. This softmax runs
    over the edge types into a node type, and the bar is the mean over the nodes of that type. Has
    the arguments and the parameters of ``torch_geometric.nn.HANConv`` and returns the same outputs.

    Args:
        in_channels: number of node features, for all node types or by node type; -1 takes it from
            the first input.
        out_channels: number of output features, h * c.
        metadata: the node types and the edge types (source, relation, destination).
        heads: number of heads, h.
        negative_slope: slope of the LeakyReLU for negative inputs.
        dropout: dropout probability of the attention weights in training.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** for every node type x [n, d]; for every edge type pairs (2, e), an adjacency
          [n, m] or a :class:`gattn.Graph`
        - **output:** for every node type [n, out_channels], or None if no edge type leads to it;
          an edge type adds zeros to a node without edges of that type

    Raises:
        TypeError: if the edges have an unsupported type, or the dtype of a term differs.
        ValueError: if heads does not divide out_channels, a shape is wrong, or an index is out of
            range.
        RuntimeError: by torch, if x has another width or dtype than the layer.

    Reference:
        Wang et al., "Heterogeneous graph attention network" (WWW 2019).

    Example:
        >>> import torch
        >>> from gattn.nn import HANConv
        >>> cites = ("paper", "cites", "paper")
        >>> conv = HANConv(8, 16, (["paper"], [cites]), heads=2)
        >>> out = conv({"paper": torch.randn(3, 8)}, {cites: torch.tensor([[0, 1], [1, 2]])})
        >>> out["paper"].shape
        torch.Size([3, 16])
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        check_heads_divide(arguments["heads"], out_channels=arguments["out_channels"])

    def forward(
        self,
        x_dict: dict[NodeType, Tensor],
        edge_index_dict: dict[EdgeType, Adj | Graph],
        return_semantic_attention_weights: bool = False,
        *,
        edge_weight: dict[EdgeType, Tensor] | None = None,
        attn_bias: dict[EdgeType, Tensor] | None = None,
    ) -> Any:
        """Compute the attention along the edges of each type, then among the edge types, in
        training with dropout. The first call of a layer with the width -1 creates its weights. The
        attention weights are passed to the active recordings.

        Args:
            x_dict: node features by node type, see Shapes.
            edge_index_dict: edges by edge type, see Shapes.
            return_semantic_attention_weights: whether to return the weights beta of the edge
                types, too.
            edge_weight: [e] by edge type, multiplies the message of each edge.
            attn_bias: [e] or [e, h] by edge type, added to the scores; -inf removes an edge.

        Returns:
            The new features by node type; with ``return_semantic_attention_weights``,
            ``(features, beta)`` with beta [number of edge types into the node type] by node type,
            None for a node type without nodes or without edge types into it.

        Raises:
            KeyError: for a node type that the layer does not have.
            AttributeError: for an edge type that the layer does not have, as in PyG.
            TypeError: if the edges have an unsupported type, or the dtype of a term differs.
            ValueError: for a wrong shape of a term, an index out of range, or terms of an unknown
                edge type.
            RuntimeError: under torch.jit.trace, if attention weights are recorded and the layer
                computes edge by edge without them, or by torch if x has another width or dtype than
                the layer.
        """
        projected = {key: self.proj[key](x) for key, x in x_dict.items()}
        # Before the features of its ends, so that an unknown edge type raises PyG's exception.
        vectors = {
            key: (self.lin_src["__".join(key)], self.lin_dst["__".join(key)])
            for key in edge_index_dict
        }
        graphs = {
            key: read_edges(edges, None, projected[key[0]], projected[key[-1]])[0]
            for key, edges in edge_index_dict.items()
        }
        terms = read_typed_terms(
            edge_index_dict, graphs, self.q, edge_weight, attn_bias, self.heads
        )
        report_shape(self.out_channels, NARROW, graphs.values())
        computed: dict[NodeType, list[Tensor]] = {key: [] for key in x_dict}
        for key, graph in graphs.items():
            nodes = self._ends(vectors[key], projected[key[0]], projected[key[-1]])
            out, _ = self.attend(nodes, None, graph, edge_type=key, terms=terms[key])
            computed[key[-1]].append(out.flatten(1).relu())
        mixed = {key: self._mix(outs) for key, outs in computed.items()}
        out_dict = {key: out for key, (out, _) in mixed.items()}
        if return_semantic_attention_weights:
            return out_dict, {key: beta for key, (_, beta) in mixed.items()}
        return out_dict

    def _ends(self, vectors: tuple[Tensor, Tensor], y_src: Tensor, y_dst: Tensor) -> Nodes:
        """Return the scores a_d . h_i, the scores a_s . h_j, and the values h_j and h_i for one
        edge type with the vectors (a_s, a_d), [1, h, c] each, from the projected features [m, h *
        c] and [n, h * c]. Raises the errors of :func:`node_scores`.
        """
        value, value_dst = (y.unflatten(-1, (self.heads, -1)) for y in (y_src, y_dst))
        (key,) = head_scores(value, vectors[0])
        (query,) = head_scores(value_dst, vectors[1])
        return Nodes(query, key, value, value_dst)

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> FusedScore:
        assert nodes.query is not None
        return gat_score(nodes.query, nodes.key, negative_slope=self.negative_slope)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, OptTensor]:
        """Return the outputs of one edge type, [n, h * c], computed by PyG's message passing, and
        None instead of weights.
        """
        x, alpha = (nodes.value, nodes.value_dst), (nodes.key, nodes.query)
        # propagate_type: (x: PairTensor, alpha: PairTensor)
        return self.propagate(graph.edge_index, x=x, alpha=alpha), None

    def message(
        self,
        x_j: Tensor,
        alpha_i: Tensor,
        alpha_j: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the values of the source nodes, [e, h * c], multiplied by the attention weights
        after dropout.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        values of sources are [e, h, c], the scores alpha of both ends [e, h], and ``index`` [e] is
        the destination.
        """
        score = F.leaky_relu(alpha_j + alpha_i, self.negative_slope)
        alpha = F.dropout(self.softmax(score, index, ptr, size_i), self.dropout, self.training)
        return (x_j * alpha.unsqueeze(-1)).flatten(1)

    def _mix(self, outs: list[Tensor]) -> tuple[OptTensor, OptTensor]:
        """Return the weighted sum of the results, [n, h * c] each, for r edge types, and the weight
        of each type, [r]. Both are None without edge types, and the weights without nodes.
        """
        if len(outs) == 0:
            return None, None
        stacked = torch.stack(outs)
        if stacked.numel() == 0:
            return stacked[0], None
        score = (self.q * self.k_lin(stacked).tanh().mean(1)).sum(-1)
        beta = score.softmax(0)
        return (beta.to(stacked.dtype).view(-1, 1, 1) * stacked).sum(0), beta
