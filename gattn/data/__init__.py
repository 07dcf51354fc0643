"""Data sets (citation networks, molecules and a registry), their splits, and mini-batch loaders.

RDKit is imported when a molecule is first read, not with this module.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
