"""Structural features of nodes and node pairs: random walks and shortest paths."""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
