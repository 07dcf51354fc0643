"""Several GAT networks of equal shape, computed with one GATConv call per layer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from gattn.functional import aggregate
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached
from gattn.nn import GATConv, SparseDropout
from gattn.nodes.fields import FieldInput
from gattn.nodes.network import AttentionNetwork, GPSNetwork
from gattn.nodes.settings import NodeSettings

__all__ = ["BatchedGAT", "batch_size", "can_batch"]

BATCH = 5
"""Number of networks that are trained together on a small graph. On such a graph, launching an
operator takes longer than its computation, and the networks share each launch.
"""
SMALL = 1_000_000
"""A graph is small if neither the input features nor the hidden features of its nodes have more
values than this number.
"""


def batch_size(settings: NodeSettings, x: Tensor) -> int:
    """Return the number of networks to train together on features [n, d]; 1 for a large graph."""
    stored = x.numel() if x.layout == torch.strided else x.values().numel()
    is_small = max(stored, x.shape[0] * settings.width) <= SMALL
    return BATCH if settings.model in ("stacked", "gat") and is_small else 1


def can_batch(networks: Sequence[AttentionNetwork | GPSNetwork]) -> bool:
    """Return True if :class:`BatchedGAT` can compute these networks together."""
    return all(
        isinstance(network, AttentionNetwork)
        and all(isinstance(layer, GATConv) and layer.fused for layer in network.layers)
        for network in networks
    )


class BatchedGAT:
    r"""Computation of r GAT networks of equal shape on the same graph.

    Heads are independent of each other, so r layers of h heads can be computed as one layer of r h
    heads. The features are projected for each network separately. The rest is one call of a
    :class:`GATConv` with the parameters of all networks.

    .. math:: v_{irh} = W_{rh} x_{ir}, \qquad
        x'_{irh} = \sum_{j \in N(i)} \alpha_{ijrh} v_{jrh} + b_{rh}

    Dropout is drawn for all networks at once, so the masks depend on the number of networks.

    Args:
        network: a network with the shape of all others; its weights are not used. See
            :func:`can_batch`.
    """

    def __init__(self, network: AttentionNetwork | GPSNetwork) -> None:
        self.layers = [copy.deepcopy(cast("GATConv", layer)) for layer in network.layers]
        for layer in self.layers:
            # The method _project applies the linear maps of all networks at once, so the layer
            # itself has none.
            layer.add_module("lin", nn.Identity())

    def __call__(
        self, networks: Sequence[AttentionNetwork | GPSNetwork], inputs: FieldInput
    ) -> Tensor:
        """Compute the outputs of all networks, which must be in the same mode (training or
        evaluation).

        Args:
            networks: r networks.
            inputs: the features and the receptive field.

        Returns:
            [r, k, outputs], the output of each network.
        """
        x = inputs.x
        per_layer = zip(*(cast("list[GATConv]", network.layers) for network in networks))
        terms = inputs.terms or ({},) * len(self.layers)
        for joint, layers, (graph, rows), edge_terms in zip(
            self.layers, per_layer, inputs.field.layers, terms
        ):
            x = x if joint is self.layers[0] else F.elu(x)
            x = _project(layers, x, networks[0].dropout).transpose(0, 1)
            joint.training = networks[0].training
            ends = x, x[:, :rows]
            edges = _edges_into_first(graph, rows)
            parameters = _joint_parameters(layers)
            x = functional_call(joint, parameters, (ends, edges), dict(edge_terms)).transpose(0, 1)
        return x.transpose(0, 1)


def _joint_parameters(layers: Sequence[GATConv]) -> dict[str, Tensor]:
    """Join the parameters of r layers: vectors [1, r * h, c] and biases [r, 1, h * c]."""
    biases = tuple(layer.get_parameter("bias") for layer in layers)
    vectors = {
        name: torch.cat([getattr(layer, name) for layer in layers], 1)
        for name in ("att_src", "att_dst")
    }
    if layers[0].edge_dim is not None:
        vectors["att_edge"] = torch.cat([layer.get_parameter("att_edge") for layer in layers], 1)
        maps: list[Tensor] = [layer.get_parameter("lin_edge.weight") for layer in layers]
        vectors["lin_edge.weight"] = torch.cat(maps)
    return {**vectors, "bias": torch.stack(biases)[:, None]}


def _edges_into_first(graph: Graph, rows: int) -> Graph:
    """Return the graph of those edges that lead into the first ``rows`` nodes; the next layer
    needs only these nodes.
    """
    return cached(graph, ("into", rows), lambda: Graph(graph.edge_index, (graph.num_src, rows)))


def _project(layers: Sequence[GATConv], x: Tensor, dropout: SparseDropout) -> Tensor:
    """Apply dropout to x, [m, d] or [m, r, d], and project it by each layer: [m, r, h * c]."""
    weights: list[Tensor] = [layer.get_parameter("lin.weight") for layer in layers]
    if x.layout != torch.strided:
        # A sparse input is projected for one network at a time, so that the weights stay in the
        # processor's cache. Dropout is applied to the stored entries only, because all other
        # entries are zero.
        values, words = dropout(x.values().expand(len(layers), -1)).unsqueeze(2), as_graph(x)
        pairs = zip(values, weights)
        return torch.cat([aggregate(v, weight.t()[:, None], words) for v, weight in pairs], 1)
    if x.dim() == 2:
        x = x[:, None].expand(-1, len(layers), -1)
    return torch.einsum("mrd,rcd->mrc", dropout(x), torch.stack(weights))
