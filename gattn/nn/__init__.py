"""Layers and readouts: the interface of torch_geometric.nn on fused attention."""

from gattn.nn.agnn_conv import AGNNConv
from gattn.nn.attentional_readout import AttentionalReadout
from gattn.nn.gat_conv import GATConv
from gattn.nn.gatv2_conv import GATv2Conv
from gattn.nn.multi_readout import MultiReadout
from gattn.nn.readout import LearnedQueryReadout
from gattn.nn.set_attention import (
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByAttention,
    SetAttentionBlock,
)
from gattn.nn.set_transformer_readout import SetTransformerReadout
from gattn.nn.supergat_conv import SuperGATConv
from gattn.nn.transformer_conv import TransformerConv

__all__ = [
    "AGNNConv",
    "AttentionalReadout",
    "GATConv",
    "GATv2Conv",
    "InducedSetAttentionBlock",
    "LearnedQueryReadout",
    "MultiReadout",
    "MultiheadAttentionBlock",
    "PoolingByAttention",
    "SetAttentionBlock",
    "SetTransformerReadout",
    "SuperGATConv",
    "TransformerConv",
]
