"""ResGatedGraphConv: a gate for each channel of each edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList, Parameter, Sigmoid
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import zeros
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
from gattn.nn.conv.row_wise import acts_by_number
from gattn.ops.custom_score.chunked import edgewise


class ResGatedGraphConv(AttentionConv):
    r"""Graph convolution with a gate for each channel of each edge.

    .. math::
        x'_i = W_{\mathrm{skip}} x_i + b + \sum_{j \in N(i)}
        \sigma(W_k [x_i, e_{ij}] + W_q [x_j, e_{ij}]) \odot W_v [x_j, e_{ij}]

    Takes the arguments and the parameters of ``torch_geometric.nn.ResGatedGraphConv`` and gives its
    outputs. Nodes are projected once, not once per edge, and gates are formed some thousand edges
    at a time, in backward again: no tensor of size edges x channels is stored.

    Args:
        in_channels: features of a node, d, or a pair (source, destination); -1 takes it from the
            first input.
        out_channels: features of the result, c.
        act: the gate, a function of [e, c]. A function or module of torch that acts on every number
            by itself, such as ``torch.tanh``, runs fused, any other edge by edge.
        edge_dim: features of an edge; None where there are none.
        root_weight: whether the skip is added.
        bias: whether a bias is added.
        **kwargs: of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite, or [b, n, d] for b sets of
          features on one set of edges; edges as pairs (2, e), an adjacency [n, m] or a
          :class:`gattn.Graph`; edge features [e, edge_dim] or [e]
        - **output:** [n, c]; [b, n, c] with a batch; for a node without edges the skip and the bias

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a wrong shape, an index out of range, or edge features without edge_dim or
            the reverse.

    Reference:
        Bresson and Laurent, "Residual gated graph convnets" (2017).

    Example:
        >>> import torch
        >>> from gattn.nn import ResGatedGraphConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> ResGatedGraphConv(16, 8)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        act: Callable[[Tensor], Tensor] = Sigmoid(),  # noqa: B008 - as PyG's, and stateless
        edge_dim: int | None = None,
        root_weight: bool = True,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kwargs, in_channels=in_channels, out_channels=out_channels, edge_dim=edge_dim
        )
        check_at_least(0, edge_dim=edge_dim)
        self.act = act
        self.root_weight = root_weight
        source, destination = channel_pair(in_channels)
        of_source, of_destination = (
            width if width == -1 else width + (edge_dim or 0) for width in (source, destination)
        )
        self.lin_key = Linear(of_destination, out_channels)
        self.lin_query = Linear(of_source, out_channels)
        self.lin_value = Linear(of_source, out_channels)
        self.lin_skip = Linear(destination, out_channels, bias=False) if root_weight else None
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        super().reset_parameters()
        for linear in (self.lin_key, self.lin_query, self.lin_value, self.lin_skip):
            if linear is not None:
                linear.reset_parameters()
        zeros(self.bias)

    def _slow_setting(self) -> str:
        if acts_by_number(self.act):
            return ""
        return f"its act, {self.act}, is not known to act on every number by itself"

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
        """Sum along the edges, through the gates.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            edge_weight: [e], multiplies the message of each edge.

        Returns:
            The new node features.
        """
        x_src, x_dst = node_pair(x)
        graph, edge_attr = read_edges(edge_index, edge_attr, x_src, x_dst)
        edge_attr = self._checked(edge_attr)
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, None)
        self._take_widths(x_src, x_dst)
        add_up = self._sum if self.fused else self._sum_edge_by_edge
        out = merge_heads(add_up(x_src, x_dst, edge_attr, graph, terms), 1, x_src, concat=True)
        residual = None if self.lin_skip is None else skip(self.lin_skip, x_dst)
        return add_bias(out, self.bias, residual)

    def _take_widths(self, x_src: Tensor, x_dst: Tensor) -> None:
        """Make the weights of maps that wait for the width of a node and an edge beside it."""
        for linear, x in (
            (self.lin_key, x_dst),
            (self.lin_query, x_src),
            (self.lin_value, x_src),
        ):
            if is_lazy(linear):
                linear(x.new_empty(0, x.shape[-1] + (self.edge_dim or 0)))

    def _sum(
        self, x_src: Tensor, x_dst: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """The sum of the gated values, [n, 1, c]; b heads for b sets of features."""
        key, query, value = (
            as_heads(self._of_nodes(linear, x))
            for linear, x in (
                (self.lin_key, x_dst),
                (self.lin_query, x_src),
                (self.lin_value, x_src),
            )
        )
        graph, (query, value) = graph.fetch_source_rows(query, value)
        weight = terms.weighted(value.new_ones(graph.num_edges, value.shape[1]))
        maps = None if self.edge_dim is None else (self.lin_key, self.lin_query, self.lin_value)
        message = _Message(self.act, maps, self.edge_dim or 0)
        if torch.compiler.is_compiling():  # which takes no module that is made on the way
            source, destination = graph.edge_index
            built = message(key[destination], edge_attr, (query[source], value[source]))
            return aggregate(weight, built, graph.incidence())
        ends = ("destination", key), ("edge", edge_attr)
        if is_recording():
            gates = edgewise(_Learned(message, message.gates), graph, *ends, ("source", query))
            record(gates.flatten(1), graph)
        ends = *ends, ("source", (query, value))
        return edgewise(_Learned(message, message), graph, *ends, weight=("edge", weight))

    def _of_nodes(self, linear: Linear, x: Tensor) -> Tensor:
        """The part of a map that reads the node, with its bias."""
        if self.edge_dim is None:
            return project(linear, x)
        check_features("x", x, linear.weight.shape[1] - self.edge_dim, linear.weight)
        return project(lambda x: F.linear(x, linear.weight[:, : x.shape[-1]], linear.bias), x)

    def _sum_edge_by_edge(
        self, x_src: Tensor, x_dst: Tensor, edge_attr: OptTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        self.note_edge_by_edge(None, graph)
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
        """Gated values [e, c] of the edges: the edge-by-edge path."""
        if edge_attr is not None:
            if k_i.dim() == 3:
                edge_attr = edge_attr.unsqueeze(1).expand(-1, k_i.shape[1], -1)
            k_i = self.lin_key(torch.cat([k_i, edge_attr], dim=-1))
            q_j = self.lin_query(torch.cat([q_j, edge_attr], dim=-1))
            v_j = self.lin_value(torch.cat([v_j, edge_attr], dim=-1))
        return self.act(k_i + q_j) * v_j

    def _checked(self, edge_attr: OptTensor) -> OptTensor:
        """Edge features [e, edge_dim], or none where the layer was made without."""
        if (edge_attr is None) != (self.edge_dim is None):
            expected = "takes no" if self.edge_dim is None else "needs"
            raise ValueError(
                f"{self} was made with edge_dim={self.edge_dim} and {expected} edge_attr"
            )
        if edge_attr is None or self.edge_dim is None:
            return None
        edge_attr = as_columns(edge_attr)
        check_input("edge_attr", edge_attr, self.edge_dim, self.lin_key)
        return edge_attr


class _Message(NamedTuple):
    """What a batch of edges brings, from the projected nodes at their ends, [b, 1, c]."""

    act: Callable[[Tensor], Tensor]
    maps: tuple[Linear, Linear, Linear] | None
    """W_k, W_q and W_v, whose last columns read the edge."""
    edge_dim: int

    def gates(self, key: Tensor, edge_attr: Tensor | None, query: Tensor) -> Tensor:
        """act(k_i + q_j + (W_k + W_q) a_ij)."""
        score = key + query
        if edge_attr is not None and self.maps is not None:
            to_gate = self._of_edge(self.maps[0]) + self._of_edge(self.maps[1])
            score = score + F.linear(edge_attr, to_gate).unsqueeze(1)
        return self.act(score)

    def __call__(
        self, key: Tensor, edge_attr: Tensor | None, source: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The gates times v_j + W_v a_ij."""
        query, value = source
        gates = self.gates(key, edge_attr, query)
        if edge_attr is not None and self.maps is not None:
            value = value + F.linear(edge_attr, self._of_edge(self.maps[2])).unsqueeze(1)
        return gates * value

    def _of_edge(self, linear: Linear) -> Tensor:
        """The part of a map that reads the edge."""
        return linear.weight[:, linear.weight.shape[1] - self.edge_dim :]


class _Learned(Module):
    """A function of edges, and what of it is learned."""

    def __init__(self, message: _Message, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.parts = ModuleList(message.maps or ())
        self.function = function

    def forward(self, *arguments: Any) -> Tensor:
        return self.function(*arguments)
