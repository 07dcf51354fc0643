"""Several GAT networks of equal shape, computed with one GATConv call per layer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.nodes.fields import FieldInput, stored_values
from gattn.apps.nodes.network import AttentionNetwork, GPSNetwork
from gattn.apps.nodes.settings import NodeSettings
from gattn.functional import aggregate
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached
from gattn.nn import GATConv, SparseDropout

__all__ = ["BatchedGAT", "batch_size", "can_batch"]

BATCH = 5
"""Number of networks that are trained together on a small graph. On such a graph, launching an
operator takes longer than its computation, and the networks share each launch.
"""
MANY_RUNS, LARGE_BATCH = 40, 10
"""With at least this number of runs, more networks are trained together. With fewer runs, several
processes would have too few groups to divide.
"""
SMALL = 1_000_000
"""A graph is small if neither the input features nor the hidden features of its nodes have more
values than this number.
"""


def batch_size(settings: NodeSettings, x: Tensor, runs: int) -> int:
    """Return the number of networks to train together on features [n, d]; 1 for a large graph.

    Args:
        settings: settings of each network.
        x: [n, d] features.
        runs: number of all networks.
    """
    stored = stored_values(x)
    is_small = max(stored, x.shape[0] * settings.width) <= SMALL
    if settings.model not in ("stacked", "gat") or not is_small:
        return 1
    return LARGE_BATCH if settings.model == "gat" and runs >= MANY_RUNS else BATCH


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

    The parameters of all networks are copied into common tensors, so that neither an operator nor
    the optimizer is called for each network. Dropout is drawn for all networks at once, so the
    masks depend on the number of networks.

    Args:
        networks: r networks; see :func:`can_batch`. They are not changed.

    Attributes:
        parameters: for each layer the weights [d, r, h * c], and then the parameters of the layer
            of r h heads.
    """

    def __init__(self, networks: Sequence[AttentionNetwork | GPSNetwork]) -> None:
        self.count, self.dropout = len(networks), copy.deepcopy(networks[0].dropout)
        per_layer = zip(*(cast("list[GATConv]", network.layers) for network in networks))
        self._layers = [_JointLayer(layers) for layers in per_layer]
        self.parameters = [weight for layer in self._layers for weight in layer.parameters]

    def __call__(self, inputs: FieldInput, *, training: bool) -> Tensor:
        """Compute the outputs of all networks.

        Args:
            inputs: the features and the receptive field.
            training: True to apply dropout.

        Returns:
            [r, k, outputs], the output of each network.
        """
        x = inputs.x
        self.dropout.train(training)
        for place, (layer, (graph, rows)) in enumerate(zip(self._layers, inputs.field.layers)):
            x = F.elu(x) if place else x
            x = layer.project(x, self.dropout).transpose(0, 1)
            layer.joint.train(training)
            ends = x, x[:, :rows]
            edges = _edges_into_first(graph, rows)
            x = layer.joint(ends, edges, **inputs.layer_terms(place)).transpose(0, 1)
        return x.transpose(0, 1)

    def of_network(self, place: int, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the parts of one network in tensors with the shapes of ``parameters``."""
        rest, parts = list(tensors), []
        for layer in self._layers:
            count = len(layer.parameters)
            parts += layer.of_network(place, rest[:count])
            del rest[:count]
        return parts

    def state(self, place: int) -> dict[str, Tensor]:
        """Return the weights of one network by the names of its ``state_dict``."""
        weights = self.of_network(place, [weight.detach() for weight in self.parameters])
        names = [name for layer in self._layers for name in layer.names]
        counts = [len(layer.names) for layer in self._layers]
        prefixes = [f"hidden.{place}." for place in range(len(counts) - 1)] + ["out."]
        prefixes = [prefix for prefix, count in zip(prefixes, counts) for _ in range(count)]
        return {prefix + name: weight for prefix, name, weight in zip(prefixes, names, weights)}


class _JointLayer:
    """Layer of r h heads with the parameters of r layers of h heads.

    Args:
        layers: r layers.

    Attributes:
        joint: the layer of all heads, without linear maps.
        weight: [d, r, h * c], the linear map of each layer.
        parameters: ``weight`` and the parameters of ``joint``.
        names: names of the parameters in a layer, in the order of ``parameters``.
    """

    def __init__(self, layers: Sequence[GATConv]) -> None:
        self.count = len(layers)
        self.joint = copy.deepcopy(layers[0])
        # The method ``project`` applies the linear maps, so the layer itself has none.
        self.joint.add_module("lin", nn.Identity())
        with torch.no_grad():
            maps: list[Tensor] = [layer.get_parameter("lin.weight").t() for layer in layers]
            self.weight = nn.Parameter(torch.stack(maps, 1))
            for name, weight in list(self.joint.named_parameters()):
                every: list[Tensor] = [layer.get_parameter(name) for layer in layers]
                module, _, last = name.rpartition(".")
                joined = (
                    torch.stack(every)[:, None]
                    if name == "bias"
                    else torch.cat(every, _heads_axis(weight))
                )
                setattr(self.joint.get_submodule(module), last, nn.Parameter(joined))
        self.names = ["lin.weight", *(name for name, _ in self.joint.named_parameters())]
        self.parameters = [self.weight, *self.joint.parameters()]

    def of_network(self, place: int, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the parts of one network, with the shapes of the parameters of its layer."""
        weight, *others = tensors
        parts = [weight[:, place].t()]
        for name, tensor in zip(self.names[1:], others):
            if name == "bias":
                parts.append(tensor[place, 0])
            else:
                parts.append(tensor.chunk(self.count, _heads_axis(tensor))[place])
        return parts

    def project(self, x: Tensor, dropout: SparseDropout) -> Tensor:
        """Apply dropout to x, [m, d] or [m, r, d], and project it by each layer: [m, r, h * c]."""
        if x.layout != torch.strided:
            # Dropout is applied to the stored entries only, because all other entries are zero.
            values = dropout(x.values()[:, None].expand(-1, self.count))
            return aggregate(values, self.weight, as_graph(x))
        if x.dim() == 2:
            x = x[:, None].expand(-1, self.count, -1)
        return torch.einsum("mrd,drc->mrc", dropout(x), self.weight)


def _heads_axis(parameter: Tensor) -> int:
    """Return the axis of the heads: 1 in vectors [1, h, c], 0 in maps of edges [h * c, d]."""
    return 1 if parameter.dim() == 3 else 0


def _edges_into_first(graph: Graph, rows: int) -> Graph:
    """Return the graph of those edges that lead into the first ``rows`` nodes; the next layer
    needs only these nodes.
    """
    return cached(graph, ("into", rows), lambda: Graph(graph.edge_index, (graph.num_src, rows)))
