from gattn.structure.paths import path_features, path_lengths
from gattn.structure.walks import return_probabilities

__all__ = [
    "path_features",
    "path_lengths",
    "return_probabilities",
]
