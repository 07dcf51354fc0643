"""Layers and readouts: the interface of torch_geometric.nn on fused attention."""

from gattn.nn.gat_conv import GATConv
from gattn.nn.readout import LearnedQueryReadout

__all__ = [
    "GATConv",
    "LearnedQueryReadout",
]
