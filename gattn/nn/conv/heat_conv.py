"""The layer HEATConv: attention for nodes and edges of several types, with edge features."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor

from gattn.graph import Graph
from gattn.kernels.precision import infinite_as_nan
from gattn.nn.common.checks import check_input_of, shape_of_rows
from gattn.nn.common.edge_inputs import edge_rows, read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import as_columns, as_heads
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.scores import (
    WithEdgeValues,
    attend_unrecorded,
    attend_with_score,
    gat_score,
)
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.typed import checked_types, map_by_type
from gattn.ops.edges import sources_to_edges

MAX_FORMED = 2**20
"""Maximum size e * c of the values of the edges, which all heads share, for which they are formed,
because a single kernel then sums them (``python -m benchmarks.shapes HEATConv``).
"""


class HEATConv(pyg.HEATConv, AttentionConv):
    r"""Heterogeneous edge-enhanced graph attention.

    .. math::
        x'_i = \Big\Vert_h \Big( h_i + \sum_{j \in N(i)} \alpha_{ij}\, W [h_j, a_{ij}] \Big), \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}(a \cdot [h_i, h_j, t_{ij}, a_{ij}])

    with :math:`h_i = W_{\tau(i)} x_i` by the type of the node; t is the LeakyReLU of an embedding
    of the edge's type, and a is the LeakyReLU of a projection of the edge's features. Has the
    arguments and the parameters of ``torch_geometric.nn.HEATConv`` and returns the same outputs.
    On a large graph, no tensor of size edges x channels is formed: W multiplies node features, and
    weighted sums of edge features.

    Args:
        in_channels: number of node features, d; -1 takes it from the first input.
        out_channels: channels per head, c; the heads share the values.
        num_node_types: number of node types.
        num_edge_types: number of edge types.
        edge_type_emb_dim: number of channels of t.
        edge_dim: number of edge features.
        edge_attr_emb_dim: number of channels of a.
        heads: number of heads, h.
        concat: whether the heads are concatenated; else they are averaged.
        negative_slope: slope of the LeakyReLU for negative inputs.
        dropout: dropout probability of the attention weights in training.
        root_weight: whether h_i is added to the result.
        bias: whether the projections of nodes and of values have a bias.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d]; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`; node types [n] and edge types [e], integers; edge features
          [e, edge_dim] or [e]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; h_i or zeros for a node without
          edges

    Raises:
        TypeError: for edges of another type, types that are not integers, or a dtype of another
            input than x that differs.
        ValueError: for a wrong shape or setting, an index or a type out of range, or missing edge
            features.
        RuntimeError: by torch, if x has another width or dtype than the layer.

    Reference:
        Mo et al., "Heterogeneous edge-enhanced graph attention network for multi-agent trajectory
        prediction" (2021).

    Example:
        >>> import torch
        >>> from gattn.nn import HEATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> conv = HEATConv(8, 16, 2, 3, edge_type_emb_dim=5, edge_dim=2, edge_attr_emb_dim=6)
        >>> kinds, edge_kinds = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2])
        >>> conv(torch.randn(3, 8), edge_index, kinds, edge_kinds, torch.randn(3, 2)).shape
        torch.Size([3, 16])
    """

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        return "att", "lin"

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        node_type: Tensor,
        edge_type: Tensor,
        edge_attr: OptTensor = None,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Compute the attention along the edges of all types, in training with dropout. The first
        call of a layer with the width -1 creates its weights. The attention weights are passed to
        the active recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            node_type: the type of each node, see Shapes.
            edge_type: the type of each edge, see Shapes.
            edge_attr: edge features, see Shapes.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features.

        Raises:
            ValueError: if x is not two-dimensional, another input has a wrong shape, an index or a
                type is out of range, or edge_attr is missing.
            TypeError: if types are not integers, the edges have an unsupported type, or for a dtype
                of another input than x that differs from the layer.
            RuntimeError: under torch.jit.trace, if attention weights are recorded and the layer
                computes edge by edge without them, or by torch if x has another width or dtype than
                the layer.
        """
        if x.dim() != 2:
            raise ValueError(
                f"x must have shape {shape_of_rows(self.in_channels)}; got {tuple(x.shape)}"
            )
        graph, edge_attr = read_edges(edge_index, edge_attr, x, x)
        edge_attr = self._checked(edge_attr)
        edge_type = edge_rows(edge_index, edge_type, "edge_type", 1)
        edge_types = getattr(self.edge_type_emb, "num_embeddings", None)
        edge_type = checked_types("edge_type", edge_type, graph.num_edges, edge_types)
        node_types = getattr(self.hetero_lin, "num_types", None)
        node_type = checked_types("node_type", node_type, x.shape[0], node_types)
        terms = self.read_terms(edge_index, graph, x, edge_weight, attn_bias)
        hidden = map_by_type(self.hetero_lin, x, node_type)
        out = self._attend(hidden, edge_type, edge_attr, graph, terms)
        if self.root_weight:
            out = out + hidden.unsqueeze(1)
        return out.flatten(1) if self.concat else out.mean(1)

    def _attend(
        self, x: Tensor, edge_type: Tensor, edge_attr: Tensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Return the weighted sums of the values, [n, h, c], from the projected nodes x [n, c], the
        types [e] and the features [e, edge_dim] of the edges, in training with dropout. The
        attention weights are passed to the active recordings. Raises RuntimeError if the layer
        computes edge by edge and attention weights are recorded, and ValueError if a subclass
        overrides the method that reads one of the ``terms``.
        """
        if not self.fused:
            kinds = F.leaky_relu(self.edge_type_emb(edge_type), self.negative_slope)
            self.record_edge_by_edge(None, graph)
            # propagate_type: (x: Tensor, edge_type_emb: Tensor, edge_attr: OptTensor)
            with self.bind_terms(terms):
                return self.propagate(
                    graph.edge_index, x=x, edge_type_emb=kinds, edge_attr=edge_attr
                )
        features = F.leaky_relu(self.edge_attr_emb(edge_attr), self.negative_slope)
        # The score of each type is computed once, unless the number of types is unknown.
        count = getattr(self.edge_type_emb, "num_embeddings", None)
        types = edge_type if count is None else torch.arange(count, device=x.device)
        kinds = F.leaky_relu(self.edge_type_emb(types), self.negative_slope)
        widths = [x.shape[1], x.shape[1], kinds.shape[1], features.shape[1]]
        att_dst, att_src, att_type, att_edge = self.att.weight.split(widths, dim=1)
        type_score = F.linear(kinds, att_type)
        type_score = type_score if count is None else F.embedding(edge_type, type_score)
        node_proj, edge_proj = self.lin.weight.split([x.shape[1], features.shape[1]], dim=1)
        query = infinite_as_nan(F.linear(x, att_dst))
        # Compiled code cannot compare sizes of graphs.
        if torch.compiler.is_compiling() or graph.num_edges * self.out_channels > MAX_FORMED:
            score = gat_score(
                query, infinite_as_nan(F.linear(x, att_src)),
                edge_score=infinite_as_nan(F.linear(features, att_edge) + type_score),
                negative_slope=self.negative_slope,
            )  # fmt: skip
            value = as_heads(F.linear(x, node_proj, self.lin.bias))
            shared_proj = edge_proj.expand(self.heads, -1, -1)
            return attend_with_score(
                WithEdgeValues(score, features, shared_proj), value, graph, terms=terms,
                dropout=self.dropout_now(),
            )[0]  # fmt: skip
        # The scores and the values of a source are gathered together.
        bias = None if self.lin.bias is None else F.pad(self.lin.bias, (self.heads, 0))
        rows = F.linear(x, torch.cat([att_src, node_proj]), bias)
        graph, (rows,) = graph.fetch_source_rows(rows)
        rows = sources_to_edges(rows, graph)
        rows = rows + F.linear(features, torch.cat([att_edge, edge_proj]))
        key, value = rows.split([self.heads, self.out_channels], dim=1)
        key = infinite_as_nan(key + type_score)
        out, alpha = attend_unrecorded(
            gat_score(query, key, negative_slope=self.negative_slope), value.unsqueeze(1),
            graph.incidence(), terms, self.dropout_now(), is_recording(),
        )  # fmt: skip
        if alpha is not None:
            record(alpha, graph)
        return out

    def message(
        self,
        x_i: Tensor,
        x_j: Tensor,
        edge_type_emb: Tensor,
        edge_attr: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the values of the source nodes, [e, h, c], multiplied by the attention weights
        after dropout.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        projected features of both ends are [e, c], the embedded types [e, edge_type_emb_dim], the
        features [e, edge_dim], and ``index`` [e] is the destination.
        """
        edge_attr = F.leaky_relu(self.edge_attr_emb(edge_attr), self.negative_slope)
        score = self.att(torch.cat([x_i, x_j, edge_type_emb, edge_attr], dim=-1))
        score = F.leaky_relu(score, self.negative_slope)
        alpha = F.dropout(self.softmax(score, index, ptr, size_i), self.dropout, self.training)
        value = self.lin(torch.cat([x_j, edge_attr], dim=-1))
        return value.unsqueeze(1) * alpha.unsqueeze(-1)

    def _checked(self, edge_attr: OptTensor) -> Tensor:
        """Check the edge features and return them as [e, edge_dim]. Raises ValueError if they are
        missing or have a wrong width, and TypeError for a wrong dtype, and RuntimeError under
        torch.jit.trace.
        """
        if edge_attr is None:
            raise ValueError(f"{self} needs edge_attr")
        columns = as_columns(edge_attr)
        check_input_of("edge_attr", columns, self.edge_attr_emb)
        return columns
