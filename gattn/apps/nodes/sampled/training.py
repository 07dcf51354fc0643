"""Training of attention networks on sampled neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gattn.apps.fitting.types import EpochRecord, History, Loss
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.fields import Field, FieldInput, read_features
from gattn.apps.nodes.settings import NodeSettings
from gattn.graph import Graph
from gattn.graph.sorting import lay_out_rows
from gattn.layout.layout import INT32_END
from gattn.sampling import NeighborSampler
from gattn.sampling.batch import Sample

BATCH, FANOUT, LATER_FANOUT = 1024, 10, 5
"""Number of training nodes in a step; number of neighbours that are sampled for each of them, and
for each node in later hops.
"""
SEEDS, MOST_EPOCHS = 2_000_000, 40
"""Number of training nodes in all steps together, and maximum number of epochs."""
CHECKED_NODES = 20_000
"""Maximum number of validation nodes whose loss is computed after each epoch."""


@dataclass(frozen=True, eq=False)
class SampledInputs:
    """Features and edges from which neighbourhoods are sampled.

    Attributes:
        x: [n, d] float32 features, dense or ``torch.sparse_csr``.
        graph: the edges.
        terms: features and biases of the edges, by the name of a layer's argument.
    """

    x: Tensor
    graph: Graph
    terms: Mapping[str, Tensor]

    @classmethod
    def of(cls, graph: AttributedGraph, x: Tensor) -> SampledInputs:
        """Return the inputs of a graph whose edges are sorted by destination, and its features."""
        return cls(x, _sorted_graph(graph.edge_index, len(graph)), graph.edge_terms)

    def batch(self, sample: Sample) -> FieldInput:
        """Return the input of a network for the seeds of a sample."""
        terms = tuple(
            {name: one[sample.edges[: graph.num_edges]] for name, one in self.terms.items()}
            for graph in sample.layer_graphs
        )
        layers = tuple((graph, graph.num_dst) for graph in sample.layer_graphs)
        field = Field(sample.nodes, layers)
        return FieldInput(read_features(self.x, sample.nodes), field, terms)


def _sorted_graph(edges: Tensor, nodes: int) -> Graph:
    """Return the graph of edges [2, e] that are sorted by destination and then by source."""
    kind = torch.int32 if max(nodes, edges.shape[1]) < INT32_END else torch.int64
    source, destination = edges.to(kind)
    rowptr = torch.zeros(nodes + 1, dtype=kind)
    torch.cumsum(torch.bincount(destination, minlength=nodes), 0, out=rowptr[1:])
    return Graph.from_layout(
        lay_out_rows(rowptr, source, torch.arange(len(source), dtype=kind), nodes)
    )


@dataclass(frozen=True, eq=False)
class SampledBatches:
    """Nodes of one part of the data, whose neighbourhoods are sampled for each batch.

    Attributes:
        inputs: features and edges of the graph.
        sampler: sampler of the neighbourhoods.
        nodes: [k] the nodes of the part.
        target: [k, 1] their labels.
        is_fixed: True to sample the same neighbours in each epoch.
    """

    inputs: SampledInputs
    sampler: NeighborSampler
    nodes: Tensor
    target: Tensor
    is_fixed: bool

    def __len__(self) -> int:
        return len(self.nodes)

    def batch(self, positions: Tensor) -> tuple[Any, Tensor, None]:
        """Return the neighbourhoods of the nodes at these positions, their labels [b, 1], and None,
        because all losses have the factor 1. If the batches are fixed, the first position is the
        seed of the neighbourhoods; otherwise torch's random generator draws it.
        """
        seed = int(positions[0] if self.is_fixed else torch.randint(1 << 62, ()))
        sample = self.sampler.sample(self.nodes[positions], random_seed=seed)
        return self.inputs.batch(sample), self.target[positions], None


def fit_sampled(
    network: nn.Module,
    loss: Loss,
    inputs: SampledInputs,
    y: Tensor,
    train: Tensor,
    val: Tensor,
    settings: NodeSettings,
    on_epoch: Callable[[EpochRecord], None],
) -> History:
    r"""Train a network on sampled neighbourhoods of the training nodes.

    After each epoch, the loss on sampled neighbourhoods of at most 20,000 validation nodes is
    computed. At the end, the network has the weights of the epoch with the lowest loss.

    Args:
        network: the network, which is trained in place.
        loss: element-wise function of outputs and labels.
        inputs: features and edges.
        y: [n] float64 classes from 0, or standardised numbers.
        train: [k] training nodes.
        val: [m] validation nodes.
        settings: settings of the training.
        on_epoch: called after every epoch.

    Returns:
        The record of each epoch.

    Raises:
        TrainingError: the loss is not finite.
    """
    # The training loop takes long to import.
    from gattn.apps.fitting.loop import LoopSettings, fit_network

    if len(val) > CHECKED_NODES:
        generator = torch.Generator().manual_seed(settings.seed)
        val = val[torch.randperm(len(val), generator=generator)[:CHECKED_NODES].sort().values]
    sampler = NeighborSampler(inputs.graph, (FANOUT, *[LATER_FANOUT] * (settings.layers - 1)))
    part, checked = (
        SampledBatches(inputs, sampler, nodes, y[nodes, None].float(), nodes is val)
        for nodes in (train, val)
    )
    epochs = min(settings.epochs, MOST_EPOCHS, max(1, SEEDS // max(len(train), 1)))
    loop = LoopSettings(
        epochs=epochs, patience=epochs, batch_size=BATCH, validation_batches=1, average=0.0,
        learning_rate=settings.learning_rate, weight_decay=settings.weight_decay,
        seed=settings.seed,
    )  # fmt: skip
    return fit_network(network, loss, part, checked, loop, on_epoch=on_epoch)
