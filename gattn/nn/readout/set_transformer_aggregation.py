"""Readout by a Set Transformer, without padding."""

from __future__ import annotations

import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import ModuleList

from gattn.graph import Graph
from gattn.nn.attention.set_attention import (
    InducedSetAttentionBlock,
    PoolingByMultiheadAttention,
    SetModule,
)
from gattn.nn.common.checks import check_input
from gattn.nn.common.segments import among_points, within, zero_empty
from gattn.nn.readout.base import SegmentReadout


class SetTransformerAggregation(SegmentReadout, pyg.SetTransformerAggregation, SetModule):
    r"""Readout by a Set Transformer that is applied to the nodes of each graph.

    .. math::
        y_g = \mathrm{SAB}_{\mathrm{dec}}(\mathrm{PMA}(\mathrm{SAB}_{\mathrm{enc}}(X_g)))

    The constructor, the parameters and the results, except for graphs without nodes, are the same
    as in ``torch_geometric.nn.SetTransformerAggregation``, whose ``state_dict`` can be loaded. The
    encoder runs on the complete graph of each set, without padding. The index need not be sorted,
    and NaN in the input of a graph gives NaN in its output.

    Args:
        channels: number of node and output features; must be divisible by heads.
        num_seed_points: number of learned seeds, k.
        num_encoder_blocks: number of attention blocks among the nodes.
        num_decoder_blocks: number of attention blocks among the seeds.
        heads: number of heads, h.
        concat: whether the results of the seeds are concatenated; else they are averaged.
        layer_norm: whether to apply layer normalisation.
        dropout: dropout probability of the attention weights in training.
        num_induced_points: number of learned points through which the encoder blocks attend, at a
            cost linear in the size of the graphs; None for attention among all nodes.

    Shapes:
        - **input:** x [n, channels]; index [n], in any order, or ptr [g + 1]
        - **output:** [g, num_seed_points * channels] or, with ``concat=False``, [g, channels];
          zeros for a graph without nodes
        - **weights:** [n, num_seed_points, heads], of the encoded nodes; for each seed and head
          they sum to 1 over each graph

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: if heads does not divide channels, for another invalid setting, or if x is not
            two-dimensional.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019); Buterez et al., "Graph neural networks with
        adaptive readouts" (NeurIPS 2022).

    Example:
        >>> import torch
        >>> from gattn.nn import SetTransformerAggregation
        >>> readout = SetTransformerAggregation(8, num_seed_points=2, heads=4)
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 16])
        >>> readout.attention_weights(x, batch, dim_size=3).shape
        torch.Size([5, 2, 4])
    """

    pma: PoolingByMultiheadAttention
    num_induced_points: int | None = None

    def __init__(
        self,
        channels: int,
        num_seed_points: int = 1,
        num_encoder_blocks: int = 1,
        num_decoder_blocks: int = 1,
        heads: int = 1,
        concat: bool = True,
        layer_norm: bool = False,
        dropout: float = 0.0,
        *,
        num_induced_points: int | None = None,
    ) -> None:
        arguments = {
            "channels": channels, "num_seed_points": num_seed_points,
            "num_encoder_blocks": num_encoder_blocks, "num_decoder_blocks": num_decoder_blocks,
            "heads": heads, "concat": concat, "layer_norm": layer_norm, "dropout": dropout,
        }  # fmt: skip
        self._check_arguments(arguments)
        super().__init__(**arguments)
        self._complete(arguments)
        self.num_induced_points = num_induced_points
        if num_induced_points is not None:
            shared = channels, num_induced_points, heads, layer_norm, dropout
            self.encoders = ModuleList(InducedSetAttentionBlock(*shared) for _ in self.encoders)

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the readout of each segment: its seed points, concatenated, [g, num_seed_points *
        channels], or averaged, [g, channels]; zero for empty segments. Raises the errors of
        :meth:`_encode`.
        """
        seeds = self.pma(self._encode(x, segments, width), segments)
        seeds = zero_empty(self._decode(seeds, segments), segments)
        return seeds.flatten(1) if self.concat else seeds.mean(1)

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return self.pma.attention_weights(self._encode(x, segments, width), segments)

    def _encode(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the rows x [n, channels] after the encoders: attention along all pairs of rows of
        a segment, or through the induced points. ``width`` is the maximum number of rows of a
        segment. Raises ValueError or TypeError if x has a wrong width or dtype, and ValueError
        under torch.compile without ``width``, and RuntimeError under torch.jit.trace. The attention
        weights are passed to the active recordings.
        """
        check_input("x", x, self.channels, self.pma.lin)
        if self.num_induced_points is not None:
            for encoder in self.encoders:
                x = encoder(x, segments)
        elif len(self.encoders) > 0:
            complete, bias = within(segments, width)
            for encoder in self.encoders:
                x = encoder(x, complete, bias)
        return x

    def _decode(self, seeds: Tensor, segments: Graph) -> Tensor:
        """Return the seed points [g, num_seed_points, channels] after the decoders, attention among
        the points of each segment. The attention weights are passed to the active recordings.
        """
        if len(self.decoders) == 0:
            return seeds
        complete, nodes = among_points(segments, self.num_seed_points), seeds.flatten(0, 1)
        for decoder in self.decoders:
            nodes = decoder(nodes, complete)
        return nodes.view_as(seeds)
