"""Launchers of the Triton kernels: the operators of `gattn.ops`, one file per score family."""

from gattn.kernels.triton.additive import additive_backward, additive_forward
from gattn.kernels.triton.dot_product import dot_product_backward, dot_product_forward
from gattn.kernels.triton.edge import aggregate, edge_dot, edge_softmax, edge_softmax_backward
from gattn.kernels.triton.mlp import mlp_backward, mlp_forward, mlp_score

__all__ = [
    "additive_backward",
    "additive_forward",
    "aggregate",
    "dot_product_backward",
    "dot_product_forward",
    "edge_dot",
    "edge_softmax",
    "edge_softmax_backward",
    "mlp_backward",
    "mlp_forward",
    "mlp_score",
]
