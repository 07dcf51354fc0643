"""Launchers of the Triton kernels. Each operator of `gattn.ops` has one with the same name.

A launcher has the arguments of the operator's schema, in the same order, without the backend. The
section "Which kernels serve what" of docs/design.md lists the file and the kernels of each layer.

The launchers use `work.py` (assignment of edges to programs), `primitives.py` (device functions),
`merge.py` (sum of partial results), `tiles.py` (shapes of tiles) and `launch.py` (grids and
workspaces).
"""

from gattn.kernels.triton.dot_product import dot_product_backward, dot_product_forward
from gattn.kernels.triton.edge import aggregate, edge_dot, edge_softmax, edge_softmax_backward
from gattn.kernels.triton.gat import gat_backward, gat_forward
from gattn.kernels.triton.gatv2 import gatv2_forward, gatv2_score
from gattn.kernels.triton.gatv2_backward import gatv2_backward

__all__ = [
    "aggregate",
    "dot_product_backward",
    "dot_product_forward",
    "edge_dot",
    "edge_softmax",
    "edge_softmax_backward",
    "gat_backward",
    "gat_forward",
    "gatv2_backward",
    "gatv2_forward",
    "gatv2_score",
]
