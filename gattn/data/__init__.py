"""Data sets, their splits, and loaders of mini-batches.

RDKit is imported when a molecule is first read, not with this module.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
