"""Readout of the Graph Multiset Transformer, which pools the nodes of a graph in two steps."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import Tensor

from gattn.graph import Graph
from gattn.nn.attention.set_attention import PoolingByMultiheadAttention, SetModule
from gattn.nn.common.checks import check_input
from gattn.nn.common.segments import among_points, points_to_segments, zero_empty
from gattn.nn.readout.base import SegmentReadout


class GraphMultisetTransformer(SegmentReadout, pyg.GraphMultisetTransformer, SetModule):
    r"""Readout of the Graph Multiset Transformer: pooling to k vectors, attention between them, and
    pooling to one vector.

    .. math:: y_g = \mathrm{PMA}_1(\mathrm{SAB}(\mathrm{PMA}_k(X_g)))

    The arguments, the parameters and the results, except for graphs without nodes, are the same as
    in ``torch_geometric.nn.GraphMultisetTransformer``. Nothing is padded, and the index need not be
    sorted.

    Args:
        channels: number of node and output features; must be divisible by heads.
        k: number of vectors after the first pooling.
        num_encoder_blocks: number of attention blocks among these vectors.
        heads: number of heads, h.
        layer_norm: whether to apply layer normalisation.
        dropout: dropout probability of the attention weights in training.

    Shapes:
        - **input:** x [n, channels]; index [n], in any order, or ptr [g + 1]
        - **output:** [g, channels]; zeros for a graph without nodes
        - **weights:** [n, k, heads], of the first pooling; for each of the k vectors and each head
          they sum to 1 over each graph

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: if heads does not divide channels, or x is not two-dimensional.

    Reference:
        Baek, Kang and Hwang, "Accurate learning of graph representations with graph multiset
        pooling" (ICLR 2021).

    Example:
        >>> import torch
        >>> from gattn.nn import GraphMultisetTransformer
        >>> readout = GraphMultisetTransformer(8, k=3, heads=4)
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 8])
        >>> readout.attention_weights(x, batch, dim_size=3).shape
        torch.Size([5, 3, 4])
    """

    pma1: PoolingByMultiheadAttention
    pma2: PoolingByMultiheadAttention

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the readout of each segment, [g, channels]: k learned queries, encoders among
        them, and one query of the result; zero for empty segments. The attention weights of the
        layers are passed to the active recordings. Raises ValueError or TypeError if x has a wrong
        width or dtype, and RuntimeError under torch.jit.trace.
        """
        check_input("x", x, self.channels, self.pma1.lin)
        points = self.pma1(x, segments).flatten(0, 1)
        for encoder in self.encoders:
            points = encoder(points, among_points(segments, self.k))
        out = self.pma2(points, points_to_segments(segments, self.k)).squeeze(1)
        return zero_empty(out, segments)

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return self.pma1.attention_weights(x, segments)
