"""Transforms of PyG data that compute structural encodings once and store them in each graph.

Names, arguments and attributes are the same as in ``torch_geometric.transforms``, if it has the
same transform.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
