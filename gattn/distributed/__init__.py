"""Attention on a graph that is distributed over processes, each of which owns a range of nodes."""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
