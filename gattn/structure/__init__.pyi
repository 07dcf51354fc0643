from gattn.structure.paths import path_lengths
from gattn.structure.walks import return_probabilities

__all__ = [
    "path_lengths",
    "return_probabilities",
]
