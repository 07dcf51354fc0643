"""Attention network over the nodes of all types, and its training."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.apps.fitting.full_batch import FullBatch
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.fields import stored_values
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem, graph_elements
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.typed.attention import Batch, TypedAttentionNetwork
from gattn.apps.nodes.typed.encoder import TypedEncoder
from gattn.apps.nodes.typed.network import TypedNetwork
from gattn.apps.nodes.typed.relations import Relation
from gattn.apps.runtime.threads import limited_threads


class TypedPredictor(NodePredictor):
    """Trained attention network of a typed network; see :class:`NodePredictor`.

    Each training step computes all nodes of all types.
    """

    network: TypedAttentionNetwork

    def _make_network(self) -> TypedAttentionNetwork:
        encoder = self._encoder
        into = {
            kind: sum(one.destination == kind for one in encoder.messages) for kind in encoder.kinds
        }
        widths = {
            kind: (
                self.encoder.width if kind == encoder.target else encoder.types[kind].width,
                into[kind],
            )
            for kind in encoder.kinds
        }  # fmt: skip
        sizes = {}
        for relation in sorted(encoder.relations):
            sizes[relation] = encoder.edge_width(relation)
            if not encoder.directed:
                sizes[relation.reverse()] = encoder.edge_width(relation)
        return TypedAttentionNetwork(self.settings, widths, sizes, self.outputs)

    @property
    def _encoder(self) -> TypedEncoder:
        encoder = self.encoder.network
        assert encoder is not None
        return encoder

    def _part(self, problem: NodeProblem, nodes: Tensor, y: Tensor) -> FullBatch[Batch]:
        target = torch.full((len(problem.graph), 1), torch.nan)
        target[nodes, 0] = y[nodes].float()
        return FullBatch(self._whole(problem.graph), target)

    def _whole(self, graph: AttributedGraph) -> Batch:
        network, inputs = graph.network, None if graph.network is None else graph.network.inputs
        assert network is not None
        assert inputs is not None
        return self._features(graph), inputs

    @torch.no_grad()
    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return the edges [2, e] and the attention weights [e, h] of each layer.

        The edges are those of all relations into labelled nodes. The labelled nodes come first in
        the numbering of the nodes; see :func:`offsets` for the others.
        """
        layers = []
        for weights in self.relation_attention(graph):
            edges, alphas = [torch.zeros(2, 0, dtype=torch.int64)], []
            for relation, (pairs, alpha) in weights.items():
                if relation.destination == self._encoder.target:
                    edges.append(pairs)
                    alphas.append(alpha)
            joined = torch.cat(edges, 1)
            alpha = torch.cat(alphas) if alphas else torch.zeros(0, self.settings.heads)
            order = joined[1].argsort(stable=True)
            layers.append((joined[:, order], alpha[order]))
        return layers

    def relation_attention(
        self, graph: AttributedGraph
    ) -> list[dict[Relation, tuple[Tensor, Tensor]]]:
        """Return the edges [2, e] and the weights [e, h] of each relation, for each layer. The
        numbers of the nodes are those of :meth:`attention`.
        """
        network = graph.network
        assert network is not None
        assert network.inputs is not None
        first = offsets(network)
        with limited_threads(graph_elements(graph, self.settings), self.threads):
            layers = self.network.attention(self._whole(graph))
        return [
            {
                relation: (
                    network.inputs.messages[relation].pairs
                    + torch.tensor([[first[relation.source]], [first[relation.destination]]]),
                    alpha,
                )
                for relation, alpha in weights.items()
            }
            for weights in layers
        ]


def offsets(network: TypedNetwork) -> dict[str, int]:
    """Return the number of the first node of each type: the labelled nodes are 0 to n - 1, and the
    other types follow in order.
    """
    first, total = {}, 0
    for kind in [network.target, *sorted(network.others)]:
        first[kind] = total
        total += network.size(kind)
    return first


def input_size(x: Tensor, network: TypedNetwork, settings: NodeSettings) -> int:
    """Return the number of multiplications of a training step, up to a constant factor."""
    inputs = network.inputs
    assert inputs is not None
    stored = sum(map(stored_values, [x, *inputs.x.values()]))
    edges = sum(one.pairs.shape[1] for one in inputs.messages.values())
    nodes = sum(network.size(kind) for kind in network.types)
    # Each layer multiplies the vector of a node by about six dense matrices. Such a multiplication
    # takes about a sixteenth of the time of one for an edge.
    dense = 6 * settings.width * nodes // 16
    return settings.width * (stored + settings.layers * (edges + dense))
