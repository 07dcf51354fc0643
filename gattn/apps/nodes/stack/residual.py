"""Attention network with skip connections, for graphs with many labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gattn.apps.fitting.full_batch import FullBatchSettings
from gattn.apps.nodes.fields import FieldInput, FieldSize
from gattn.apps.nodes.network import CONVOLUTIONS
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem
from gattn.apps.nodes.settings import NetworkSettings, NodeSettings
from gattn.graph import Graph
from gattn.nn import GATConv, SparseDropout, TransformerConv
from gattn.ops.sparse_features import is_sum_over_edges, sparse_linear

LABELS_OF_CLASS = 50
"""Minimum mean number of training nodes of a class. With fewer labels, the network of the GAT
paper, which has more dropout, is at least as accurate.
"""
EPOCHS, FEWEST_EPOCHS = 100, 40
"""Number of epochs, and minimum number of epochs for which the network is trained."""
ATTENTION_DROPOUT = 0.1
"""Dropout probability of an attention weight."""
DEFAULTS = {"dropout": 0.3, "learning_rate": 1e-2, "weight_decay": 1e-2}
"""Settings of this network that replace the default settings of :class:`NodeSettings`."""
DENSE = 16
"""Number of multiplications of a dense product that take the time of one for an edge."""
MAX_PRODUCTS = 2e10
"""Maximum number of multiplications in all epochs."""


class ResidualNetwork(nn.Module):
    r"""Network of attention layers with a skip connection and a normalisation in each layer.

    .. math:: h^{(0)} = \mathrm{relu}\bigl(\mathrm{norm}(W x + b)\bigr), \qquad
        h^{(l+1)} = \mathrm{relu}\bigl(\mathrm{norm}(\mathrm{conv}(h^{(l)}) + W_l h^{(l)})\bigr)

    A linear layer computes the outputs from the last hidden vectors.

    Args:
        settings: settings; the sizes are read.
        features: number of features.
        outputs: number of classes; 1 for numbers.
        edge_dim: number of features of an edge; None without any.

    Reference:
        Luo et al., "Classic GNNs are strong baselines" (NeurIPS 2024).
    """

    def __init__(
        self, settings: NetworkSettings, features: int, outputs: int, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        width, heads, layers = settings.width, settings.heads, range(settings.layers)
        kind = {**CONVOLUTIONS, "gat": GATConv}[settings.model]
        loops = {} if kind is TransformerConv else {"add_self_loops": False}
        self.table = nn.Parameter(torch.empty(features, width))
        nn.init.xavier_uniform_(self.table)
        self.bias = nn.Parameter(torch.zeros(width))
        self.layers = nn.ModuleList(
            kind(
                width, width // heads, heads, dropout=ATTENTION_DROPOUT, edge_dim=edge_dim, **loops
            )
            for _ in layers
        )
        self.skips = nn.ModuleList(nn.Linear(width, width) for _ in layers)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(settings.layers + 1))
        self.out, self.dropout = nn.Linear(width, outputs), SparseDropout(settings.dropout)

    def forward(self, inputs: FieldInput) -> Tensor:
        """Return the outputs [k, outputs] of k nodes, from their receptive field and its
        features.
        """
        return self.out(self.dropout(self.embed(inputs)))

    def embed(self, inputs: FieldInput) -> Tensor:
        """Return the input of the output layer, [k, width]."""
        x = self.read(inputs.x)
        for place, (graph, rows) in enumerate(inputs.field.layers):
            x = self.layer(place, x, graph, rows, inputs.layer_terms(place))
        return x

    def read(self, x: Tensor) -> Tensor:
        """Return the first hidden vectors [m, width] of nodes with features [m, d]."""
        x, weight = self.dropout(x), self.table.t()
        if is_sum_over_edges(x, weight):
            x = sparse_linear(x, weight, self.bias)
        else:
            x = x @ self.table + self.bias
        return self.norms[0](x).relu()

    def layer(
        self, place: int, x: Tensor, graph: Graph, rows: int, terms: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the next hidden vectors of the first ``rows`` destinations of a graph, which may
        be bipartite if its destinations are the first of its sources.
        """
        x = self.dropout(x)
        ends = x if graph.num_src == graph.num_dst else (x, x[: graph.num_dst])
        out = self.layers[place](ends, graph, **terms)[:rows]
        return self.norms[place + 1](out + self.skips[place](x[:rows])).relu()


class ResidualPredictor(NodePredictor):
    """Trained :class:`ResidualNetwork`; see :class:`NodePredictor`.

    The training minimises the loss by AdamW with a one-cycle schedule.
    """

    network: ResidualNetwork

    def _make_network(self) -> ResidualNetwork:
        sizes = self.encoder.width, self.outputs, self._edge_dim
        return ResidualNetwork(self.settings, *sizes)

    @classmethod
    def training_settings(cls, settings: NodeSettings) -> FullBatchSettings:
        """Return the settings of the training loop for the settings of the model."""
        return replace(super().training_settings(settings), schedule="one-cycle")


def residual_settings(
    settings: NodeSettings, problem: NodeProblem, size: FieldSize
) -> NodeSettings | None:
    """Return the settings of a :class:`ResidualNetwork` for a graph.

    A dropout, learning rate or weight decay that the user changed is used; the defaults are those
    of this network. The result is None if the training part has too few labels for this network,
    if the labels are numbers, or if too few epochs are affordable.

    Args:
        settings: settings of the model.
        problem: the graph and its labels.
        size: size of the receptive field of the labelled nodes.
    """
    if problem.outputs < 2 or len(problem.train) < LABELS_OF_CLASS * problem.outputs:
        return None
    dense = (2 * settings.layers + 1) * settings.width * size.nodes // DENSE
    products = settings.width * (size.values + size.edges + dense)
    epochs = min(EPOCHS, int(MAX_PRODUCTS / max(products, 1)))
    if epochs < FEWEST_EPOCHS:
        return None
    return with_defaults(
        replace(settings, model="gat", epochs=min(settings.epochs, epochs)), DEFAULTS
    )


def with_defaults(settings: NodeSettings, defaults: Mapping[str, Any]) -> NodeSettings:
    """Return settings with other default values: those that the user changed stay."""
    usual = NodeSettings()
    same = {n: v for n, v in defaults.items() if getattr(settings, n) == getattr(usual, n)}
    return replace(settings, **same)
