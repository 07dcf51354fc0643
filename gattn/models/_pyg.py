"""Parts that PyG's models share here: their arguments, their layers, and GCNConv on the kernels."""

from __future__ import annotations

from typing import Any, cast

import torch_geometric.nn as pyg
from torch import Tensor

from gattn.compat import pyg as pyg_internals
from gattn.compat.torch import has_hooks
from gattn.graph import Graph, as_graph
from gattn.nn.common.checks import check_at_least, check_probability
from gattn.ops.edges import sum_sources


class PyGModel(pyg_internals.Twin):
    """Base class of models with PyG's constructor, which does not check the widths."""

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for negative widths, and for a dropout that is not a probability; raise
        TypeError for a dropout that is not a number.
        """
        widths = {k: arguments[k] for k in ("in_channels", "edge_dim") if k in arguments}
        check_at_least(0, **widths)
        for name, value in arguments.items():
            if name.endswith("dropout"):
                check_probability(name, value)


def convolve(conv: pyg.GCNConv, x: Tensor, graph: Graph) -> Tensor:
    r"""Compute a GCN layer for each node i: :math:`\sum_j W x_j / \sqrt{d_i d_j} + b`, where j runs
    over the neighbours of i. The graph with self-loops is cached in ``graph``.

    Args:
        conv: PyG's layer. The layer itself is called if it is a subclass, has other settings than
            the default ones, or has hooks.
        x: node features, [n, d].
        graph: graph among n nodes.

    Returns:
        The new node features, [n, c].

    Raises:
        RuntimeError: x has another number of rows than the graph, or another width or dtype than
            the layer; raised by torch.
    """
    if _needs_pyg(conv):
        return conv(x, graph.edge_index)
    graph, hidden = as_graph(graph, self_loops=True), conv.lin(x)
    scale = graph.in_degree().to(hidden.dtype).rsqrt().unsqueeze(1)
    out = sum_sources(scale * hidden, graph) * scale
    bias = cast("Tensor | None", conv.bias)
    return out if bias is None else out + bias.to(out.dtype)


def _needs_pyg(conv: pyg.GCNConv) -> bool:
    """Return True if a layer differs from the default GCNConv, so that PyG must compute it."""
    is_plain = type(conv) is pyg.GCNConv and conv.normalize and conv.add_self_loops
    is_plain = is_plain and not conv.improved and not conv.cached
    is_plain = is_plain and conv.flow == "source_to_target" and not conv.explain
    is_plain = is_plain and type(conv.aggr_module) is pyg.SumAggregation
    hooks = (
        has_hooks(conv) or pyg_internals.edge_hooks(conv) or pyg_internals.replaced_methods(conv)
    )
    return not is_plain or bool(hooks)
