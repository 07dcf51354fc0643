"""Attention on a graph whose nodes and edges are distributed over several processes."""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
