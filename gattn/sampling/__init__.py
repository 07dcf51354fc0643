"""Neighbour sampling: subgraphs around seed nodes of a large graph.

Nodes of a batch are numbered as in PyG: the seed nodes, then every node in order of discovery. The
destinations of the first k hops are thus the first nodes of the batch, and the edges into them are
the first edges. The bipartite graph of every layer consists of the first rows of the same CSR
tensors, so that nothing is sorted.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
