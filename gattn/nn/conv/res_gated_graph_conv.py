"""The layer ResGatedGraphConv: graph convolution with a gate for each edge and channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor, PairTensor

from gattn.functional import aggregate
from gattn.graph import Graph
from gattn.nn.common.checks import check_at_least, check_features, check_input, is_lazy
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import (
    add_bias,
    as_columns,
    as_heads,
    channel_pair,
    merge_heads,
    node_pair,
    project,
    skip,
)
from gattn.nn.common.recording import is_recording, record
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.row_wise import is_elementwise
from gattn.ops.custom_score.chunked import edgewise


class ResGatedGraphConv(pyg.ResGatedGraphConv, AttentionConv):
    r"""Residual gated graph convolution, with a gate for each edge and channel.

    .. math::
        x'_i = W_{\mathrm{skip}} x_i + b + \sum_{j \in N(i)}
        \sigma(W_k [x_i, e_{ij}] + W_q [x_j, e_{ij}]) \odot W_v [x_j, e_{ij}]

    Has the arguments and the parameters of ``torch_geometric.nn.ResGatedGraphConv`` and returns
    the same outputs. Nodes are projected once, not once per edge. Gates are computed for some
    thousand edges at a time and recomputed in backward, so no tensor of size edges x channels is
    stored.

    Args:
        in_channels: number of node features, d, or a pair (source, destination); -1 takes the
            number from the first input, without edge_dim only.
        out_channels: number of output features, c.
        act: activation function of the gate, applied to [e, c]. With an elementwise function or
            module of torch, such as ``torch.tanh``, the layer runs fused; with any other, edge by
            edge.
        edge_dim: number of edge features; None for a layer without edge features.
        root_weight: whether the skip connection is added.
        bias: whether a learned bias is added to the output.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite, or [b, n, d] for b sets of
          features on one set of edges; edges as pairs (2, e), an adjacency [n, m] or a
          :class:`gattn.Graph`; edge features [e, edge_dim] or [e]
        - **output:** [n, c]; [b, n, c] with a batch; a node without edges gets the skip connection
          and the bias

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
        ValueError: for a wrong shape, an index out of range, edge features without edge_dim, or
            edge_dim without edge features.

    Reference:
        Bresson and Laurent, "Residual gated graph convnets" (2017).

    Example:
        >>> import torch
        >>> from gattn.nn import ResGatedGraphConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> ResGatedGraphConv(16, 8)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    act: Callable[[Tensor], Tensor]

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for a negative edge_dim, and for lazy widths of nodes with edge_dim."""
        check_at_least(0, edge_dim=arguments["edge_dim"])
        if arguments["edge_dim"] is not None:
            source, destination = channel_pair(arguments["in_channels"])
            check_at_least(0, **{"in_channels with edge_dim": min(source, destination)})

    def _slow_setting(self) -> str:
        """Return the reason why the activation prevents fused operators; "" if it does not."""
        if is_elementwise(self.act):
            return ""
        return f"its act, {self.act}, is not known to be elementwise"

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        return () if self.edge_dim is None else ("lin_key", "lin_query", "lin_value")

    def forward(
        self,
        x: Tensor | PairTensor,
        edge_index: Adj | Graph,
        edge_attr: OptTensor = None,
        *,
        edge_weight: OptTensor = None,
    ) -> Tensor:
        """Sum the gated values of the neighbours. The first call of a layer with the width -1
        creates its weights. The attention weights are passed to the active recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            edge_weight: [e], multiplies the message of each edge.

        Returns:
            The new node features.

        Raises:
            TypeError: if the edges have an unsupported type, or the dtypes differ.
            ValueError: for a wrong shape, an index out of range, edge features without edge_dim, or
                edge_dim without edge features.
            RuntimeError: under torch.jit.trace, or if attention weights are recorded and the layer
                computes edge by edge without them.

        Warns:
            UserWarning: torch finds no compiler, or cannot compile the function of the edges of a
                large graph, which then runs uncompiled.
        """
        x_src, x_dst = node_pair(x)
        graph, edge_attr = read_edges(edge_index, edge_attr, x_src, x_dst)
        edge_attr = self._checked(edge_attr)
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, None)
        self._initialise_lazy_maps(x_src, x_dst)
        sum_values = self._sum if self.fused else self._sum_edge_by_edge
        out = merge_heads(sum_values(x_src, x_dst, edge_attr, graph, terms), 1, x_src, concat=True)
        residual = None if self.lin_skip is None else skip(self.lin_skip, x_dst)
        return add_bias(out, self.bias, residual)

    def _initialise_lazy_maps(self, x_src: Tensor, x_dst: Tensor) -> None:
        """Create the weights of lazy linear layers, with the widths of the node features; torch's
        generator draws them.
        """
        for linear, x in (
            (self.lin_key, x_dst),
            (self.lin_query, x_src),
            (self.lin_value, x_src),
            (self.lin_skip, x_dst),
        ):
            if linear is not None and is_lazy(linear):
                linear(x[:0])

    def _sum(
        self, x_src: Tensor, x_dst: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Return the sums of the gated values: [n, 1, c], or [n, b, c] for b sets of features, from
        x [n, d] or [n, b, d] and edge features [e, edge_dim]. The gates are passed to the active
        recordings. Raises the errors of :meth:`_project_nodes` and of :func:`edgewise`.
        """
        key, query, value = (
            as_heads(self._project_nodes(linear, x))
            for linear, x in (
                (self.lin_key, x_dst),
                (self.lin_query, x_src),
                (self.lin_value, x_src),
            )
        )
        graph, (query, value) = graph.fetch_source_rows(query, value)
        weight = terms.weighted(value.new_ones(graph.num_edges, value.shape[1]))
        if torch.compiler.is_compiling():
            source, destination = graph.edge_index
            messages = self._messages(key[destination], edge_attr, (query[source], value[source]))
            return aggregate(weight, messages, graph.incidence())
        ends = ("destination", key), ("edge", edge_attr)
        if is_recording():
            gates = edgewise(self._gates, graph, *ends, ("source", query))
            record(gates.flatten(1), graph)
        ends = *ends, ("source", (query, value))
        return edgewise(self._messages, graph, *ends, weight=("edge", weight))

    def _gates(self, key: Tensor, edge_attr: OptTensor, query: Tensor) -> Tensor:
        """Return the gates act(k_i + q_j + (W_k + W_q) a_ij) of a batch of b edges, [b, 1, c], like
        k and q; ``edge_attr`` is [b, edge_dim].
        """
        score = key + query
        if edge_attr is not None:
            edge_weight = self._edge_columns(self.lin_key) + self._edge_columns(self.lin_query)
            score = score + F.linear(edge_attr, edge_weight).unsqueeze(1)
        return self.act(score)

    def _messages(self, key: Tensor, edge_attr: OptTensor, source: tuple[Tensor, Tensor]) -> Tensor:
        """Return the messages gate * (v_j + W_v a_ij) of a batch of b edges, [b, 1, c]. ``source``
        contains q_j and v_j, both of this shape like k_i; ``edge_attr`` is [b, edge_dim].
        """
        query, value = source
        gates = self._gates(key, edge_attr, query)
        if edge_attr is not None:
            value = value + F.linear(edge_attr, self._edge_columns(self.lin_value)).unsqueeze(1)
        return gates * value

    def _edge_columns(self, linear: Linear) -> Tensor:
        """Return the columns of a weight that multiply edge features, [c, edge_dim]."""
        return linear.weight[:, linear.weight.shape[1] - cast(int, self.edge_dim) :]

    def _project_nodes(self, linear: Linear, x: Tensor) -> Tensor:
        """Multiply node features by those columns of a weight that belong to them, and add the
        bias: [n, d] to [n, c], or [n, b, d] to [n, b, c]. Raises ValueError or TypeError if x has a
        wrong width or dtype, and RuntimeError under torch.jit.trace.
        """
        if self.edge_dim is None:
            return project(linear, x)
        check_features("x", x, linear.weight.shape[1] - self.edge_dim, linear.weight)
        return project(lambda x: F.linear(x, linear.weight[:, : x.shape[-1]], linear.bias), x)

    def _sum_edge_by_edge(
        self, x_src: Tensor, x_dst: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Return the gated sums of the values, [n, 1, c], computed by PyG's message passing from
        the arguments of :meth:`_sum`. Without ``edge_dim``, the nodes are projected before their
        rows are fetched for the edges. Raises RuntimeError if weights are recorded, and ValueError
        if a subclass overrides the method that reads one of the ``terms``.
        """
        self.record_edge_by_edge(None, graph)
        key, query, value = x_dst, x_src, x_src
        if self.edge_dim is None:
            key, query, value = self.lin_key(key), self.lin_query(query), self.lin_value(value)
        graph, (query, value) = graph.fetch_source_rows(query, value)
        # propagate_type: (k: Tensor, q: Tensor, v: Tensor, edge_attr: OptTensor)
        with self.bind_terms(terms):
            return as_heads(
                self.propagate(graph.edge_index, k=key, q=query, v=value, edge_attr=edge_attr)
            )

    def message(self, k_i: Tensor, q_j: Tensor, v_j: Tensor, edge_attr: OptTensor) -> Tensor:
        """Return the values of the source nodes, [e, c], multiplied by their gates.

        PyG calls this method if the layer computes edge by edge instead of with the kernels.
        Without edge features, k, q and v of the ends are projected, [e, c]; otherwise they are the
        node features [e, d].
        """
        if edge_attr is not None:
            if k_i.dim() == 3:
                edge_attr = edge_attr.unsqueeze(1).expand(-1, k_i.shape[1], -1)
            k_i = self.lin_key(torch.cat([k_i, edge_attr], dim=-1))
            q_j = self.lin_query(torch.cat([q_j, edge_attr], dim=-1))
            v_j = self.lin_value(torch.cat([v_j, edge_attr], dim=-1))
        return self.act(k_i + q_j) * v_j

    def _checked(self, edge_attr: OptTensor) -> OptTensor:
        """Check the edge features; return them as [e, edge_dim], or None without edge_dim. Raises
        ValueError if they are missing, not expected, or have a wrong width, and TypeError for a
        wrong dtype, and RuntimeError under torch.jit.trace.
        """
        if (edge_attr is None) != (self.edge_dim is None):
            expected = "takes no" if self.edge_dim is None else "needs"
            raise ValueError(
                f"{self} was created with edge_dim={self.edge_dim} and {expected} edge_attr"
            )
        if edge_attr is None or self.edge_dim is None:
            return None
        edge_attr = as_columns(edge_attr)
        check_input("edge_attr", edge_attr, self.edge_dim, self.lin_key)
        return edge_attr
