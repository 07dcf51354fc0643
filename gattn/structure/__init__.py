"""What the structure of a graph says of its nodes and pairs of nodes, as plain tensors."""

from gattn.structure.laplacian import laplacian_eigenvectors
from gattn.structure.paths import path_features, path_lengths
from gattn.structure.walks import return_probabilities, walk_probabilities

__all__ = [
    "laplacian_eigenvectors",
    "path_features",
    "path_lengths",
    "return_probabilities",
    "walk_probabilities",
]
