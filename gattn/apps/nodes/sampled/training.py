"""Training of attention networks on sampled neighbourhoods."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.fitting.losses import check_finite
from gattn.apps.fitting.types import EpochRecord, History
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
        inputs = graph.edge_inputs
        named = {}
        if inputs is not None:
            named = {"edge_attr": inputs.features, "attn_bias": inputs.bias}
        terms = {name: tensor for name, tensor in named.items() if tensor is not None}
        return cls(x, _sorted_graph(graph.edge_index, len(graph)), terms)

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


def fit_sampled(
    network: nn.Module,
    inputs: SampledInputs,
    y: Tensor,
    train: Tensor,
    val: Tensor,
    settings: NodeSettings,
    *,
    is_class: bool,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> History:
    r"""Train a network on sampled neighbourhoods of the training nodes.

    After each epoch, the loss on sampled neighbourhoods of at most 20,000 validation nodes is
    computed. At the end, the network has the weights of the epoch with the lowest loss.

    Args:
        network: the network.
        inputs: features and edges.
        y: [n] float64 classes from 0, or standardised numbers.
        train: [k] training nodes.
        val: [m] validation nodes.
        settings: settings of the training.
        is_class: True for classes.
        on_epoch: called after every epoch.

    Returns:
        The record of each epoch.

    Raises:
        TrainingError: the loss is not finite.
    """
    seed, rate = settings.seed, settings.learning_rate
    generator = torch.Generator().manual_seed(seed)
    own_seed = int(np.random.SeedSequence([seed, 0]).generate_state(1)[0])
    sample_draw = torch.Generator().manual_seed(own_seed)
    fanout = (FANOUT, *[LATER_FANOUT] * (settings.layers - 1))
    sampler = NeighborSampler(inputs.graph, fanout)
    epochs = min(settings.epochs, MOST_EPOCHS, max(1, SEEDS // max(len(train), 1)))
    if len(val) > CHECKED_NODES:
        val = val[torch.randperm(len(val), generator=generator)[:CHECKED_NODES].sort().values]
    target = y.long() if is_class else y.float()

    def loss_of(nodes: Tensor, random_seed: int) -> Tensor:
        """Return the sum of the losses of the nodes of a step."""
        batch = inputs.batch(sampler.sample(nodes, random_seed=random_seed))
        out, truth = network(batch), target[nodes]
        if is_class:
            return F.cross_entropy(out, truth, reduction="sum")
        return F.mse_loss(out[:, 0], truth, reduction="sum")

    optimizer = torch.optim.AdamW(network.parameters(), rate, weight_decay=settings.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=epochs * -(-len(train) // BATCH), pct_start=0.1
    )
    records: list[EpochRecord] = []
    best: dict[str, Tensor] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(own_seed)
        for epoch in range(epochs):
            began, total = time.perf_counter(), 0.0
            network.train()
            order = train[torch.randperm(len(train), generator=generator)]
            for nodes in order.split(BATCH):
                random_seed = int(torch.randint(1 << 62, (), generator=sample_draw))
                loss = loss_of(nodes, random_seed)
                optimizer.zero_grad()
                (loss / len(nodes)).backward()
                nn.utils.clip_grad_norm_(network.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                total += float(loss.detach())
            network.eval()
            with torch.no_grad():
                # The same neighbours are sampled after each epoch.
                checked = sum(
                    float(loss_of(nodes, place)) for place, nodes in enumerate(val.split(BATCH))
                )
            training, validation = total / len(train), checked / len(val)
            check_finite(training, "training", epoch, rate)
            check_finite(validation, "validation", epoch, rate)
            seconds = time.perf_counter() - began
            last_rate = float(schedule.get_last_lr()[0])
            records.append(EpochRecord(epoch, training, validation, last_rate, seconds))
            on_epoch(records[-1])
            if validation <= min(one.validation_loss for one in records):
                best = {name: t.clone() for name, t in network.state_dict().items()}
    network.load_state_dict(best)
    network.eval()
    return History(tuple(records), int(np.argmin([one.validation_loss for one in records])))
