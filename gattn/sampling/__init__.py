"""Neighbour sampling: the part of a large graph that a few destinations attend to, hop by hop.

A batch is numbered as PyG numbers it: the seeds, then every node in the order in which it was met.
Destinations of the first k hops are thus the first nodes of the batch, and their edges the first
edges: the bipartite graph of every layer is a beginning of the same rows, and is never sorted.
"""

from gattn.sampling.batch import Sample, TypedSample
from gattn.sampling.neighbors import NeighborSampler, TypedNeighborSampler

__all__ = ["NeighborSampler", "Sample", "TypedNeighborSampler", "TypedSample"]
