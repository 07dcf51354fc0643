"""Prediction of the classes or numbers of nodes in a graph, from the labels of some nodes.

scikit-learn, pandas and the other packages of the extra ``nodes`` are imported when an estimator is
first used.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="nodes")
