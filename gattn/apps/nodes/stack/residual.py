"""Attention networks with skip connections, for graphs with many labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gattn.apps.fitting.full_batch import FullBatch
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.fields import FieldInput, field_size
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
LABEL_INPUTS = 0.7
"""Probability that the label of a training node is an input in an epoch, and not a target."""
LAYERS = 4
"""Number of layers if they are affordable."""
SPARSE_DROPOUT = 0.3
"""Default dropout if the features are sparse, such as words, which overfit sooner."""
DEFAULTS = {"dropout": 0.1, "learning_rate": 1e-2, "weight_decay": 1e-2}
"""Settings of this network that replace the default settings of :class:`NodeSettings`."""
DENSE = 16
"""Number of multiplications of a dense product that take the time of one for an edge."""
MAX_PRODUCTS = 2e10
"""Maximum number of multiplications in all epochs."""


class ResidualNetwork(nn.Module):
    r"""Network of attention layers with a skip connection and a normalisation in each layer.

    .. math:: h^{(0)} = \mathrm{relu}\bigl(\mathrm{norm}(W x + b)\bigr), \qquad
        h^{(l+1)} = \mathrm{relu}\bigl(\mathrm{norm}(\mathrm{conv}(h^{(l)}) + W_l h^{(l)})\bigr)

    A linear layer computes the outputs from the last hidden vectors. The initial weights are drawn
    by torch's global generator.

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
        x = self.read(inputs.x, inputs.labels)
        for place, (graph, rows) in enumerate(inputs.field.layers):
            x = self.layer(place, x, graph, rows, inputs.layer_terms(place))
        return x

    def read(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the first hidden vectors [m, width] of nodes with features [m, d]. The labels are
        read only by :class:`LabelledNetwork`.
        """
        return self.norms[0](self._project(x)).relu()

    def _project(self, x: Tensor) -> Tensor:
        """Return the hidden vectors [n, width] of features [n, d], which may be sparse, after
        dropout.
        """
        x, weight = self.dropout(x), self.table.t()
        if is_sum_over_edges(x, weight):
            return sparse_linear(x, weight, self.bias)
        return x @ self.table + self.bias

    def layer(
        self, place: int, x: Tensor, graph: Graph, rows: int, terms: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the next hidden vectors of the first ``rows`` destinations of a graph, which may
        be bipartite if its destinations are the first of its sources. ``place`` is the index of the
        layer, and ``terms`` are the inputs of the edges.
        """
        x = self.dropout(x)
        ends = x if graph.num_src == graph.num_dst else (x, x[: graph.num_dst])
        out = self.layers[place](ends, graph, **terms)[:rows]
        return self.norms[place + 1](out + self.skips[place](x[:rows])).relu()


class LabelledNetwork(ResidualNetwork):
    r"""Network of attention layers that also reads the known labels of other nodes.

    .. math:: h^{(0)} = \mathrm{relu}\bigl(\mathrm{norm}(W x + W' y + b)\bigr), \qquad
        h^{(l+1)} = h^{(l)} + \mathrm{relu}\bigl(\mathrm{norm}(\mathrm{conv}(h^{(l)})
        + W_l h^{(l)})\bigr)

    In training, the label of a node is drawn to be either an input or a target. The normalisation
    is over the nodes. The initial weights are drawn by torch's global generator.

    Args:
        settings: settings; the sizes are read.
        features: number of features.
        outputs: number of classes.
        edge_dim: number of features of an edge; None without any.

    Reference:
        Shi et al., "Masked label prediction: unified message passing model for semi-supervised
        classification" (IJCAI 2021).
    """

    def __init__(
        self, settings: NetworkSettings, features: int, outputs: int, edge_dim: int | None = None
    ) -> None:
        super().__init__(settings, features, outputs, edge_dim)
        self.label_table = nn.Parameter(torch.empty(outputs, settings.width))
        nn.init.xavier_uniform_(self.label_table)
        self.norms = nn.ModuleList(nn.BatchNorm1d(settings.width) for _ in self.norms)

    def forward(self, inputs: FieldInput) -> Tensor:
        """Return the outputs [k, outputs] of k nodes, from their receptive field, its features and
        its labels. In training, random nodes read their labels and are no targets, because no
        gradient flows through their outputs; torch's generator draws them, and the normalisations
        update their running means.
        """
        if inputs.labels is None or not self.training:
            return super().forward(inputs)
        is_input = torch.rand(len(inputs.labels), 1) < LABEL_INPUTS
        out = super().forward(replace(inputs, labels=inputs.labels * is_input))
        # A node whose label is an input is no target: no gradient flows through its output.
        return torch.where(is_input[: len(out)], out.detach(), out)

    def read(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the first hidden vectors [m, width] of nodes with features [m, d] and one-hot
        labels [m, outputs].
        """
        x = self._project(x)
        return self.norms[0](x if labels is None else x + labels @ self.label_table).relu()

    def layer(
        self, place: int, x: Tensor, graph: Graph, rows: int, terms: Mapping[str, Tensor]
    ) -> Tensor:
        """Return the next hidden vectors; see :meth:`ResidualNetwork.layer`."""
        return x[:rows] + super().layer(place, x, graph, rows, terms)


class ResidualPredictor(NodePredictor):
    """Trained :class:`ResidualNetwork`; see :class:`NodePredictor`.

    The training minimises the loss by AdamW with a one-cycle schedule.
    """

    network: ResidualNetwork
    schedule = "one-cycle"
    _network_class = ResidualNetwork


class LabelledPredictor(ResidualPredictor):
    """Trained :class:`LabelledNetwork`, which reads the labels of the training nodes."""

    _network_class = LabelledNetwork
    _labels: tuple[NDArray[np.int64], NDArray[np.float32]] | None = None

    def _part(self, problem: NodeProblem, nodes: Tensor, y: Tensor) -> FullBatch[Any]:
        """Return the training input for given nodes, whose targets are their labels y. The one-hot
        labels of the training nodes in the receptive field are inputs.
        """
        part, train = super()._part(problem, nodes, y), problem.train
        labels = torch.zeros(problem.network_graph.x.shape[0], problem.outputs)
        labels[train, y[train].long()] = 1
        labels = labels[part.inputs.field.nodes]
        return replace(part, inputs=replace(part.inputs, labels=labels))

    def reading(
        self, graph: AttributedGraph, train: NDArray[np.int64], labels: NDArray[np.float32]
    ) -> LabelledPredictor:
        """Return a copy that reads the one-hot labels [k, classes] of the nodes ``train`` [k] of
        this graph, with the same network. It predicts, embeds and shows this graph alone. The
        features of the graph are stored in both; see :meth:`NodePredictor.predict` for the errors.
        """
        self._network_graph(graph)
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _labels=(train, labels))
        return copy

    def _whole(self, graph: AttributedGraph) -> FieldInput:
        """Return the input of the network for all nodes of a graph, with the known labels."""
        whole = super()._whole(graph)
        if self._labels is None:
            return whole
        train, labels = map(torch.from_numpy, self._labels)
        inputs = torch.zeros(whole.x.shape[0], self.outputs)
        inputs[train] = labels
        return replace(whole, labels=inputs)


def residual_settings(settings: NodeSettings, problem: NodeProblem) -> NodeSettings | None:
    """Return the settings of a :class:`ResidualNetwork` for a graph.

    Settings that the user changed are used; the defaults are those of this network, with fewer
    layers if ``LAYERS`` are not affordable. The result is None if the training part has too few
    labels for this network, if the labels are numbers, or if too few epochs are affordable.

    Args:
        settings: settings of the model.
        problem: the graph and its labels.
    """
    if problem.outputs < 2 or len(problem.train) < LABELS_OF_CLASS * problem.outputs:
        return None
    labelled = torch.cat([problem.train, problem.val])
    x, edge_index, _ = problem.network_graph
    sparse = {} if x.layout == torch.strided else {"dropout": SPARSE_DROPOUT}
    usual = DEFAULTS | sparse
    for defaults in (usual | {"layers": LAYERS}, usual):
        deep = with_defaults(replace(settings, model="gat"), defaults)
        size = field_size(x, edge_index, labelled, deep.layers)
        dense = (2 * deep.layers + 1) * deep.width * size.nodes // DENSE
        products = deep.width * (size.values + size.edges + dense)
        epochs = min(EPOCHS, int(MAX_PRODUCTS / max(products, 1)))
        if epochs >= FEWEST_EPOCHS:
            return replace(deep, epochs=min(settings.epochs, epochs))
    return None


def with_defaults(settings: NodeSettings, defaults: Mapping[str, Any]) -> NodeSettings:
    """Return settings with other default values. A setting that differs from the default of
    :class:`NodeSettings` was changed by the user, and stays.
    """
    usual = NodeSettings()
    same = {n: v for n, v in defaults.items() if getattr(settings, n) == getattr(usual, n)}
    return replace(settings, **same)
