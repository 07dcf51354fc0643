"""Layers and readouts: the interface of torch_geometric.nn on fused attention."""

from gattn.nn.attentional_readout import AttentionalReadout
from gattn.nn.gat_conv import GATConv
from gattn.nn.multi_readout import MultiReadout
from gattn.nn.readout import LearnedQueryReadout
from gattn.nn.set_attention import (
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByAttention,
    SetAttentionBlock,
)
from gattn.nn.set_transformer_readout import SetTransformerReadout

__all__ = [
    "AttentionalReadout",
    "GATConv",
    "InducedSetAttentionBlock",
    "LearnedQueryReadout",
    "MultiReadout",
    "MultiheadAttentionBlock",
    "PoolingByAttention",
    "SetAttentionBlock",
    "SetTransformerReadout",
]
