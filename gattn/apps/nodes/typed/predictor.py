"""Attention network over the nodes of all types, and its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.fitting.full_batch import FullBatch
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.fields import stored_values
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem, graph_elements
from gattn.apps.nodes.settings import NetworkSettings, NodeSettings
from gattn.apps.nodes.typed.encoder import TypedEncoder
from gattn.apps.nodes.typed.network import TypedInputs, TypedNetwork
from gattn.apps.nodes.typed.relations import Relation
from gattn.apps.run.text import plural
from gattn.apps.runtime.threads import limited_threads
from gattn.nn import HGTConv, SparseDropout, record_attention

Batch: TypeAlias = tuple[Tensor, TypedInputs]
"""Features of the labelled nodes, [n, d], dense or ``torch.sparse_csr``, and the inputs of the
other types and of the edges.
"""


class TypedAttentionNetwork(nn.Module):
    r"""Heterogeneous graph transformer with an input layer for each type and normalised residuals.

    .. math::
        h^{(0)}_i = \mathrm{norm}(W_{\tau(i)} x_i + b_{\tau(i)}), \qquad
        h^{(l+1)}_i = \mathrm{norm}\bigl(h^{(l)}_i + \mathrm{HGT}(h^{(l)})_i\bigr), \qquad
        y_i = W \bigl(h^{(0)}_i \Vert \dots \Vert h^{(L)}_i\bigr)

    The features of the edges of a relation are mapped linearly to one number for each head, which
    is added to the scores of attention, like the logarithms of weights.

    Args:
        settings: settings; the sizes are read.
        widths: number of features of the nodes of each type, and number of relations into them;
            the first type is the labelled one.
        relations: relations of the messages, with the number of features of their edges.
        outputs: number of classes; 1 for numbers.

    Reference:
        Hu et al., "Heterogeneous graph transformer" (WWW 2020).
    """

    def __init__(
        self,
        settings: NetworkSettings,
        widths: Mapping[str, tuple[int, int]],
        relations: Mapping[Relation, int],
        outputs: int,
    ) -> None:
        super().__init__()
        width, heads = settings.width, settings.heads
        # The name of a type or a relation can be any text, and a name of a module cannot. Modules
        # are therefore named by the positions of the types and relations.
        self.kinds = {kind: f"t{place}" for place, kind in enumerate(widths)}
        self.keys = {
            relation: (self.kinds[relation.source], f"r{place}", self.kinds[relation.destination])
            for place, relation in enumerate(relations)
        }
        self.inputs = nn.ModuleDict(
            {self.kinds[kind]: _InputLayer(*size, width) for kind, size in widths.items()}
        )
        metadata = list(self.kinds.values()), list(self.keys.values())
        self.layers = nn.ModuleList(
            HGTConv(width, width, metadata, heads) for _ in range(settings.layers)
        )
        self.norms = nn.ModuleList(
            nn.ModuleDict({key: nn.LayerNorm(width) for key in self.kinds.values()})
            for _ in range(settings.layers + 1)
        )
        self.edges = nn.ModuleDict(
            {
                self.keys[relation][1]: nn.Linear(size, heads, bias=False)
                for relation, size in relations.items()
                if size
            }
        )
        self.out = nn.Linear(width * (settings.layers + 1), outputs)
        self.dropout = SparseDropout(settings.dropout)
        self.heads = heads

    def forward(self, batch: Batch) -> Tensor:
        """Return the outputs [n, outputs] of the labelled nodes."""
        return self.out(self.dropout(self.embed(batch)))

    def embed(self, batch: Batch) -> Tensor:
        """Return the input of the last layer for the labelled nodes, [n, width * (layers + 1)]."""
        x, inputs = batch
        target, *_ = self.kinds
        features = {target: x, **inputs.x}
        hidden = {}
        norms = [cast("nn.ModuleDict", norm) for norm in self.norms]
        for kind, key in self.kinds.items():
            first = self.inputs[key](self.dropout(features[kind]), inputs.degrees[kind])
            hidden[key] = F.gelu(norms[0][key](first))
        levels = [hidden[self.kinds[target]]]
        graphs = {self.keys[relation]: graph for relation, graph in inputs.graphs.items()}
        bias = self._bias(inputs)
        for layer, norm in zip(self.layers, norms[1:]):
            dropped = {key: self.dropout(h) for key, h in hidden.items()}
            new = layer(dropped, graphs, attn_bias=bias or None)
            hidden = {
                key: norm[key](h + new[key]) if key in new else h for key, h in hidden.items()
            }
            levels.append(hidden[self.kinds[target]])
        return torch.cat(levels, 1)

    @torch.no_grad()
    def attention(self, batch: Batch) -> list[dict[Relation, Tensor]]:
        """Return the attention weights [e, h] of each relation, for each layer."""
        with record_attention(self) as records:
            self.embed(batch)
        relations = {key: relation for relation, key in self.keys.items()}
        return [
            {
                relations[one.edge_type]: one.weights
                for one in records
                if one.module == f"layers.{place}" and one.edge_type in relations
            }
            for place in range(len(self.layers))
        ]

    def _bias(self, inputs: TypedInputs) -> dict[Any, Tensor]:
        """Return the terms [e, h] of the scores that depend on edge weights and edge features, as a
        dictionary by relation.
        """
        terms: dict[Any, Tensor] = {}
        for relation, key in self.keys.items():
            parts = []
            edges = inputs.messages[relation]
            if edges.features is not None:
                parts.append(self.edges[key[1]](edges.features))
            if edges.weights is not None:
                parts.append(edges.weights.log()[:, None].expand(-1, self.heads))
            if parts:
                terms[key] = sum(parts[1:], parts[0])
        return terms


class _InputLayer(nn.Module):
    """Linear layer for the features of the nodes of one type and their numbers of edges.

    Args:
        features: number of features; they may be sparse.
        degrees: number of relations into the nodes.
        width: number of outputs.
    """

    def __init__(self, features: int, degrees: int, width: int) -> None:
        super().__init__()
        self.features = nn.Linear(features, width, bias=False) if features else None
        # If no relation leads to the nodes, the layer learns only the bias.
        self.degrees = nn.Linear(degrees, width) if degrees else None
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, degrees: Tensor) -> Tensor:
        """Return the hidden features [n, c] of n nodes from their features, which may be sparse,
        and their degrees.
        """
        total = self.bias.expand(len(degrees), -1)
        if self.degrees is not None:
            total = total + self.degrees(degrees)
        if self.features is None:
            return total
        if x.layout == torch.strided:
            return total + self.features(x)
        return total + torch.sparse.mm(x, self.features.weight.t())


def describe_network(network: TypedNetwork, encoder: FeatureEncoder) -> str:
    """Return the numbers of features, of nodes of other types and of edges as text.

    >>> import pandas as pd
    >>> from gattn.apps.nodes.features import encode_graph
    >>> from gattn.apps.nodes.reading import read_graph
    >>> nodes = {kind: pd.DataFrame({"id": ["a", "b"]}) for kind in ("papers", "authors")}
    >>> writes = pd.DataFrame({"author": ["a", "b"], "paper": ["a", "b"]})
    >>> edges = {("authors", "writes", "papers"): writes}
    >>> encoded = encode_graph(read_graph((edges, nodes), label_type="papers"), None, [])
    >>> describe_network(encoded.graph.network, encoded.encoder)
    '1 feature; authors: 2 nodes, 0 features; authors-writes-papers: 2 edges'
    """
    assert encoder.network is not None
    features = plural(encoder.width, "feature")
    parts = [
        f"{kind}: {plural(network.size(kind), 'node')}, "
        f"{plural(encoder.network.types[kind].width, 'feature')}"
        for kind in sorted(network.others)
    ]
    parts += [
        f"{relation}: {plural(len(edges), 'edge')}" for relation, edges in network.edges.items()
    ]
    return "; ".join([features, *parts])


def node_titles(graph: AttributedGraph) -> tuple[list[str], np.ndarray]:
    """Return the names of all nodes in the order of
    :func:`gattn.apps.nodes.typed.predictor.offsets`, and the position of the type of each.

    The name of a node that is not predicted is followed by its type.
    """
    network = graph.network
    assert network is not None
    names: list[str] = []
    kinds = []
    for place, kind in enumerate(offsets(network)):
        some = network.nodes[kind].names
        suffix = f" ({kind})" if place else ""
        names += [f"{name}{suffix}" for name in some]
        kinds.append(np.full(len(some), place))
    return names, np.concatenate(kinds)


class TypedPredictor(NodePredictor):
    """Trained attention network of a typed network; see :class:`NodePredictor`.

    Each training step computes all nodes of all types.
    """

    network: TypedAttentionNetwork

    def _make_network(self) -> TypedAttentionNetwork:
        """Return a new network, whose inputs have the widths of the encoder's features and
        relations.
        """
        encoder = self._encoder
        relations = encoder.messages
        features = {kind: one.width for kind, one in encoder.types.items()}
        features[encoder.target] = self.encoder.width
        widths = {
            kind: (features[kind], sum(one.destination == kind for one in relations))
            for kind in encoder.kinds
        }
        return TypedAttentionNetwork(self.settings, widths, relations, self.outputs)

    @property
    def _encoder(self) -> TypedEncoder:
        """Return the encoder of the network's tables, which a typed model always has."""
        encoder = self.encoder.network
        assert encoder is not None
        return encoder

    def _part(self, problem: NodeProblem, nodes: Tensor, y: Tensor) -> FullBatch[Batch]:
        """Return the whole network with the labels of the given nodes as targets; NaN for the
        others.
        """
        target = torch.full((len(problem.graph), 1), torch.nan)
        target[nodes, 0] = y[nodes].float()
        return FullBatch(self._whole(problem.graph), target)

    def _whole(self, graph: AttributedGraph) -> Batch:
        """Return the features of the labelled nodes and the inputs of the other types."""
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
        network, layers = graph.network, []
        assert network is not None
        assert network.inputs is not None
        first, messages = offsets(network), network.inputs.messages
        with limited_threads(graph_elements(graph, self.settings), self.threads):
            weights_of = self.network.attention(self._whole(graph))
        none = torch.zeros(2, 0, dtype=torch.int64), torch.zeros(0, self.settings.heads)
        for weights in weights_of:
            parts = [none]
            for relation, alpha in weights.items():
                if relation.destination == network.target:
                    start = [[first[relation.source]], [first[relation.destination]]]
                    parts.append((messages[relation].pairs + torch.tensor(start), alpha))
            edges = torch.cat([pairs for pairs, _ in parts], 1)
            alpha = torch.cat([one for _, one in parts])
            order = edges[1].argsort(stable=True)
            layers.append((edges[:, order], alpha[order]))
        return layers


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
