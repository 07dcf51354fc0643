"""Networks of the GAT paper's kind on one graph, each layer of all of them in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.functional import aggregate, gat_attention
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached
from gattn.nn import GATConv, SparseDropout
from gattn.nodes.fields import FieldInput
from gattn.nodes.network import AttentionNetwork, GPSNetwork
from gattn.nodes.settings import NodeSettings
from gattn.ops.nodes import node_scores

__all__ = ["apply_stacked", "can_stack", "stack_size"]

STACK = 5
"""Networks in a stack: each bears a fifth of what starting the operations takes."""
SMALL = 1_000_000
"""Numbers in the features of a graph on which starting an operation takes as long as it does."""

ATTENTION = "att_dst", "att_src"
"""What the queries' and the keys' scores are made of."""


def stack_size(settings: NodeSettings, x: Tensor) -> int:
    """How many networks to train together on features [n, d]: 1 where one keeps a core busy."""
    stored = x.numel() if x.layout == torch.strided else x.values().numel()
    small = max(stored, x.shape[0] * settings.width) <= SMALL
    return STACK if settings.model == "gat" and small else 1


def can_stack(networks: Sequence[AttentionNetwork | GPSNetwork]) -> bool:
    """Whether :func:`apply_stacked` takes these networks of one shape: all layers are GATConv."""
    return all(
        isinstance(network, AttentionNetwork)
        and all(type(layer) is GATConv and layer.fused for layer in network.layers)
        for network in networks
    )


def apply_stacked(networks: Sequence[AttentionNetwork | GPSNetwork], inputs: FieldInput) -> Tensor:
    r"""Apply r networks of one shape to one graph.

    Heads do not read each other: layers of h heads in r networks are one layer of r h heads, whose
    projection alone is each network's own.

    .. math:: v_{irh} = W_{rh} x_{ir}, \qquad
        x'_{irh} = \sum_{j \in N(i)} \alpha_{ijrh} v_{jrh} + b_{rh}

    Training drops entries of x and weights alpha of edges, as the paper says, and entries of v
    after the weights are known, as the authors' code does. What they are is drawn for all networks
    at once, so that it depends on how many there are.

    Args:
        networks: as :func:`can_stack` takes them, all in training or none.
        inputs: the features and the field of the graph.

    Returns:
        [r, k, outputs], that of each network.
    """
    x, drop = inputs.x, networks[0].dropout
    *hidden, last = zip(*(cast("list[GATConv]", network.layers) for network in networks))
    for layers, (graph, rows) in zip(hidden, inputs.field.layers):
        x = F.elu(_attend(layers, _project(layers, x, drop), _into_first(graph, rows), drop))
    edges = _into_first(*inputs.field.layers[-1])
    return _attend(last, _project(last, x, drop), edges, drop).transpose(0, 1)


def _into_first(graph: Graph, rows: int) -> Graph:
    """The edges into the first nodes, and their self-loops: what the others get is not read."""
    return cached(
        graph,
        ("into", rows),
        lambda: Graph(graph.edge_index, (graph.num_src, rows)).with_self_loops(),
    )


def _project(layers: Sequence[GATConv], x: Tensor, drop: SparseDropout) -> Tensor:
    """W x after dropout: [m, r, h * c] of x [m, d], which all networks read, or [m, r, d]."""
    weights: list[Tensor] = [layer.get_parameter("lin.weight") for layer in layers]
    if x.layout != torch.strided:
        # One network after the other, since the weights of one stay in a core's cache. An entry
        # that is zero stays zero, dropped or not: those that are stored draw, to the same effect.
        kept, words = drop(x.values().expand(len(layers), -1)).unsqueeze(2), as_graph(x)
        pairs = zip(kept, weights)
        return torch.cat([aggregate(one, weight.t()[:, None], words) for one, weight in pairs], 1)
    if x.dim() == 2:
        x = x[:, None].expand(-1, len(layers), -1)
    return torch.einsum("mrd,rcd->mrc", drop(x), torch.stack(weights))


def _attend(layers: Sequence[GATConv], values: Tensor, graph: Graph, drop: SparseDropout) -> Tensor:
    """One layer of all networks: [n, r, h * c], or [n, r, c] where heads are averaged."""
    one = layers[0]
    heads = values.unflatten(2, (one.heads, -1)).flatten(1, 2)
    vectors = [torch.cat([getattr(layer, name) for layer in layers], 1) for name in ATTENTION]
    query, key = node_scores(heads, torch.cat(vectors))
    out = gat_attention(
        query[: graph.num_dst], key, drop(heads), graph,
        negative_slope=one.negative_slope, dropout=one.dropout_now(),
    ).unflatten(1, (len(layers), one.heads))  # fmt: skip
    out = out.flatten(2) if one.concat else out.mean(2)
    return out + torch.stack([layer.get_parameter("bias") for layer in layers])
