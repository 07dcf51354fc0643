"""Builders of graphs for common forms of attention: causal, banded, cross-attention and others.

Every builder takes a batch, as a list with the size of each member, and returns one
:class:`gattn.Graph` without edges between members. Nodes are numbered through the batch.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
