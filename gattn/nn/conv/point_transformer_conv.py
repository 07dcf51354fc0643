"""PointTransformerConv: attention between points, with a weight for each channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset
from torch_geometric.typing import Adj, OptTensor, PairTensor

from gattn.functional import aggregate, edge_softmax
from gattn.graph import Graph
from gattn.kernels.precision import acc_dtype
from gattn.nn.common.checks import check_features, check_tensor, shape_of_rows
from gattn.nn.common.edge_inputs import edge_sum, read_edges
from gattn.nn.common.edge_terms import EdgeTerms
from gattn.nn.common.features import channel_pair, infinite_as_nan, is_plain, project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.scores import GATScore, attend_with_score
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.row_wise import why_not_row_wise
from gattn.ops.custom_score.chunked import edgewise

Network = Callable[[Tensor], Tensor]


class PointTransformerConv(AttentionConv):
    r"""Attention between points, with a weight for each channel of each edge.

    .. math::
        x'_i = \sum_{j \in N(i)} \alpha_{ij} \odot (W x_j + \delta_{ij}), \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}\,
        \gamma(W_{\mathrm{dst}} x_i - W_{\mathrm{src}} x_j + \delta_{ij}), \qquad
        \delta_{ij} = h(p_i - p_j)

    Takes the arguments and the parameters of ``torch_geometric.nn.PointTransformerConv`` and gives
    its outputs. Without ``attn_nn``, and with a linear map for ``pos_nn``, score and value split
    into a part of each end: nothing of the size of the edges is formed. With networks, these run
    some thousand edges at a time, in backward again; the scores [e, c] are stored. A network that
    may look at more than one edge, such as a batch normalisation in training, is given all edges
    at once, as PyG gives them: :attr:`slow_path_reason` tells.

    Args:
        in_channels: features of a point, d, or a pair (source, destination); -1 takes it from the
            first input.
        out_channels: features of the result, c.
        pos_nn: h, from [b, 3] to [b, c]; None for a linear map.
        attn_nn: gamma, from [b, c] to [b, c]; None for none.
        add_self_loops: whether each point attends to itself, too.
        **kwargs: of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite; positions [n, 3], or
          ([m, 3], [n, 3]); edges as pairs (2, e), an adjacency [n, m] or a :class:`gattn.Graph`
        - **output:** [n, c]; zeros for a point without edges

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a wrong shape or an index out of range.

    Reference:
        Zhao et al., "Point transformer" (ICCV 2021).

    Example:
        >>> import torch
        >>> from gattn.nn import PointTransformerConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> PointTransformerConv(16, 8)(torch.randn(3, 16), torch.randn(3, 3), edge_index).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        pos_nn: Network | None = None,
        attn_nn: Network | None = None,
        add_self_loops: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kwargs, in_channels=in_channels, out_channels=out_channels,
            add_self_loops=add_self_loops,
        )  # fmt: skip
        source, destination = channel_pair(in_channels)
        self.pos_nn = Linear(3, out_channels) if pos_nn is None else pos_nn
        self.attn_nn = attn_nn
        self.lin = Linear(source, out_channels, bias=False)
        self.lin_src = Linear(source, out_channels, bias=False)
        self.lin_dst = Linear(destination, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        super().reset_parameters()
        reset(self.pos_nn)
        if self.attn_nn is not None:
            reset(self.attn_nn)
        for linear in (self.lin, self.lin_src, self.lin_dst):
            linear.reset_parameters()

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        return ()

    def _slow_setting(self) -> str:
        """Which network may look at more than one edge, in words."""
        if torch.compiler.is_compiling():  # then they are given all edges anyway
            return ""
        networks = {"pos_nn": self.pos_nn, "attn_nn": self.attn_nn}
        reasons = {
            name: why_not_row_wise(network)
            for name, network in networks.items()
            if network is not None
        }
        in_words = (f"{name}: {reason}" for name, reason in reasons.items() if reason)
        return next(in_words, "")

    def forward(
        self,
        x: Tensor | PairTensor,
        pos: Tensor | PairTensor,
        edge_index: Adj | Graph,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Attend along the edges.

        Args:
            x: features of the points, see Shapes.
            pos: positions of the points, see Shapes.
            edge_index: the edges, see Shapes.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e], is added to the scores of each edge; -inf drops it.

        Returns:
            The new features.
        """
        x_src, x_dst = _pair("x", x, self.in_channels)
        at = _pair("pos", pos, 3)
        for end, (rows, of) in zip(("source", "destination"), zip(at, (x_src, x_dst))):
            if rows.shape[0] != of.shape[0]:
                raise ValueError(
                    f"pos must have {of.shape[0]} rows, as x of the {end}; got {rows.shape[0]}"
                )
        graph, _ = read_edges(edge_index, None, x_src, x_dst, self_loops=self.add_self_loops)
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        key, query = project(self.lin_src, x_src), project(self.lin_dst, x_dst)
        value = project(self.lin, x_src)
        graph, (key, value, at_src) = graph.fetch_source_rows(key, value, at[0])
        how = self._sum_edge_by_edge
        if self.fused:
            is_linear = self.attn_nn is None and is_plain(self.pos_nn)
            how = self._sum_of_nodes if is_linear else self._sum_of_edges
        return how(query, key, value, (at_src, at[1]), graph, terms)

    def _sum_of_nodes(
        self, query: Tensor, key: Tensor, value: Tensor, at: PairTensor, graph: Graph,
        terms: EdgeTerms,
    ) -> Tensor:  # fmt: skip
        """With delta_ij = d_i - d_j: a head for each channel, of the nodes' own scores."""
        from_dst, from_src = self._offsets(*at, value)
        of_dst, of_src = infinite_as_nan(query + from_dst), infinite_as_nan(-(key + from_src))
        score = GATScore(of_dst, of_src, negative_slope=1.0)
        pair = torch.stack([value - from_src, torch.ones_like(from_src)], dim=-1)
        out, mass = attend_with_score(score, pair, graph, terms=terms)[0].unbind(-1)
        return (out + mass * from_dst).to(value.dtype)

    def _offsets(self, at_src: Tensor, at_dst: Tensor, like: Tensor) -> PairTensor:
        """d_i and d_j, whose difference is delta_ij: from the middle, lest digits cancel."""
        linear = cast(Linear, self.pos_nn)
        weight, bias = linear.weight, linear.bias
        for rows in (at_src, at_dst):
            check_features("pos", rows, weight.shape[1], weight)
        wide = acc_dtype(like.dtype)
        middle = at_src.detach().to(wide).nanmean(0).nan_to_num(0.0, 0.0, 0.0)
        with torch.autocast(like.device.type, enabled=False):
            of_src = F.linear(at_src.to(wide) - middle, weight.to(wide))
            of_dst = F.linear(
                at_dst.to(wide) - middle, weight.to(wide), None if bias is None else bias.to(wide)
            )
        return of_dst, of_src

    def _sum_of_edges(
        self, query: Tensor, key: Tensor, value: Tensor, at: PairTensor, graph: Graph,
        terms: EdgeTerms,
    ) -> Tensor:  # fmt: skip
        """With networks on the edges, chunk by chunk."""
        apart = edge_sum(at[1], -at[0], graph)
        ends = ("destination", query), ("source", key), ("edge", apart)
        parts = _Networks(self.pos_nn, self.attn_nn)
        if torch.compiler.is_compiling():  # which takes no module that is made on the way
            source, destination = graph.edge_index
            offset = self.pos_nn(apart)
            alpha = edge_softmax(
                terms.biased(_scores(query[destination], key[source], offset, self.attn_nn)), graph
            )
            built = (value[source] + offset).unsqueeze(-1)
            return aggregate(terms.weighted(alpha), built, graph.incidence()).squeeze(-1)
        alpha = edge_softmax(terms.biased(edgewise(parts.scores, graph, *ends)), graph)
        if is_recording():
            record(alpha, graph)
        ends = ("source", value), ("edge", apart)
        return edgewise(
            parts.messages, graph, *ends, weight=("edge", terms.weighted(alpha))
        ).squeeze(-1)

    def _sum_edge_by_edge(
        self, query: Tensor, key: Tensor, value: Tensor, at: PairTensor, graph: Graph,
        terms: EdgeTerms,
    ) -> Tensor:  # fmt: skip
        self.note_edge_by_edge(None, graph)
        # propagate_type: (query: Tensor, key: Tensor, value: Tensor, pos: PairTensor)
        with self.bind_terms(terms):
            return self.propagate(graph.edge_index, query=query, key=key, value=value, pos=at)

    def message(
        self,
        query_i: Tensor,
        key_j: Tensor,
        value_j: Tensor,
        pos_i: Tensor,
        pos_j: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Weighted values [e, c] of the edges: the edge-by-edge path."""
        offset = self.pos_nn(pos_i - pos_j)
        score = _scores(query_i, key_j, offset, self.attn_nn)
        return self.softmax(score, index, ptr, size_i) * (value_j + offset)


class _Networks(Module):
    """What a batch of edges brings, by the networks of a layer."""

    def __init__(self, pos_nn: Network, attn_nn: Network | None) -> None:
        super().__init__()
        self.pos_nn, self.attn_nn = pos_nn, attn_nn

    def scores(self, query: Tensor, key: Tensor, apart: Tensor) -> Tensor:
        """gamma(q_i - k_j + delta_ij), [b, c]."""
        return _scores(query, key, self.pos_nn(apart), self.attn_nn)

    def messages(self, value: Tensor, apart: Tensor) -> Tensor:
        """v_j + delta_ij, a head for each channel: [b, c, 1]."""
        return (value + self.pos_nn(apart)).unsqueeze(-1)


def _scores(query: Tensor, key: Tensor, offset: Tensor, attn_nn: Network | None) -> Tensor:
    score = query - key + offset
    return score if attn_nn is None else attn_nn(score)


def _pair(name: str, x: Tensor | PairTensor, channels: object) -> PairTensor:
    """Rows of the source and of the destination; one tensor serves as both."""
    pair = (x, x) if isinstance(x, Tensor) else tuple(x)
    if len(pair) != 2:
        raise ValueError(f"{name} must be a tensor or a pair; got {len(pair)} of them")
    for rows in pair:
        check_tensor(name, rows)
        if rows.dim() != 2:
            raise ValueError(
                f"{name} must have shape {shape_of_rows(channels)}; got {tuple(rows.shape)}"
            )
    return pair[0], pair[1]
