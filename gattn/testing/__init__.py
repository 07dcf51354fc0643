"""Tools to test attention layers with: awkward graphs, and checks of what every layer must keep.

The checks take any callable, so that a layer of your own is tested as gattn's are:

* a layer is called as ``layer(x, edge_index)`` and gives one row per destination node;
* a readout is called as ``readout(x, index, dim_size=num_graphs)`` and gives one row per graph.

Each check tries the awkward graphs and a few random ones, returns the worst case it found, and
raises an ``AssertionError`` that holds it (``error.args[0]``) where that is out of tolerance.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
