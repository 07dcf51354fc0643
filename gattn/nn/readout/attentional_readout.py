"""Readout by a gate: a network scores each node, the softmax over the graph weighs it."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import MLP
from torch_geometric.nn.inits import reset

from gattn.functional import edge_softmax
from gattn.graph import Graph
from gattn.nn.attention.learned_query import segment_attention
from gattn.nn.common.segments import segment_index
from gattn.nn.readout.base import SegmentReadout


class AttentionalReadout(SegmentReadout):
    r"""Sum up each graph with weights that a network gives to its nodes.

    .. math:: r_g = \sum_{j \in g} \mathrm{softmax}_{j \in g}(\mathrm{gate}(x_j))
        \odot \mathrm{nn}(x_j)

    The arguments, the parameters and the results are those of
    ``torch_geometric.nn.AttentionalAggregation``; the softmax and the sum are one operator.

    Args:
        gate_nn: a network from [n, in_channels] to [n, h]: h = 1 weighs nodes, h = out_channels
            weighs every feature on its own, and an h in between gives equal blocks of features
            one weight each.
        nn: a network from [n, in_channels] to [n, out_channels]; None for the nodes themselves.
            A ``torch_geometric.nn.MLP`` (here and in the gate) is told the graph of each node.

    Shapes:
        - **input:** x [n, in_channels]; index [n], in any order, or ptr [g + 1]
        - **output:** [g, out_channels]; zeros for a graph without nodes
        - **weights:** [n, h] for a gate of width h; they sum to one over each graph

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: where h does not divide out_channels, or x is not two-dimensional.

    Reference:
        Li et al., "Gated graph sequence neural networks" (ICLR 2016); Li et al., "Graph matching
        networks" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn.nn import AttentionalReadout
        >>> readout = AttentionalReadout(torch.nn.Linear(8, 1), torch.nn.Linear(8, 4))
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 4])
        >>> readout.attention_weights(x, batch, dim_size=3).shape
        torch.Size([5, 1])
    """

    def __init__(self, gate_nn: Module, nn: Module | None = None) -> None:
        super().__init__()
        self.gate_mlp, self.gate_nn = _sort_out(gate_nn)
        self.mlp, self.nn = _sort_out(nn)

    def reset_parameters(self) -> None:
        """Reinitialise all learnable parameters."""
        for module in (self.gate_mlp, self.gate_nn, self.mlp, self.nn):
            reset(module)

    def _read(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        gate = _apply(self.gate_mlp, self.gate_nn, x, segments)
        value = _apply(self.mlp, self.nn, x, segments)
        heads = gate.shape[1]
        if heads == 0 or value.shape[1] % heads:
            raise ValueError(
                f"the width of the gate must divide {value.shape[1]}, the features; got {heads}"
            )
        gate = gate.to(value.dtype)  # under autocast a network gives another dtype than the nodes
        return segment_attention(gate, value.unflatten(-1, (heads, -1)), segments, 0.0).flatten(1)

    def _weigh(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return edge_softmax(_apply(self.gate_mlp, self.gate_nn, x, segments), segments)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(gate_nn={self.gate_mlp or self.gate_nn}, "
            f"nn={self.mlp or self.nn})"
        )


def _sort_out(module: Module | None) -> tuple[MLP | None, Module | None]:
    """(mlp, other): kept under different names, as PyG keeps them in its checkpoints."""
    return (module, None) if isinstance(module, MLP) else (None, module)


def _apply(mlp: MLP | None, other: Module | None, x: Tensor, segments: Graph) -> Tensor:
    if mlp is not None:
        return mlp(x, batch=segment_index(segments), batch_size=segments.num_dst)
    return x if other is None else other(x)
