"""Layers and readouts: the interface of torch_geometric.nn on fused attention."""

from gattn.nn.agnn_conv import AGNNConv
from gattn.nn.attentional_readout import AttentionalReadout
from gattn.nn.block import TransformerBlock
from gattn.nn.checks import refuse_scripts
from gattn.nn.encoding import (
    DegreeEncoding,
    LaplacianEncoding,
    LearnedEncoding,
    RandomWalkEncoding,
    SinusoidalEncoding,
)
from gattn.nn.exphormer_conv import ExphormerConv
from gattn.nn.fa_conv import FAConv
from gattn.nn.gat_conv import GATConv
from gattn.nn.gate_conv import GATEConv
from gattn.nn.gatv2_conv import GATv2Conv
from gattn.nn.general_conv import GeneralConv
from gattn.nn.gps_conv import GPSConv
from gattn.nn.graph_attention import GraphAttention
from gattn.nn.graph_multiset_transformer import GraphMultisetTransformer
from gattn.nn.graph_transformer_layer import GraphTransformerLayer
from gattn.nn.grids import grid_to_nodes, nodes_to_grid
from gattn.nn.grit_conv import GRITConv
from gattn.nn.gt_conv import GTConv
from gattn.nn.han_conv import HANConv
from gattn.nn.heat_conv import HEATConv
from gattn.nn.hgt_conv import HGTConv
from gattn.nn.hypergraph_conv import HypergraphConv
from gattn.nn.learned_query_readout import LearnedQueryReadout
from gattn.nn.linear_attention import LinearAttention
from gattn.nn.multi_readout import MultiReadout
from gattn.nn.point_transformer_conv import PointTransformerConv
from gattn.nn.polynormer_attention import PolynormerAttention
from gattn.nn.recording import AttentionRecord, record_attention
from gattn.nn.relative_bias import PathFeatureBias, RelativeBias, ShortestPathBias, token_offsets
from gattn.nn.res_gated_graph_conv import ResGatedGraphConv
from gattn.nn.rgat_conv import RGATConv
from gattn.nn.set2set import Set2Set
from gattn.nn.set_attention import (
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByAttention,
    SetAttentionBlock,
)
from gattn.nn.set_transformer_readout import SetTransformerReadout
from gattn.nn.sgformer_attention import SGFormerAttention
from gattn.nn.softmax_aggregation import SoftmaxAggregation
from gattn.nn.sparse_dropout import SparseDropout
from gattn.nn.supergat_conv import SuperGATConv
from gattn.nn.transformer_conv import TransformerConv

__all__ = [
    "AGNNConv",
    "AttentionRecord",
    "AttentionalReadout",
    "DegreeEncoding",
    "ExphormerConv",
    "FAConv",
    "GATConv",
    "GATEConv",
    "GATv2Conv",
    "GPSConv",
    "GRITConv",
    "GTConv",
    "GeneralConv",
    "GraphAttention",
    "GraphMultisetTransformer",
    "GraphTransformerLayer",
    "HANConv",
    "HEATConv",
    "HGTConv",
    "HypergraphConv",
    "InducedSetAttentionBlock",
    "LaplacianEncoding",
    "LearnedEncoding",
    "LearnedQueryReadout",
    "LinearAttention",
    "MultiReadout",
    "MultiheadAttentionBlock",
    "PathFeatureBias",
    "PointTransformerConv",
    "PolynormerAttention",
    "PoolingByAttention",
    "RGATConv",
    "RandomWalkEncoding",
    "RelativeBias",
    "ResGatedGraphConv",
    "SGFormerAttention",
    "Set2Set",
    "SetAttentionBlock",
    "SetTransformerReadout",
    "ShortestPathBias",
    "SinusoidalEncoding",
    "SoftmaxAggregation",
    "SparseDropout",
    "SuperGATConv",
    "TransformerBlock",
    "TransformerConv",
    "grid_to_nodes",
    "nodes_to_grid",
    "record_attention",
    "token_offsets",
]

refuse_scripts(*map(globals().get, __all__))
