"""Launchers of the Triton kernels: one for each operator of `gattn.ops`, under its name.

A launcher's arguments are those of the operator's schema, in its order, but for the backend.

Which file and which kernels serve which layer is in one table, under "Which kernels serve what" in
docs/design.md.

Below them: `work.py` (which edges a program takes), `primitives.py` (what it computes with),
`merge.py` (rows cut into splits), `tiles.py` (shapes of tiles), `launch.py` (grids and workspaces).
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
