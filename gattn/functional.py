"""Functions that compute attention over the edges of a :class:`gattn.Graph`.

Importing this module registers all operators of gattn with torch.
"""

import gattn.ops.nodes  # noqa: F401  # registers operators that only layers call
from gattn.ops.attention.dot_product import dot_product_attention, dot_product_attention_weights
from gattn.ops.attention.gat import gat_attention, gat_attention_weights
from gattn.ops.attention.gatv2 import gatv2_attention, gatv2_attention_weights
from gattn.ops.attention.linear import linear_attention, linear_attention_weights
from gattn.ops.custom_score.api import apply_edges, attention
from gattn.ops.edges import aggregate, edge_dot, edge_softmax

__all__ = [
    "aggregate",
    "apply_edges",
    "attention",
    "dot_product_attention",
    "dot_product_attention_weights",
    "edge_dot",
    "edge_softmax",
    "gat_attention",
    "gat_attention_weights",
    "gatv2_attention",
    "gatv2_attention_weights",
    "linear_attention",
    "linear_attention_weights",
]
