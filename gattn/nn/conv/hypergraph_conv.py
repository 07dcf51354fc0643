"""The layer HypergraphConv: convolution on hypergraphs with optional attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import OptTensor

from gattn.functional import aggregate, edge_softmax
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached
from gattn.kernels.precision import acc_dtype
from gattn.nn.common.checks import check_tensor
from gattn.nn.common.edge_inputs import edge_sum
from gattn.nn.common.features import add_bias, head_scores, project, split_heads
from gattn.nn.common.recording import is_recording, record
from gattn.nn.conv.base import AttentionConv
from gattn.ops.edges import sum_sources, to_edges

MODES = ("node", "edge")


class HypergraphConv(pyg.HypergraphConv, AttentionConv):
    r"""Convolution on a hypergraph, in which a hyperedge connects any number of nodes.

    .. math::
        x'_i = b + \Big\Vert_h \frac{1}{D_i} \sum_{s \ni i} \alpha_{is} \frac{1}{B_s}
        \sum_{j \in s} \alpha_{js} W x_j, \qquad D_i = \sum_{s \ni i} w_s

    with the number of nodes :math:`B_s` of a hyperedge s. Without attention :math:`\alpha = 1`,
    else :math:`\alpha_{js} = \mathrm{softmax}\, \mathrm{LeakyReLU}(a \cdot [W x_j, W z_s])` with
    the features z of the hyperedges. The softmax runs over the nodes of a hyperedge
    (``attention_mode="node"``) or over the hyperedges of a node (``"edge"``). Has the arguments
    and the parameters of ``torch_geometric.nn.HypergraphConv`` and returns the same outputs. No
    tensor of size pairs x channels is formed.

    Args:
        in_channels: number of node and hyperedge features, d; -1 takes it from the first input.
        out_channels: channels per head, c.
        use_attention: whether pairs of node and hyperedge have attention weights.
        attention_mode: ``"node"`` or ``"edge"``.
        heads: number of heads, h; 1 without attention.
        concat: whether the heads are concatenated; else they are averaged.
        negative_slope: slope of the LeakyReLU for negative inputs.
        dropout: dropout probability of the attention weights in training.
        bias: whether a learned bias is added to the output.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x [n, d]; pairs (2, e) of a node and a hyperedge; hyperedge weights [m];
          hyperedge features [m, d]
        - **output:** [n, h * c], or [n, c] with ``concat=False``; the bias for a node without
          hyperedges

    Raises:
        TypeError: for inputs that are not tensors, or dtypes that differ.
        ValueError: for a wrong shape or setting, an index out of range, or attention without
            hyperedge features.

    Reference:
        Bai, Zhang and Torr, "Hypergraph convolution and hypergraph attention" (2019).

    Example:
        >>> import torch
        >>> from gattn.nn import HypergraphConv
        >>> pairs = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])  # nodes, hyperedges
        >>> conv = HypergraphConv(8, 16, use_attention=True, heads=2)
        >>> conv(torch.randn(4, 8), pairs, hyperedge_attr=torch.randn(2, 8)).shape
        torch.Size([4, 32])
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for an unknown attention_mode, or a flow other than source_to_target.
        The option ``flow`` is removed from ``arguments`` in place.
        """
        mode = arguments["attention_mode"]
        if mode not in MODES:
            raise ValueError(f"attention_mode must be one of {MODES}; got {mode!r}")
        if (flow := arguments["kwargs"].pop("flow", "source_to_target")) != "source_to_target":
            raise ValueError(f"flow must be 'source_to_target'; got {flow!r}")

    def forward(
        self,
        x: Tensor,
        hyperedge_index: Tensor | Graph,
        hyperedge_weight: OptTensor = None,
        hyperedge_attr: OptTensor = None,
        num_edges: int | None = None,
    ) -> Tensor:
        """Aggregate nodes into hyperedges, and hyperedges into nodes, in training with dropout of
        the weights. The reversed graph is cached in the graph of the pairs. The first call of a
        layer with the width -1 creates its weights. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            hyperedge_index: a pair for each node in a hyperedge, see Shapes; or a
                :class:`gattn.Graph` from n nodes to m hyperedges.
            hyperedge_weight: w, see Shapes; None if all are 1.
            hyperedge_attr: z, see Shapes.
            num_edges: number of hyperedges, m; None reads it from the features, the weights or
                the pairs. Features and weights of trailing hyperedges without nodes are optional.

        Returns:
            The new node features.

        Raises:
            TypeError: for inputs that are not tensors, or dtypes that differ.
            ValueError: for a wrong shape, an index out of range, or attention without hyperedge
                features.
            RuntimeError: under torch.jit.trace.
        """
        to_hyperedges = _pairs(hyperedge_index, x, hyperedge_weight, hyperedge_attr, num_edges)
        if hyperedge_weight is not None:
            hyperedge_weight = _pad_rows(hyperedge_weight, to_hyperedges.num_dst)
        if hyperedge_attr is not None:
            hyperedge_attr = _pad_rows(hyperedge_attr, to_hyperedges.num_dst)
        value = split_heads(project(self.lin, x), self.out_channels)
        to_nodes = cached(to_hyperedges, "transposed", to_hyperedges.transpose)
        alpha = self._attention_weights(value, hyperedge_attr, to_hyperedges, to_nodes)
        # A 16-bit float cannot represent large counts, so they are computed in fp32.
        dtype = acc_dtype(value.dtype)
        if hyperedge_weight is None:
            hyperedge_weight = value.new_ones(to_hyperedges.num_dst, dtype=dtype)
        hyperedge_norm = _inverse(to_hyperedges.in_degree().to(dtype).view(-1, 1))
        node_norm = _inverse(sum_sources(hyperedge_weight.to(dtype).view(-1, 1), to_nodes))
        sum_values = self._sum if self.fused else self._sum_edge_by_edge
        hyperedges = sum_values(alpha, value, hyperedge_norm, to_hyperedges)
        out = sum_values(alpha, hyperedges, node_norm, to_nodes)
        return add_bias(out.flatten(1) if self.concat else out.mean(1), self.bias)

    def _attention_weights(
        self, value: Tensor, hyperedge_attr: OptTensor, to_hyperedges: Graph, to_nodes: Graph
    ) -> OptTensor:
        """Return the attention weight of each pair of a node and its hyperedge, [e, h], from the
        values of nodes, [n, h, c], and the features of hyperedges, [m, d]; None without attention.
        They are after dropout, which draws from torch's random generator in training; a recording
        gets them before dropout. Raises ValueError if ``hyperedge_attr`` is missing, and the errors
        of :func:`project`.
        """
        if not self.use_attention:
            return None
        if hyperedge_attr is None:
            raise ValueError(f"{self} was created with use_attention=True and needs hyperedge_attr")
        key = split_heads(project(self.lin, hyperedge_attr, "hyperedge_attr"), self.out_channels)
        node_att, hyperedge_att = self.att.chunk(2, dim=-1)
        (node_score,) = head_scores(value, node_att)
        (hyperedge_score,) = head_scores(key, hyperedge_att)
        score = edge_sum(hyperedge_score, node_score, to_hyperedges)
        score = F.leaky_relu(score, self.negative_slope)
        alpha = edge_softmax(score, to_hyperedges if self.attention_mode == "node" else to_nodes)
        if is_recording():
            record(alpha, to_hyperedges)
        return F.dropout(alpha, self.dropout, self.training)

    def _sum(self, alpha: OptTensor, value: Tensor, norm: Tensor, graph: Graph) -> Tensor:
        """Return the sums of the values, [n, h, c], at each destination of a graph, weighted by
        alpha [e, h], if there are weights, and by the factors ``norm`` [n, 1] of the destinations.

        The weights are normalised and not the sums, because sums could overflow 16-bit floats.
        """
        weight = to_edges(norm, graph)
        if alpha is not None:
            weight = alpha * weight
        return aggregate(weight.to(value.dtype), value, graph)

    def _sum_edge_by_edge(
        self, alpha: OptTensor, value: Tensor, norm: Tensor, graph: Graph
    ) -> Tensor:
        """Return the weighted sum of the values at each destination, [n, h, c], computed by PyG's
        message passing with the factors ``norm`` [n, 1] of the destinations and the attention
        weights alpha [e, h], if there are any.
        """
        # propagate_type: (x: Tensor, norm: Tensor, alpha: OptTensor)
        return self.propagate(
            graph.edge_index,
            x=value,
            norm=norm.flatten().to(value.dtype),
            alpha=alpha,
            size=graph.size,
        )

    def message(self, x_j: Tensor, norm_i: Tensor, alpha: OptTensor) -> Tensor:
        """Return the weighted features [e, h, c] of each pair of a node and its hyperedge.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        values of sources are [e, h, c], the factors of destinations [e], and the weights alpha [e,
        h] or None.
        """
        out = norm_i.view(-1, 1, 1) * x_j.view(-1, self.heads, self.out_channels)
        return out if alpha is None else alpha.view(-1, self.heads, 1) * out

    def __repr__(self) -> str:
        return MessagePassing.__repr__(self)


def _pairs(
    hyperedge_index: Tensor | Graph,
    x: Tensor,
    weight: OptTensor,
    attr: OptTensor,
    count: int | None,
) -> Graph:
    """Check the inputs and return the graph from n nodes to m hyperedges. The number m is ``count``
    or, if that is None, the number of rows of the longer of ``weight`` and ``attr``, or one more
    than the largest index, which is read from the device.

    Raises:
        TypeError: for inputs that are not tensors.
        ValueError: for a wrong shape or an index out of range.
    """
    check_tensor("x", x)
    if x.dim() != 2:
        raise ValueError(f"x must have shape (n, d); got {tuple(x.shape)}")
    tensors = {"hyperedge_weight": weight, "hyperedge_attr": attr}
    row_counts = {name: tensor.shape[0] for name, tensor in tensors.items() if tensor is not None}
    if isinstance(hyperedge_index, Graph):
        count = hyperedge_index.num_dst
    elif count is None and row_counts:
        count = max(row_counts.values())
    elif count is None:
        if torch.compiler.is_exporting():
            raise ValueError(
                "torch.export cannot read the number of hyperedges from a tensor: pass num_edges"
            )
        count = int(hyperedge_index[1].max()) + 1 if hyperedge_index.numel() else 0
    pairs = as_graph(hyperedge_index, (x.shape[0], count))
    for name, rows in row_counts.items():
        if rows != count and bool(pairs.in_degree()[rows:].any() if rows < count else rows > count):
            raise ValueError(f"{name} must have {count} rows, one per hyperedge; got {rows}")
    return pairs


def _pad_rows(rows: Tensor, count: int) -> Tensor:
    """Append rows of zeros until there are ``count`` rows, because the last hyperedges may have
    no nodes.
    """
    missing = count - rows.shape[0]
    return torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]) if missing else rows


def _inverse(x: Tensor) -> Tensor:
    """Return 1 / x, and 0 where x is 0."""
    return 1 / x.masked_fill(x == 0, torch.inf)
