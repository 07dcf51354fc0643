"""The layer HGTConv: attention for nodes and edges of several types."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.dense import HeteroLinear
from torch_geometric.typing import Adj, EdgeType, NodeType, OptTensor

from gattn.graph import Graph
from gattn.nn.common.checks import check_heads_divide
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.edge_terms import EdgeTerms, join_terms, read_typed_terms
from gattn.nn.common.features import is_untouched
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.scores import attend_unrecorded, dot_product_score
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.typed import join_graphs

_Projected = dict[NodeType, tuple[Tensor, ...]]
"""Type of the keys, queries and values, [n, h, c], as dictionaries by node type."""


class HGTConv(pyg.HGTConv, AttentionConv):
    r"""Layer of the heterogeneous graph transformer (HGT).

    .. math::
        x'_i = W_{\tau(i)} \mathrm{GELU} \Big( \Big\Vert_h \sum_{r} \sum_{j \in N_r(i)}
        \alpha_{ij} M_r v_j \Big), \qquad
        \alpha_{ij} = \mathrm{softmax}_{j, r} \frac{\mu_r\, q_i \cdot K_r k_j}{\sqrt{c}}

    with linear projections q, k and v of x for each node type, and a gated skip connection if
    input and output have the same width. The softmax of a node runs over its edges of all types r.
    Has the arguments and the parameters of ``torch_geometric.nn.HGTConv`` and returns the same
    outputs if the keys of ``edge_index_dict`` are in the order of the metadata. In another order
    PyG's layer applies the projections of some edge types to others; the result of this layer
    does not depend on the order.

    Args:
        in_channels: number of node features, for all node types or by node type; -1 takes it from
            the first input.
        out_channels: number of output features.
        metadata: the node types and the edge types (source, relation, destination).
        heads: number of heads, h, each with c = out_channels / h channels.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** for every node type x [n, d]; for every edge type pairs (2, e), an adjacency
          [n, m] or a :class:`gattn.Graph`
        - **output:** [n, out_channels] for every node type that is a destination; a node without
          edges gets the bias of W, mixed with x by the skip connection

    Raises:
        TypeError: if the edges have an unsupported type, or the dtype of a term differs.
        ValueError: if heads does not divide out_channels, a shape is wrong, or an index is out of
            range.
        RuntimeError: by torch, if x has another width or dtype than the layer.

    Reference:
        Hu et al., "Heterogeneous graph transformer" (WWW 2020).

    Example:
        >>> import torch
        >>> from gattn.nn import HGTConv
        >>> writes, written = ("author", "writes", "paper"), ("paper", "by", "author")
        >>> conv = HGTConv(8, 16, (["author", "paper"], [writes, written]), heads=2)
        >>> x = {"author": torch.randn(2, 8), "paper": torch.randn(3, 8)}
        >>> pairs = torch.tensor([[0, 1, 1], [0, 1, 2]])
        >>> out = conv(x, {writes: pairs, written: pairs.flip(0)})
        >>> {key: value.shape for key, value in out.items()}
        {'author': torch.Size([2, 16]), 'paper': torch.Size([3, 16])}
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        check_heads_divide(arguments["heads"], out_channels=arguments["out_channels"])

    def forward(
        self,
        x_dict: dict[NodeType, Tensor],
        edge_index_dict: dict[EdgeType, Adj | Graph],
        *,
        edge_weight: dict[EdgeType, Tensor] | None = None,
        attn_bias: dict[EdgeType, Tensor] | None = None,
    ) -> dict[NodeType, Tensor]:
        """Compute the attention along the edges of all types. The first call of a layer with the
        width -1 creates its weights. The attention weights are passed to the active recordings.

        Args:
            x_dict: node features by node type, see Shapes.
            edge_index_dict: edges by edge type, see Shapes.
            edge_weight: [e] by edge type, multiplies the message of each edge.
            attn_bias: [e] or [e, h] by edge type, added to the scores; -inf removes an edge.

        Returns:
            The new features of every node type that is a destination.

        Raises:
            ValueError: if an edge type is not one of the layer's, no destination type has features,
                a term has a wrong shape, or an index is out of range.
            TypeError: if the edges have an unsupported type, or the dtypes of the terms differ.
            KeyError: if the features of a node type of the edges are missing.
            RuntimeError: under torch.jit.trace, if attention weights are recorded and the layer
                computes edge by edge without them, or by torch if x has another width or dtype than
                the layer.
        """
        for key in edge_index_dict:
            if key not in self.edge_types_map:
                edge_types = list(self.edge_types_map)
                raise ValueError(
                    f"edge_index_dict must contain edge types of {edge_types}; got {key}"
                )
        kqv = {
            key: y.unflatten(-1, (3, self.heads, -1)).unbind(1)
            for key, y in self.kqv_lin(x_dict).items()
        }
        destinations = [key for key in kqv if key in self.dst_node_types]
        sizes = [x_dict[key].shape[0] for key in destinations]
        offsets = {key: sum(sizes[:i]) for i, key in enumerate(destinations)}
        query = torch.cat([kqv[key][1] for key in destinations])
        graphs = {
            key: read_edges(edges, None, x_dict[key[0]], x_dict[key[-1]])[0]
            for key, edges in edge_index_dict.items()
        }
        joined = join_graphs(
            list(graphs.values()), [offsets[key[-1]] for key in graphs], query.shape[0], query
        )
        parts = read_typed_terms(edge_index_dict, graphs, query, edge_weight, attn_bias, self.heads)
        terms = join_terms(list(parts.values()), list(graphs.values()), self.heads, query)
        attend = self._attend if self.fused else self._attend_edge_by_edge
        out = attend(query, kqv, graphs, joined, terms).flatten(1).split(sizes)
        out_dict = self.out_lin({key: F.gelu(y) for key, y in zip(destinations, out)})
        return {key: self._skip(key, out_dict[key], x_dict[key]) for key in destinations}

    def _attend(
        self,
        query: Tensor,
        kqv: _Projected,
        graphs: dict[EdgeType, Graph],
        joined: Graph,
        terms: EdgeTerms,
    ) -> Tensor:
        """Compute the attention along all relations by one operator, and record its weights by
        relation: [n, h, c] for the n destinations of all types. ``query`` is [n, h, c], and ``kqv``
        has the key, query and value of each node type, [nodes, h, c]. ``joined`` contains the edges
        of all ``graphs``, one graph after the other; its sources are numbered in the same way.
        """
        # The factor mu_r of a relation r scales its key matrix K_r instead of the scores of all
        # edges, because mu_r (q . K_r k) = q . (mu_r K_r) k.
        scaled = {key: self.p_rel["__".join(key)].view(-1, 1, 1) for key in graphs}
        key = self._apply_relations(
            self.k_rel, query, {key: kqv[key[0]][0] for key in graphs}, scaled
        )
        value = self._apply_relations(self.v_rel, query, {key: kqv[key[0]][2] for key in graphs})
        score, needs_weights = dot_product_score(query, key), is_recording()
        out, weights = attend_unrecorded(score, value, joined, terms, 0.0, needs_weights)
        if weights is not None:
            parts = weights.split([graph.num_edges for graph in graphs.values()])
            for (edge_type, graph), part in zip(graphs.items(), parts):
                record(part, graph, edge_type)
        return out

    def _attend_edge_by_edge(
        self,
        query: Tensor,
        kqv: _Projected,
        graphs: dict[EdgeType, Graph],
        joined: Graph,
        terms: EdgeTerms,
    ) -> Tensor:
        """Compute the attention of all relations by PyG's message passing, with a message for each
        edge: [n, h * c] for the n destinations of all types. Raises RuntimeError if attention
        weights are recorded, and ValueError if a subclass overrides the method that reads one of
        the ``terms``.
        """
        self.record_edge_by_edge(None, joined)
        key = self._apply_relations(self.k_rel, query, {key: kqv[key[0]][0] for key in graphs})
        value = self._apply_relations(self.v_rel, query, {key: kqv[key[0]][2] for key in graphs})
        scale = [
            self.p_rel["__".join(key)].expand(graph.num_edges, -1) for key, graph in graphs.items()
        ]
        edge_attr = torch.cat([query.new_empty(0, self.heads), *scale])
        # propagate_type: (k: Tensor, q: Tensor, v: Tensor, edge_attr: Tensor)
        with self.bind_terms(terms):
            return self.propagate(joined.edge_index, k=key, q=query, v=value, edge_attr=edge_attr)

    def message(
        self,
        k_j: Tensor,
        q_i: Tensor,
        v_j: Tensor,
        edge_attr: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the values of the source nodes, [e, h * c], multiplied by the attention weights.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        keys, queries and values of the ends are [e, h, c], ``edge_attr`` [e, h] contains the
        factors mu of the scores, and ``index`` [e] is the destination.
        """
        score = (q_i * k_j).sum(-1) * edge_attr / math.sqrt(q_i.shape[-1])
        alpha = self.softmax(score, index, ptr, size_i)
        return (v_j * alpha.unsqueeze(-1)).flatten(1)

    def _apply_relations(
        self,
        linear: HeteroLinear,
        like: Tensor,
        rows: dict[EdgeType, Tensor],
        scale: dict[EdgeType, Tensor] | None = None,
    ) -> Tensor:
        """Multiply the source rows of each edge type by the type's matrices, one for each head.

        Args:
            linear: the matrices of all heads and edge types.
            like: a tensor [n, h, c] of the result's width, dtype and device.
            rows: keys or values [m, h, c] of the sources, by edge type.
            scale: factor of the matrices of each edge type, [h, 1, 1], or None.

        Returns:
            The products of all edge types, one type after the other, [sum of m, h, c].
        """
        if type(linear) is not HeteroLinear or linear.bias is not None or not is_untouched(linear):
            return self._call(linear, like, rows, scale)
        weight = linear.weight.unflatten(0, (self.heads, -1))
        products = [like.new_empty(0, *like.shape[1:])]
        for key, x in rows.items():
            matrix = weight[:, self.edge_types_map[key]]
            matrix = matrix if scale is None else matrix * scale[key]
            products.append(torch.einsum("nhc,hcd->nhd", x, matrix.to(x.dtype)))
        return torch.cat(products)

    def _call(
        self,
        linear: HeteroLinear,
        like: Tensor,
        rows: dict[EdgeType, Tensor],
        scale: dict[EdgeType, Tensor] | None,
    ) -> Tensor:
        """Return the result of :meth:`_apply_relations` by calling the module, because it may do
        more than multiply.

        The module gets its rows sorted by head and edge type, as PyG's layer passes them.
        """
        order = sorted(rows, key=lambda key: self.edge_types_map[key])
        counts = [rows[key].shape[0] for key in order]
        types = torch.tensor([self.edge_types_map[key] for key in order], dtype=torch.int64)
        row_type = types.repeat_interleave(torch.tensor(counts, dtype=torch.int64))
        head_offset = len(self.edge_types) * torch.arange(self.heads, device=like.device)
        index = (head_offset[:, None] + row_type.to(like.device)).flatten()
        x = torch.cat([like.new_empty(0, *like.shape[1:]), *(rows[key] for key in order)])
        mapped = linear(x.transpose(0, 1).flatten(0, 1), index)
        parts = mapped.unflatten(0, (self.heads, -1)).transpose(0, 1).split(counts)
        products = dict(zip(order, parts))
        if scale is not None:
            products = {key: y * scale[key].view(-1, 1) for key, y in products.items()}
        return torch.cat([x[:0], *(products[key] for key in rows)])

    def _skip(self, key: NodeType, out: Tensor, x: Tensor) -> Tensor:
        """Return the gated mixture of ``out`` [n, out_channels] and ``x`` [n, d] if their widths
        are equal, otherwise return ``out``.
        """
        if out.shape[-1] != x.shape[-1]:
            return out
        alpha = self.skip[key].sigmoid().to(out.dtype)
        return x.to(out.dtype).lerp(out, alpha)
