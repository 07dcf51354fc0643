"""Builders of graphs for common forms of attention: causal, banded, cross-attention and others.

A builder takes the sizes of the sets, sequences or grids of a batch, and returns one
:class:`gattn.Graph` without edges between them. Nodes are numbered consecutively over the batch.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
