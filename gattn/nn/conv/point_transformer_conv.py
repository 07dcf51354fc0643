"""The layer PointTransformerConv: attention between points with a weight per edge and channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor, PairTensor

from gattn.functional import aggregate, edge_softmax
from gattn.graph import Graph
from gattn.kernels.precision import acc_dtype, infinite_as_nan
from gattn.nn.common.checks import check_features, check_tensor, shape_of_rows
from gattn.nn.common.edge_inputs import edge_sum, read_edges
from gattn.nn.common.edge_terms import NO_TERMS, EdgeTerms
from gattn.nn.common.features import is_plain, project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.scores import attend_with_score, gat_score
from gattn.nn.conv.base import AttentionConv
from gattn.nn.conv.row_wise import why_not_row_wise
from gattn.ops.custom_score.chunked import edgewise

Network = Callable[[Tensor], Tensor]


class PointTransformerConv(pyg.PointTransformerConv, AttentionConv):
    r"""Point transformer layer: attention between points, with a weight for each edge and channel.

    .. math::
        x'_i = \sum_{j \in N(i)} \alpha_{ij} \odot (W x_j + \delta_{ij}), \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}\,
        \gamma(W_{\mathrm{dst}} x_i - W_{\mathrm{src}} x_j + \delta_{ij}), \qquad
        \delta_{ij} = h(p_i - p_j)

    Has the arguments and the parameters of ``torch_geometric.nn.PointTransformerConv`` and returns
    the same outputs. Without ``attn_nn`` and with a linear ``pos_nn``, score and value are sums of
    a source term and a destination term, so no tensor of the size of the edges is formed. Other
    networks are applied to some thousand edges at a time, and again in backward; their scores
    [e, c] are stored. A network that may combine several edges, such as batch normalisation in
    training, is applied to all edges at once, as in PyG, and :attr:`slow_path_reason` names it.

    Args:
        in_channels: number of point features, d, or a pair (source, destination); -1 takes the
            number from the first input.
        out_channels: number of output features, c.
        pos_nn: the network h from [b, 3] to [b, c]; None for a linear map.
        attn_nn: the network gamma from [b, c] to [b, c]; None for the identity.
        add_self_loops: whether each point also attends to itself.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d], or ([m, d_s], [n, d_t]) if bipartite; positions [n, 3], or
          ([m, 3], [n, 3]); edges as pairs (2, e), an adjacency [n, m] or a :class:`gattn.Graph`
        - **output:** [n, c]; zeros for a point without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
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

    pos_nn: Network

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        return ()

    def _slow_setting(self) -> str:
        """Return the network that may combine several edges, and the reason; "" if there is
        none.
        """
        if torch.compiler.is_compiling():
            # Compiled code always applies the networks to all edges at once.
            return ""
        for name, network in (("pos_nn", self.pos_nn), ("attn_nn", self.attn_nn)):
            reason = "" if network is None else why_not_row_wise(network)
            if reason:
                return f"{name}: {reason}"
        return ""

    def forward(
        self,
        x: Tensor | PairTensor,
        pos: Tensor | PairTensor,
        edge_index: Adj | Graph,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Compute the attention along the edges. The first call of a layer with the width -1
        creates its weights. The attention weights are passed to the active recordings.

        Args:
            x: features of the points, see Shapes.
            pos: positions of the points, see Shapes.
            edge_index: the edges, see Shapes.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e], added to the scores of each edge; -inf removes the edge.

        Returns:
            The new features of the points.

        Raises:
            ValueError: if an input has a wrong shape, x and pos differ in their numbers of rows, an
                index is out of range, or a network does not return a row for each edge or draws
                random numbers.
            TypeError: if x or pos is not a tensor or a pair of tensors, the edges have an
                unsupported type, or the dtypes differ.
            RuntimeError: under torch.jit.trace, or if attention weights are recorded and the layer
                computes edge by edge without them.

        Warns:
            UserWarning: torch finds no compiler, or cannot compile the function of the edges of a
                large graph, which then runs uncompiled.
        """
        x_src, x_dst = _pair("x", x, self.in_channels)
        pos_src, pos_dst = _pair("pos", pos, 3)
        for end, p, features in (("source", pos_src, x_src), ("destination", pos_dst, x_dst)):
            if p.shape[0] != features.shape[0]:
                raise ValueError(
                    f"pos must have {features.shape[0]} rows, like x of the {end}; got {p.shape[0]}"
                )
        graph, _ = read_edges(edge_index, None, x_src, x_dst, self_loops=self.add_self_loops)
        terms = self.read_terms(edge_index, graph, x_src, edge_weight, attn_bias)
        key, query = project(self.lin_src, x_src), project(self.lin_dst, x_dst)
        value = project(self.lin, x_src)
        graph, (key, value, pos_src) = graph.fetch_source_rows(key, value, pos_src)
        pos = pos_src, pos_dst
        if not self.fused:
            return self._sum_edge_by_edge((key, query), (value, x_dst), pos, graph, terms)
        is_linear = self.attn_nn is None and is_plain(self.pos_nn)
        sum_values = self._sum_node_terms if is_linear else self._sum_in_chunks
        return sum_values(query, key, value, pos, graph, terms)

    def _sum_node_terms(
        self, query: Tensor, key: Tensor, value: Tensor, pos: PairTensor, graph: Graph,
        terms: EdgeTerms,
    ) -> Tensor:  # fmt: skip
        """Return the weighted sums [n, c], for a linear pos_nn, for which delta_ij = d_i - d_j.
        Queries are [n, c], keys and values [m, c], and the positions those of sources [m, 3] and
        destinations [n, 3].

        Each channel is a head, whose score is a sum of a source and a destination term. The weights
        are passed to the active recordings. Raises ValueError or TypeError if the positions have a
        wrong width or dtype, and RuntimeError under torch.jit.trace.
        """
        d_dst, d_src = self._position_terms(*pos, value)
        query_score, key_score = infinite_as_nan(query + d_dst), infinite_as_nan(-(key + d_src))
        score = gat_score(query_score, key_score, negative_slope=1.0)
        values = value - d_src
        if terms is NO_TERMS:
            # The attention weights of a point with edges sum to 1.
            out = attend_with_score(score, values.unsqueeze(-1), graph)[0].squeeze(-1)
            weight_sum = (graph.in_degree() > 0).to(out.dtype).unsqueeze(1)
        else:
            value_and_one = torch.stack([values, torch.ones_like(values)], dim=-1)
            out, weight_sum = attend_with_score(score, value_and_one, graph, terms=terms)[0].unbind(
                -1
            )
        return (out + weight_sum * d_dst).to(value.dtype)

    def _position_terms(self, pos_src: Tensor, pos_dst: Tensor, like: Tensor) -> PairTensor:
        """Return the position terms d_i [n, c] of the destinations and d_j [m, c] of the sources,
        in the accumulation dtype of ``like``, from the positions of sources [m, 3] and destinations
        [n, 3]; delta_ij = d_i - d_j.

        Positions are taken relative to their mean, so that the difference loses fewer digits.
        Raises ValueError if the positions have a wrong width, and TypeError for a wrong dtype, and
        RuntimeError under torch.jit.trace.
        """
        linear = cast(Linear, self.pos_nn)
        weight, bias = linear.weight, linear.bias
        for rows in (pos_src, pos_dst):
            check_features("pos", rows, weight.shape[1], weight)
        wide = acc_dtype(like.dtype)
        mean = pos_src.detach().to(wide).nanmean(0).nan_to_num(0.0, 0.0, 0.0)
        with torch.autocast(like.device.type, enabled=False):
            d_src = F.linear(pos_src.to(wide) - mean, weight.to(wide))
            d_dst = F.linear(
                pos_dst.to(wide) - mean, weight.to(wide), None if bias is None else bias.to(wide)
            )
        return d_dst, d_src

    def _sum_in_chunks(
        self, query: Tensor, key: Tensor, value: Tensor, pos: PairTensor, graph: Graph,
        terms: EdgeTerms,
    ) -> Tensor:  # fmt: skip
        """Return the weighted sums, [n, c], for arbitrary networks; see :meth:`_sum_node_terms` for
        the arguments. The networks are applied to chunks of the edges, and the weights are passed
        to the active recordings. Raises ValueError if a network does not return one row for each
        edge, or draws random numbers.
        """
        difference = edge_sum(pos[1], -pos[0], graph)
        ends = ("destination", query), ("source", key), ("edge", difference)
        if torch.compiler.is_compiling():
            source, destination = graph.edge_index
            offset = self.pos_nn(difference)
            scores = self._with_offset(query[destination], key[source], offset)
            alpha = edge_softmax(terms.biased(scores), graph)
            messages = (value[source] + offset).unsqueeze(-1)
            return aggregate(terms.weighted(alpha), messages, graph.incidence()).squeeze(-1)
        alpha = edge_softmax(terms.biased(edgewise(self._scores, graph, *ends)), graph)
        if is_recording():
            record(alpha, graph)
        ends = ("source", value), ("edge", difference)
        return edgewise(
            self._messages, graph, *ends, weight=("edge", terms.weighted(alpha))
        ).squeeze(-1)

    def _scores(self, query: Tensor, key: Tensor, difference: Tensor) -> Tensor:
        """Return the scores of b edges, [b, c], given the differences of positions, [b, 3]."""
        return self._with_offset(query, key, self.pos_nn(difference))

    def _with_offset(self, query: Tensor, key: Tensor, offset: Tensor) -> Tensor:
        score = query - key + offset
        return score if self.attn_nn is None else self.attn_nn(score)

    def _messages(self, value: Tensor, difference: Tensor) -> Tensor:
        """Return the messages v_j + delta_ij; each channel is a head, [b, c, 1]."""
        return (value + self.pos_nn(difference)).unsqueeze(-1)

    def _sum_edge_by_edge(
        self, alpha: PairTensor, x: PairTensor, pos: PairTensor, graph: Graph, terms: EdgeTerms
    ) -> Tensor:
        """Return the weighted sums of the values, [n, c], computed by PyG's message passing with
        its names: ``alpha`` has the keys and the queries, and ``x`` the values and the features of
        the destinations. Raises RuntimeError if attention weights are recorded, and ValueError if a
        subclass overrides the method that reads one of the ``terms``.
        """
        self.record_edge_by_edge(None, graph)
        # propagate_type: (x: PairTensor, pos: PairTensor, alpha: PairTensor)
        with self.bind_terms(terms):
            return self.propagate(graph.edge_index, x=x, pos=pos, alpha=alpha)

    def message(
        self,
        x_j: Tensor,
        pos_i: Tensor,
        pos_j: Tensor,
        alpha_i: Tensor,
        alpha_j: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the values of the source nodes, [e, c], multiplied by the attention weights.

        PyG calls this method if the layer computes edge by edge instead of with the kernels.
        The values x_j, queries alpha_i and keys alpha_j are [e, c], positions [e, 3], and ``index``
        [e] is the destination.
        """
        offset = self.pos_nn(pos_i - pos_j)
        score = self._with_offset(alpha_i, alpha_j, offset)
        return self.softmax(score, index, ptr, size_i) * (x_j + offset)


def _pair(name: str, x: Tensor | PairTensor, channels: object) -> PairTensor:
    """Check a tensor or a pair of tensors, and return the rows of sources and destinations. Raises
    TypeError if one is no tensor, and ValueError unless there are one or two matrices.
    """
    pair = (x, x) if isinstance(x, Tensor) else tuple(x)
    if len(pair) != 2:
        raise ValueError(f"{name} must be a tensor or a pair of tensors; got {len(pair)} tensors")
    for rows in pair:
        check_tensor(name, rows)
        if rows.dim() != 2:
            raise ValueError(
                f"{name} must have shape {shape_of_rows(channels)}; got {tuple(rows.shape)}"
            )
    return pair[0], pair[1]
