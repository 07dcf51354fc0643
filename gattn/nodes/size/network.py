"""Attention network that is trained on sampled neighbourhoods and predicts layer by layer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from gattn.data import NeighborLoader
from gattn.graph import Graph
from gattn.models import layerwise_inference
from gattn.nn import GATConv, GATv2Conv, TransformerConv
from gattn.nodes.settings import NodeSettings
from gattn.training.losses import check_finite
from gattn.training.types import EpochRecord, History

__all__ = ["FANOUT", "SamplePlan", "SampledNetwork", "fit_sampled", "plan_samples"]

CONVOLUTIONS: dict[str, Any] = {
    "stacked": GATConv, "gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv,
}  # fmt: skip
BATCH, FANOUT, LATER_FANOUT = 1024, 10, 5
"""Number of training nodes in a step; number of neighbours that are sampled for each of them, and
for each node in later hops.
"""
SEEDS, MOST_EPOCHS, FEWEST_EPOCHS = 2_000_000, 40, 1
"""Number of training nodes in all steps together, and bounds of the number of epochs."""
CHECKED = 20_000
"""Maximum number of validation nodes whose loss is computed after each epoch."""
DROPOUT, RATE, DECAY = 0.1, 4e-3, 1e-4
"""Dropout, learning rate and weight decay of the network in ``stacked``."""
BATCH_EDGES = 1 << 20


class SampledNetwork(nn.Module):
    r"""Network of attention layers with a skip connection and a normalisation in each layer.

    .. math:: h' = \mathrm{relu}\bigl(\mathrm{norm}(\mathrm{conv}(h) + W h)\bigr)

    Every layer reads only neighbours, so that it can be computed for any set of destinations.

    Args:
        settings: settings; the layer type and the sizes are read.
        features: number of features.
        outputs: number of classes; 1 for numbers.

    Reference:
        Luo et al., "Classic GNNs are strong baselines" (NeurIPS 2024).
    """

    center: Tensor
    scale: Tensor

    def __init__(self, settings: NodeSettings, features: int, outputs: int) -> None:
        super().__init__()
        kind, width, heads = CONVOLUTIONS[settings.model], settings.width, settings.heads
        loops = {} if settings.model == "transformer" else {"add_self_loops": False}
        inputs = [features, *[width] * (settings.layers - 1)]
        self.convs = nn.ModuleList(
            kind(size, width // heads, heads, dropout=settings.dropout, **loops) for size in inputs
        )
        self.skips = nn.ModuleList(nn.Linear(size, width) for size in inputs)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in inputs)
        self.out, self.dropout = nn.Linear(width, outputs), nn.Dropout(settings.dropout)
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def forward(self, x: Tensor, graphs: list[Graph]) -> Tensor:
        """Return the outputs of the last layer's destinations, [b, outputs].

        Args:
            x: [n, d] features of the nodes of a batch.
            graphs: the bipartite graph of each layer.
        """
        for place, graph in enumerate(graphs):
            x = self.layer(place, (x, x[: graph.num_dst]), graph)
        return self.out(self.dropout(x))

    def layer(self, place: int, x: tuple[Tensor, Tensor], graph: Graph) -> Tensor:
        """Return the hidden vectors [m, width] of a layer's destinations."""
        if place == 0:
            x = self._scaled(x[0]), self._scaled(x[1])
        # The destinations are the first sources, so that both have the same dropout.
        inputs = self.dropout(x[0])
        ends = inputs, inputs[: graph.num_dst]
        hidden = self.convs[place](ends, graph) + self.skips[place](ends[1])
        return self.norms[place](hidden).relu()

    def attention(self, x: Tensor, graph: Graph) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer its edges [2, e] and their attention weights [e, h]."""
        weights = []
        for place, conv in enumerate(self.convs):
            inputs = self._scaled(x) if place == 0 else x
            weights.append(conv(inputs, graph, return_attention_weights=True)[1])
            x = self.layer(place, (x, x), graph)
        return weights

    def _scaled(self, x: Tensor) -> Tensor:
        return ((x - self.center) / self.scale).clamp(-10, 10)

    @torch.no_grad()
    def embed_all(self, x: Tensor | NDArray, graph: Graph) -> Tensor:
        """Return the hidden vectors [n, width] of all nodes, computed layer by layer."""
        layers = [
            lambda pair, part, place=place: self.layer(place, pair, part)
            for place in range(len(self.convs))
        ]
        return layerwise_inference(layers, x, graph, batch_edges=BATCH_EDGES)


@dataclass(frozen=True)
class SamplePlan:
    """Sizes of a training on samples.

    Attributes:
        settings: settings of the network.
        fanout: number of neighbours to sample in each hop.
        epochs: number of epochs.
        rate: highest learning rate.
        decay: weight decay.
    """

    settings: NodeSettings
    fanout: tuple[int, ...]
    epochs: int
    rate: float
    decay: float


def plan_samples(settings: NodeSettings, train: int) -> SamplePlan:
    """Choose the sizes of a training on samples for a number of training nodes.

    The network of ``stacked`` has its own dropout, learning rate and weight decay. Any other model
    uses those of the settings.
    """
    fanout = (FANOUT, *[LATER_FANOUT] * (settings.layers - 1))
    epochs = min(settings.epochs, MOST_EPOCHS, max(FEWEST_EPOCHS, SEEDS // max(train, 1)))
    if settings.model != "stacked":
        rate, decay = settings.learning_rate, settings.weight_decay
        return SamplePlan(settings, fanout, epochs, rate, decay)
    return SamplePlan(replace(settings, dropout=DROPOUT), fanout, epochs, RATE, DECAY)


def fit_sampled(
    x: Tensor,
    graph: Graph,
    y: Tensor,
    train: Tensor,
    val: Tensor,
    outputs: int,
    plan: SamplePlan,
    *,
    is_class: bool,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> tuple[SampledNetwork, History]:
    """Train a network on sampled neighbourhoods of the training nodes.

    After each epoch, the loss on sampled neighbourhoods of at most 20,000 validation nodes is
    computed. The network has the weights of the epoch with the lowest loss.

    Args:
        x: [n, d] float32 features, in memory or mapped from a file.
        graph: the edges.
        y: [n] float64 classes from 0, or standardised numbers.
        train: [k] training nodes.
        val: [m] validation nodes.
        outputs: number of classes; 1 for numbers.
        plan: sizes of the training.
        is_class: True for classes.
        on_epoch: called after every epoch.

    Returns:
        The network, and the record of each epoch.

    Raises:
        TrainingError: the loss is not finite.
    """
    seed = plan.settings.seed
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SampledNetwork(plan.settings, x.shape[1], outputs)
        rows = train[torch.randperm(len(train), generator=generator)[:100_000].sort().values]
        network.center.copy_(x[rows].mean(0))
        network.scale.copy_(x[rows].std(0, correction=0).clamp(min=1e-6))
        if len(val) > CHECKED:
            val = val[torch.randperm(len(val), generator=generator)[:CHECKED].sort().values]
        target = y.long() if is_class else y.float()
        data = Data(x=x, y=target)

        def loader(nodes: Tensor, chosen: torch.Generator, *, shuffle: bool) -> NeighborLoader:
            return NeighborLoader(
                data, plan.fanout, nodes, graph=graph, batch_size=BATCH, shuffle=shuffle,
                generator=chosen,
            )  # fmt: skip

        batches = loader(train, generator, shuffle=True)
        optimizer = torch.optim.AdamW(network.parameters(), plan.rate, weight_decay=plan.decay)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, plan.rate, total_steps=plan.epochs * len(batches), pct_start=0.1
        )
        records: list[EpochRecord] = []
        best: dict[str, Tensor] = {}
        for epoch in range(plan.epochs):
            began, total, count = time.perf_counter(), 0.0, 0
            network.train()
            for batch in batches:
                loss = _loss(network, batch, is_class=is_class)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                total += float(loss.detach()) * batch.batch_size
                count += batch.batch_size
            network.eval()
            # The same neighbours are sampled after each epoch.
            checks = loader(val, torch.Generator().manual_seed(seed), shuffle=False)
            with torch.no_grad():
                losses = [
                    float(_loss(network, batch, is_class=is_class)) * batch.batch_size
                    for batch in checks
                ]
            validation = sum(losses) / len(val)
            check_finite(total / count, "training", epoch, plan.rate)
            check_finite(validation, "validation", epoch, plan.rate)
            record = EpochRecord(
                epoch, total / count, validation, float(schedule.get_last_lr()[0]),
                time.perf_counter() - began,
            )  # fmt: skip
            records.append(record)
            on_epoch(record)
            if validation <= min(one.validation_loss for one in records):
                best = {name: t.clone() for name, t in network.state_dict().items()}
        network.load_state_dict(best)
    chosen = int(np.argmin([record.validation_loss for record in records]))
    return network.eval(), History(tuple(records), chosen)


def _loss(network: SampledNetwork, batch: Any, *, is_class: bool) -> Tensor:
    out = network(batch.x, batch.layer_graphs)
    target = batch.y[: batch.batch_size]
    return F.cross_entropy(out, target) if is_class else F.mse_loss(out[:, 0], target)
