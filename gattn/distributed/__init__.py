"""Attention on a graph that several processes share; each owns a range of the nodes."""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
