"""PyG's graph convolution on edges that are laid out: the local part of graph transformers."""

from __future__ import annotations

from typing import cast

import torch_geometric.nn as pyg
from torch import Tensor

from gattn.compat import pyg as pyg_internals
from gattn.compat.torch import has_hooks
from gattn.graph import Graph, as_graph
from gattn.ops.edges import sum_sources


def convolve(conv: pyg.GCNConv, x: Tensor, graph: Graph) -> Tensor:
    r""":math:`\sum_j W x_j / \sqrt{d_i d_j} + b` over the d neighbours of a node, itself included.

    Args:
        conv: PyG's layer. It runs itself where it was made to do more than this sum, or where
            something wants to see its edges.
        x: [n, d].
        graph: edges among the n nodes.

    Returns:
        [n, c].
    """
    if _does_more(conv):
        return conv(x, graph.edge_index)
    looped, hidden = as_graph(graph, self_loops=True), conv.lin(x)
    scale = looped.in_degree().to(hidden.dtype).rsqrt().unsqueeze(1)
    out = sum_sources(scale * hidden, looped) * scale
    bias = cast("Tensor | None", conv.bias)
    return out if bias is None else out + bias.to(out.dtype)


def _does_more(conv: pyg.GCNConv) -> bool:
    as_made = type(conv) is pyg.GCNConv and conv.normalize and conv.add_self_loops
    as_made = as_made and not conv.improved and not conv.cached
    as_made = as_made and conv.flow == "source_to_target" and not conv.explain
    as_made = as_made and type(conv.aggr_module) is pyg.SumAggregation
    seen = has_hooks(conv) or pyg_internals.edge_hooks(conv) or pyg_internals.replaced_methods(conv)
    return not as_made or bool(seen)
