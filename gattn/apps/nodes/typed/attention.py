"""Attention network over the nodes of all types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.nodes.settings import NetworkSettings
from gattn.apps.nodes.typed.network import TypedInputs
from gattn.apps.nodes.typed.relations import Relation
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
        total = self.bias.expand(len(degrees), -1)
        if self.degrees is not None:
            total = total + self.degrees(degrees)
        if self.features is None:
            return total
        if x.layout == torch.strided:
            return total + self.features(x)
        return total + torch.sparse.mm(x, self.features.weight.t())
