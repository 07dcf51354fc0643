"""Functions that build graphs for common forms of attention, such as causal attention.

Each function takes the sizes of the sets, sequences or grids of a batch, and returns one
:class:`gattn.Graph` for the batch, without edges between different sets. Nodes are numbered
consecutively over the batch.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
