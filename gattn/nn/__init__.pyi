# PyG exports its models from torch_geometric.nn, too, so that changing one import works.
from gattn.models.attentive_fp import AttentiveFP as AttentiveFP
from gattn.models.gat import GAT as GAT
from gattn.models.polynormer import Polynormer as Polynormer
from gattn.models.sgformer import SGFormer as SGFormer
from gattn.nn.attention.block import TransformerBlock
from gattn.nn.attention.graph_attention import GraphAttention
from gattn.nn.attention.linear_attention import LinearAttention
from gattn.nn.attention.polynormer_attention import PolynormerAttention
from gattn.nn.attention.set_attention import (
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByMultiheadAttention,
    SetAttentionBlock,
)
from gattn.nn.attention.sgformer_attention import SGFormerAttention
from gattn.nn.common.recording import AttentionRecord, record_attention
from gattn.nn.common.sparse_dropout import SparseDropout
from gattn.nn.conv.agnn_conv import AGNNConv
from gattn.nn.conv.exphormer_conv import ExphormerConv
from gattn.nn.conv.fa_conv import FAConv
from gattn.nn.conv.gat_conv import GATConv
from gattn.nn.conv.gate_conv import GATEConv
from gattn.nn.conv.gatv2_conv import GATv2Conv
from gattn.nn.conv.general_conv import GeneralConv
from gattn.nn.conv.gps_conv import GPSConv
from gattn.nn.conv.han_conv import HANConv
from gattn.nn.conv.heat_conv import HEATConv
from gattn.nn.conv.hgt_conv import HGTConv
from gattn.nn.conv.hypergraph_conv import HypergraphConv
from gattn.nn.conv.point_transformer_conv import PointTransformerConv
from gattn.nn.conv.res_gated_graph_conv import ResGatedGraphConv
from gattn.nn.conv.rgat_conv import RGATConv
from gattn.nn.conv.supergat_conv import SuperGATConv
from gattn.nn.conv.transformer_conv import TransformerConv
from gattn.nn.encoding.relative_bias import RelativeBias, token_offsets
from gattn.nn.readout.attentional_aggregation import AttentionalAggregation
from gattn.nn.readout.graph_multiset_transformer import GraphMultisetTransformer
from gattn.nn.readout.learned_query_readout import LearnedQueryReadout
from gattn.nn.readout.set2set import Set2Set
from gattn.nn.readout.set_transformer_aggregation import SetTransformerAggregation
from gattn.nn.readout.softmax_aggregation import SoftmaxAggregation

__all__ = [
    "AGNNConv",
    "AttentionRecord",
    "AttentionalAggregation",
    "ExphormerConv",
    "FAConv",
    "GATConv",
    "GATEConv",
    "GATv2Conv",
    "GPSConv",
    "GeneralConv",
    "GraphAttention",
    "GraphMultisetTransformer",
    "HANConv",
    "HEATConv",
    "HGTConv",
    "HypergraphConv",
    "InducedSetAttentionBlock",
    "LearnedQueryReadout",
    "LinearAttention",
    "MultiheadAttentionBlock",
    "PointTransformerConv",
    "PolynormerAttention",
    "PoolingByMultiheadAttention",
    "RGATConv",
    "RelativeBias",
    "ResGatedGraphConv",
    "SGFormerAttention",
    "Set2Set",
    "SetAttentionBlock",
    "SetTransformerAggregation",
    "SoftmaxAggregation",
    "SparseDropout",
    "SuperGATConv",
    "TransformerBlock",
    "TransformerConv",
    "record_attention",
    "token_offsets",
]
