"""The layer RGATConv: attention along edges of several relations, each with its own projection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor, Size

from gattn.functional import aggregate, edge_dot, edge_softmax
from gattn.graph import Graph
from gattn.kernels.precision import infinite_as_nan
from gattn.nn.common.checks import check_at_least, shape_of_rows
from gattn.nn.common.edge_inputs import edge_rows, edge_sum, read_edges, sparse_values, with_weights
from gattn.nn.common.edge_terms import EdgeTerms, read_terms
from gattn.nn.common.features import (
    add_bias,
    as_columns,
    features_and_weight,
)
from gattn.nn.common.recording import is_recording, record
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.typed import TypedGraph, checked_types, project_pairs, typed_graph

MECHANISMS = ("within-relation", "across-relation")
MODES = ("additive-self-attention", "multiplicative-self-attention")
MODS = ("additive", "scaled", "f-additive", "f-scaled")
_COUNTS = ("in_channels", "edge_dim", "num_relations")


class RGATConv(pyg.RGATConv, AttentionConv):
    r"""Relational graph attention layer, for edges of several relations (types).

    .. math::
        x'_i = b + \Big\Vert_h \sum_{r} \sum_{j \in N_r(i)} \alpha_{ij} W_r x_j, \qquad
        \alpha_{ij} = \mathrm{softmax}\, s(q W_r x_i, k W_r x_j, e W_e a_{ij})

    The score s is the LeakyReLU of the sum of its arguments (``"additive-self-attention"``) or
    their product (``"multiplicative-self-attention"``). The softmax runs over all edges into i
    (``"across-relation"``) or over the edges of one relation (``"within-relation"``). Has the
    arguments and the parameters of ``torch_geometric.nn.RGATConv`` and returns the same outputs. A
    node is projected once for each relation of its outgoing edges, not once per edge.

    Args:
        in_channels: number of node features, d.
        out_channels: channels per head, c.
        num_relations: number of relations, r.
        num_bases: number of basis matrices; each W_r is a linear combination of them.
        num_blocks: number of blocks of block-diagonal W_r.
        mod: cardinality preservation, which makes the sum depend on the number of neighbours:
            ``"additive"``, ``"scaled"``, ``"f-additive"``, ``"f-scaled"``, or None (no
            modification). ``"f-additive"`` adds one to each weight above zero, but not to a weight
            that underflows to zero. In the kernels this is a weight below the smallest normal
            number (e^-708 in fp64), in PyG one below the smallest subnormal number (e^-745).
        attention_mechanism: ``"across-relation"`` or ``"within-relation"``.
        attention_mode: ``"additive-self-attention"`` or ``"multiplicative-self-attention"``.
        heads: number of heads, h.
        dim: number of scores per head; more than 1 in the multiplicative mode only.
        concat: whether the heads are concatenated; else they are averaged.
        negative_slope: slope of the LeakyReLU for negative inputs.
        dropout: dropout probability of the attention weights in training; 0 if mod is set.
        edge_dim: number of edge features; None for a layer without edge features. Without
            edge_attr in forward, the score has no edge term, as in PyG.
        bias: whether a learned bias is added to the output.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d]; edges as pairs (2, e), an adjacency [n, n] (its values are the
          relations) or a :class:`gattn.Graph`; edge types [e] in [0, num_relations); edge
          features [e, edge_dim] or [e]
        - **output:** [n, h * c] or, in the multiplicative mode, [n, h * dim * c]; without the
          factor h if ``concat=False``; the bias for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtype of a term differs.
        ValueError: for a wrong shape or option, or an index or type out of range.
        RuntimeError: by torch, if x or edge_attr has another width or dtype than the layer.

    Reference:
        Busbridge et al., "Relational graph attention networks" (2019); Zhang and Xie, "Improving
        attention mechanism in graph neural networks via cardinality preservation" (IJCAI 2020).

    Example:
        >>> import torch
        >>> from gattn.nn import RGATConv
        >>> edge_index, edge_type = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.tensor([0, 1, 0])
        >>> RGATConv(16, 8, num_relations=2)(torch.randn(3, 16), edge_index, edge_type).shape
        torch.Size([3, 8])
    """

    _alpha: OptTensor

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for an unknown mechanism, mode or mod, for sizes out of range, and for
        settings that exclude each other.
        """
        check_at_least(0, **{name: arguments[name] for name in _COUNTS})
        check_at_least(1, **{name: arguments[name] for name in ("dim", "num_bases", "num_blocks")})
        settings = SimpleNamespace(**arguments)
        for name, choices in (("attention_mechanism", MECHANISMS), ("attention_mode", MODES)):
            if arguments[name] not in choices:
                raise ValueError(f"{name} must be one of {choices}; got {arguments[name]!r}")
        if settings.attention_mode == "additive-self-attention" and settings.dim > 1:
            raise ValueError(
                f"dim must be 1 in the mode {settings.attention_mode!r}; got {settings.dim}"
            )
        if settings.mod is not None and settings.mod not in MODS:
            raise ValueError(f"mod must be None or one of {MODS}; got {settings.mod!r}")
        if settings.dropout > 0 and settings.mod is not None:
            raise ValueError(f"dropout must be 0 if mod is set; got {settings.dropout}")
        if settings.num_bases is not None and settings.num_blocks is not None:
            raise ValueError("num_bases and num_blocks must not both be set; got both")
        width, blocks = settings.heads * settings.out_channels, settings.num_blocks
        if blocks is not None and (settings.in_channels % blocks or width % blocks):
            raise ValueError(
                f"num_blocks must divide in_channels ({settings.in_channels}) and heads * "
                f"out_channels ({width}); got {blocks}"
            )

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        super().reset_parameters()
        # PyG's layer leaves this parameter uninitialised.
        torch.nn.init.constant_(self.l2, 1 / self.out_channels)

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        edge_type: OptTensor = None,
        edge_attr: OptTensor = None,
        size: Size = None,
        return_attention_weights: bool | None = None,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Any:
        """Compute the attention along the edges of all relations, in training with dropout. The
        attention weights are passed to the active recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_type: the relation of each edge, see Shapes.
            edge_attr: edge features, see Shapes.
            size: (n, n), the number of nodes twice, as PyG's layer takes it; optional.
            return_attention_weights: True or False returns the attention weights, too, as in PyG;
                None returns the features alone.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e] or [e, h * dim], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features. With ``return_attention_weights``, ``(out, (edge_index, alpha))``
            with the attention weights alpha [e, h * dim] before dropout and mod, in the order of
            the caller's edges or of the entries of a sparse adjacency. For a SparseTensor,
            ``(out, adj_t)`` with alpha as its values.

        Raises:
            ValueError: if an input has another number of rows or dimensions, an index is out of
                range, edge_type is missing or out of range, or edge_attr is passed to a layer
                without edge_dim.
            TypeError: if edge_type does not contain integers, the edges have an unsupported type,
                or the dtype of a term differs.
            RuntimeError: under torch.jit.trace, or by torch if x or edge_attr has another width or
                dtype than the layer.
        """
        if x.dim() != 2:
            raise ValueError(
                f"x must have shape {shape_of_rows(self.in_channels)}; got {tuple(x.shape)}"
            )
        if edge_type is None:
            edge_type = sparse_values(edge_index, torch.int64)
        if edge_type is None:
            raise ValueError("edge_type is required unless edges are a sparse adjacency; got None")
        graph, edge_attr = read_edges(edge_index, edge_attr, x, x, size)
        edge_type = edge_rows(edge_index, edge_type, "edge_type", 1)
        terms = read_terms(
            edge_index, graph, x, edge_weight, attn_bias, heads=self.heads * self.dim
        )
        attend = self._attend if self.fused else self._attend_edge_by_edge
        out, alpha = attend(x, edge_type, edge_attr, graph, terms)
        if is_recording() and alpha is not None:
            record(alpha, graph)
        if alpha is None or not isinstance(return_attention_weights, bool):
            return out
        return out, with_weights(edge_index, graph, alpha, x)

    def _attend(
        self, x: Tensor, edge_type: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of the nodes x [n, d] and the attention weights [e, h * dim], given
        the relation [e] and the features [e, edge_dim] of each edge; projections are computed once
        for each pair of a node and a relation. The outputs are computed after dropout. Raises
        TypeError or ValueError for invalid edge types, and ValueError for edge features without
        edge_dim.
        """
        typed = typed_graph(graph, edge_type, self.num_relations)
        weight = self._weight()
        value = project_pairs(x, weight, typed.sources)
        if typed.destinations is typed.sources:
            query = value @ self.q
        else:
            # The small matrices W_r q need less time than the projections W_r x_i of other pairs.
            vectors = weight @ self.q.unflatten(0, (weight.shape[1], -1))
            query = project_pairs(x, vectors.flatten(1, 2).unsqueeze(1), typed.destinations)
        score = terms.biased(self._score(query, value @ self.k, edge_attr, typed.between_pairs))
        within = self.attention_mechanism == "within-relation"
        alpha = edge_softmax(score, typed.between_pairs if within else typed.from_pairs)
        value = value.unflatten(-1, (self.heads, -1))
        out = self._sum(self._keep_cardinality(alpha), value, typed, graph, terms)
        return self.update(out), alpha

    def _weight(self) -> Tensor:
        """Return the b blocks of the matrices W_r of all relations, [r, b, d / b, h * c / b]."""
        if self.num_bases is not None:
            return torch.einsum("rb,bde->rde", self.att, self.basis).unsqueeze(1)
        return self.weight if self.num_blocks is not None else self.weight.unsqueeze(1)

    def _score(self, query: Tensor, key: Tensor, edge_attr: OptTensor, pairs: Graph) -> Tensor:
        """Return the score s of every edge, [e, h * dim]. ``query`` and ``key`` have one row [h *
        dim] for each pair of a node and a relation, and ``pairs`` connects these rows. Raises
        ValueError for edge features without edge_dim.
        """
        query, key = infinite_as_nan(query), infinite_as_nan(key)
        edge = None if edge_attr is None else self._edge_term(edge_attr)
        if self.attention_mode == "additive-self-attention":
            score = edge_sum(query, key, pairs)
            return F.leaky_relu(score if edge is None else score + edge, self.negative_slope)
        score = edge_dot(query.unsqueeze(-1), key.unsqueeze(-1), pairs)
        return score if edge is None else score * edge

    def _edge_term(self, edge_attr: Tensor) -> Tensor:
        """Return the edge terms e W_e a_ij of the score, [e, h * dim].

        The small matrix e W_e is formed first, so that W_e a_ij is not formed for all edges. Raises
        ValueError if the layer has no edge_dim.
        """
        if self.lin_edge is None or self.e is None:
            raise ValueError(f"{self} was created without edge_dim and takes no edge_attr")
        edge_attr = as_columns(edge_attr)
        if not self._is_readable("lin_edge"):
            return self.lin_edge(edge_attr) @ self.e
        columns, weight = features_and_weight(self.lin_edge, edge_attr)
        return infinite_as_nan(F.linear(columns, self.e.t() @ weight))

    def _keep_cardinality(self, alpha: Tensor) -> Tensor:
        """Apply the cardinality preservation ``mod`` to attention weights [e, h * dim]; if ``mod``
        is None, apply dropout.

        For the values "scaled", "f-scaled" and "additive" of ``mod``, a factor or a sum follows in
        ``_sum`` or ``_weighted_values``.
        """
        if self.mod == "f-additive":
            return torch.where(alpha > 0, alpha + 1, alpha)
        return F.dropout(alpha, self.dropout, self.training) if self.mod is None else alpha

    def _sum(
        self, weight: Tensor, value: Tensor, typed: TypedGraph, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Return the weighted sums of the values: [n, h, c], or [n, h, dim, c] in the
        multiplicative mode.
        """
        if self.dim > 1:
            # The operator aggregate repeats the h heads of the value, so the weights must have the
            # order (dim, h).
            weight = weight.unflatten(1, (self.heads, self.dim)).transpose(1, 2).flatten(1)
        out = aggregate(terms.weighted(weight), value, typed.from_pairs)
        if self.mod == "additive":
            plain = aggregate(terms.weighted(torch.ones_like(weight)), value, typed.from_pairs)
            out = out + self.w * plain
        elif self.mod in ("scaled", "f-scaled"):
            degree = graph.in_degree().to(out.dtype).view(-1, 1, 1)
            out = out * (self._scale(degree) if self.mod == "scaled" else degree)
        if self.attention_mode == "additive-self-attention":
            return out
        return out.unflatten(1, (self.dim, self.heads)).transpose(1, 2)

    def _scale(self, degree: Tensor) -> Tensor:
        return self.activation(degree * self.l1 + self.b1) @ self.l2 + self.b2

    def _attend_edge_by_edge(
        self, x: Tensor, edge_type: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> tuple[Tensor, OptTensor]:
        """Return the outputs of the nodes and the attention weights [e, h * dim], computed by PyG's
        message passing from the arguments of :meth:`_attend`; the weights are None if a replaced
        ``message`` does not store them. Raises TypeError or ValueError for invalid edge types, and
        ValueError if a subclass overrides the method that reads one of the ``terms``, or for edge
        features without edge_dim.
        """
        edge_type = checked_types("edge_type", edge_type, graph.num_edges, self.num_relations)
        # propagate_type: (x: Tensor, edge_type: OptTensor, edge_attr: OptTensor)
        with self.bind_terms(terms):
            out = self.propagate(graph.edge_index, x=x, edge_type=edge_type, edge_attr=edge_attr)
        alpha, self._alpha = self._alpha, None
        return out, alpha

    def message(
        self,
        x_i: Tensor,
        x_j: Tensor,
        edge_type: Tensor,
        edge_attr: OptTensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the values of the source nodes, [e, h, c] or, in the multiplicative mode,
        [e, h, dim, c], multiplied by the weights of the edges. The weights before dropout and mod
        are stored in the layer.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        features of both ends are [e, d], the relations [e] int64, and ``index`` [e] is the
        destination. Raises ValueError for edge features without edge_dim.
        """
        weight = self._weight()[edge_type]
        projected_i, value = (
            torch.einsum("ebd,ebdc->ebc", x.unflatten(1, weight.shape[1:3]), weight).flatten(1)
            for x in (x_i, x_j)
        )
        query, key = projected_i @ self.q, value @ self.k
        edge = None if edge_attr is None else self._edge_term(edge_attr)
        if self.attention_mode == "additive-self-attention":
            score = query + key if edge is None else query + key + edge
            score = F.leaky_relu(score, self.negative_slope)
        else:
            score = query * key if edge is None else query * key * edge
        if self.attention_mechanism == "within-relation":
            assert size_i is not None
            group = index * self.num_relations + edge_type
            alpha = self.softmax(score, group, size=size_i * self.num_relations)
        else:
            alpha = self.softmax(score, index, ptr, size_i)
        self._alpha = alpha
        return self._weighted_values(alpha, value, index, size_i)

    def update(self, aggr_out: Tensor) -> Tensor:
        """Concatenate or average the heads of [n, h, c] or [n, h, dim, c], and add the bias: [n,
        channels of the output].
        """
        out = aggr_out.flatten(1) if self.concat else aggr_out.mean(1).flatten(1)
        return add_bias(out, self.bias)

    def _weighted_values(
        self, alpha: Tensor, value: Tensor, index: Tensor, nodes: int | None
    ) -> Tensor:
        """Return the values [e, h * c] multiplied by the attention weights [e, h * dim] after
        dropout, after the cardinality preservation ``mod``: [e, h, c], or [e, h, dim, c] in the
        multiplicative mode. ``index`` [e] are the destinations, of which there are ``nodes``.
        """
        shape = (self.heads,) if self.attention_mode == MODES[0] else (self.heads, self.dim)
        value = value.unflatten(-1, (self.heads, *(1,) * (len(shape) - 1), -1))
        out = self._keep_cardinality(alpha).unflatten(1, shape).unsqueeze(-1) * value
        if self.mod == "additive":
            return out + self.w * value
        if self.mod in ("scaled", "f-scaled"):
            degree = torch.bincount(index, minlength=nodes or 0)[index].to(out.dtype)
            degree = degree.view(-1, *(1,) * (out.dim() - 1))
            return out * (self._scale(degree) if self.mod == "scaled" else degree)
        return out
