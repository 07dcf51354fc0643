"""Tests for attention layers: graphs with special cases, and checks of invariances.

The checks accept any callable, so that they test your layers as well as gattn's:

* a layer is called as ``layer(x, edge_index)`` and returns one row per destination node;
* a readout is called as ``readout(x, index, dim_size=num_graphs)`` and returns one row per graph.

Each check runs on the awkward graphs and a few random ones, and returns the case with the largest
error. If this error exceeds the tolerance, it raises an ``AssertionError`` with the case as
``error.args[0]``.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
