"""Readout that sums node features with weights from a gate network."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import MLP

from gattn.functional import edge_softmax
from gattn.graph import Graph
from gattn.nn.attention.learned_query import segment_attention
from gattn.nn.common.segments import segment_graph, segment_index
from gattn.nn.readout.base import SegmentReadout


class AttentionalAggregation(SegmentReadout, pyg.AttentionalAggregation):
    r"""Readout that sums node features. Their weights are the softmax of a gate network.

    .. math:: r_g = \sum_{j \in g} \mathrm{softmax}_{j \in g}(\mathrm{gate}(x_j))
        \odot \mathrm{nn}(x_j)

    The arguments, the parameters and the results are the same as in
    ``torch_geometric.nn.AttentionalAggregation``; the softmax and the sum are one operator.

    Args:
        gate_nn: a network from [n, in_channels] to [n, h]. With h = 1 a node has one weight, with
            h = out_channels every feature has its own weight, and with another h each of h equal
            blocks of features has its own weight.
        nn: a network from [n, in_channels] to [n, out_channels]; None for the identity. A
            ``torch_geometric.nn.MLP`` (here and in the gate) also gets the graph of each node.

    Shapes:
        - **input:** x [n, in_channels] or [b, n, in_channels]; index [n] in any
          order, or ptr [g + 1]
        - **output:** [g, out_channels] or [b, g, out_channels]; zeros for a graph without nodes
        - **weights:** [n, h] for a gate of width h; they sum to 1 over each graph

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: if h does not divide out_channels, or x is not two-dimensional.

    Reference:
        Li et al., "Gated graph sequence neural networks" (ICLR 2016); Li et al., "Graph matching
        networks" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn.nn import AttentionalAggregation
        >>> readout = AttentionalAggregation(torch.nn.Linear(8, 1), torch.nn.Linear(8, 4))
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 4])
        >>> readout.attention_weights(x, batch, dim_size=3).shape
        torch.Size([5, 1])
    """

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Compute one row for each graph; x may have a batch dimension before the nodes (``dim=1``
        or -2). The arguments and the errors that are raised are those of
        :meth:`SegmentReadout.forward`, and the errors of the networks. The attention weights are
        passed to the active recordings.
        """
        if x.dim() != 3 or dim not in (1, -2):
            return super().forward(x, index, ptr, dim_size, dim)
        segments = segment_graph(x.transpose(0, 1).flatten(1), index, ptr, dim_size)
        return self._reduce(x, segments, None)

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the sums of the values of each segment, weighted by the softmax of their gates:
        [g, out_channels], or [b, g, out_channels] for x [b, n, in_channels]. The weights are passed
        to the active recordings. Raises ValueError if the width of the gate does not divide the
        number of features.
        """
        gate = _apply(self.gate_mlp, self.gate_nn, x, segments)
        value = _apply(self.mlp, self.nn, x, segments)
        heads = gate.shape[-1]
        if heads == 0 or value.shape[-1] % heads:
            raise ValueError(
                f"the width of the gate must divide {value.shape[-1]}, the number of features; got "
                f"{heads}"
            )
        # Under autocast, the dtype of the gate network's output may differ from the dtype of the
        # values.
        gate = gate.to(value.dtype)
        if x.dim() == 3:
            # The heads of all sets of features are the heads of one operator.
            gate, value = gate.transpose(0, 1).flatten(1), value.transpose(0, 1)
            value = value.unflatten(-1, (heads, -1)).flatten(1, 2)
            out = segment_attention(gate, value, segments, 0.0)
            return out.unflatten(1, (-1, heads)).flatten(2).transpose(0, 1)
        return segment_attention(gate, value.unflatten(-1, (heads, -1)), segments, 0.0).flatten(1)

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return edge_softmax(_apply(self.gate_mlp, self.gate_nn, x, segments), segments)


def _apply(mlp: MLP | None, other: Module | None, x: Tensor, segments: Graph) -> Tensor:
    """Apply one of two networks to the rows x [n, d] or [b, n, d]; without a network, return x."""
    if mlp is not None:
        return mlp(x, batch=segment_index(segments), batch_size=segments.num_dst)
    return x if other is None else other(x)
