"""Nodes of a network: from a graph and labels of some nodes to predictions for all.

The estimators, and with them scikit-learn, pandas and the other packages of the extra ``nodes``,
are imported at their first use.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="nodes")
