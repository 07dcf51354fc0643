"""Neighbour sampling: subgraphs around seed nodes of a large graph, hop by hop.

Nodes of a batch are numbered as in PyG: the seed nodes, then every node in order of discovery.
Destinations of the first k hops are thus the first nodes of the batch, and their edges are the
first edges. The bipartite graph of every layer consists of the first rows of the same CSR tensors,
so that nothing is sorted.
"""

from gattn.sampling.batch import Sample, TypedSample
from gattn.sampling.neighbors import NeighborSampler, TypedNeighborSampler

__all__ = ["NeighborSampler", "Sample", "TypedNeighborSampler", "TypedSample"]
