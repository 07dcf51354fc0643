from gattn.graphs.blocks import band, bipartite, causal, complete
from gattn.graphs.combine import disjoint_union
from gattn.graphs.convert import edge_features
from gattn.graphs.lattice import grid, grid_offsets, window_offsets
from gattn.graphs.padding import pack, unpack
from gattn.graphs.pooling import pooling_graph
from gattn.graphs.random import expander
from gattn.graphs.subgraph import in_subgraph

__all__ = [
    "band",
    "bipartite",
    "causal",
    "complete",
    "disjoint_union",
    "edge_features",
    "expander",
    "grid",
    "grid_offsets",
    "in_subgraph",
    "pack",
    "pooling_graph",
    "unpack",
    "window_offsets",
]
