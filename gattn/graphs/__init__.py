"""Builders: the graph on which an attention of the literature is attention over edges.

Every builder takes a batch, with one size per member and members of any size, and returns one
:class:`gattn.Graph` whose members do not touch. Node numbers run through the batch.
"""

from gattn.graphs.blocks import band, bipartite, causal, complete
from gattn.graphs.combine import batched, disjoint, virtual_node
from gattn.graphs.convert import edge_features, from_networkx, to_networkx
from gattn.graphs.incoming import incoming
from gattn.graphs.lattice import box, grid, grid_offsets
from gattn.graphs.padding import pack, unpack
from gattn.graphs.queries import readout
from gattn.graphs.random import expander
from gattn.graphs.spatial import knn, radius

__all__ = [
    "band",
    "batched",
    "bipartite",
    "box",
    "causal",
    "complete",
    "disjoint",
    "edge_features",
    "expander",
    "from_networkx",
    "grid",
    "grid_offsets",
    "incoming",
    "knn",
    "pack",
    "radius",
    "readout",
    "to_networkx",
    "unpack",
    "virtual_node",
]
