"""Attention network that is trained on sampled neighbourhoods and predicts layer by layer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from gattn.apps.fitting.losses import check_finite
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.nodes.edges import EdgeEncoder
from gattn.apps.nodes.settings import NodeSettings
from gattn.data import NeighborLoader
from gattn.distributed import Processes, sum_gradients
from gattn.graph import Graph
from gattn.models import layerwise_inference
from gattn.nn import GATConv, GATv2Conv, TransformerConv

__all__ = ["FANOUT", "ONE", "SamplePlan", "SampledNetwork", "fit_sampled", "plan_samples"]

CONVOLUTIONS: dict[str, Any] = {
    "stacked": GATConv, "gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv,
}  # fmt: skip
BATCH, FANOUT, LATER_FANOUT = 1024, 10, 5
"""Number of training nodes in a step; number of neighbours that are sampled for each of them, and
for each node in later hops.
"""
SEEDS, MOST_EPOCHS, FEWEST_EPOCHS = 2_000_000, 40, 1
"""Number of training nodes in all steps together, and bounds of the number of epochs."""
CHECKED_NODES = 20_000
"""Maximum number of validation nodes whose loss is computed after each epoch."""
DROPOUT, RATE, DECAY = 0.1, 4e-3, 1e-4
"""Dropout, learning rate and weight decay of the network in ``stacked``."""
BATCH_EDGES = 1 << 20
ONE = Processes(0, 1, torch.device("cpu"))
"""Rank and number of processes of a training that torchrun did not start."""


class SampledNetwork(nn.Module):
    r"""Network of attention layers with a skip connection and a normalisation in each layer.

    .. math:: h' = \mathrm{relu}\bigl(\mathrm{norm}(\mathrm{conv}(h) + W h)\bigr)

    Every layer reads only neighbours, so that it can be computed for any set of destinations.

    Args:
        settings: settings; the layer type and the sizes are read.
        features: number of features.
        outputs: number of classes; 1 for numbers.
        edges: encoder of the columns of edges; None if none is read.

    Reference:
        Luo et al., "Classic GNNs are strong baselines" (NeurIPS 2024).
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self,
        settings: NodeSettings,
        features: int,
        outputs: int,
        edges: EdgeEncoder | None = None,
    ) -> None:
        super().__init__()
        edge_dim = None if edges is None else edges.width or None
        self._weight = None if edges is None else edges.weight_feature
        kind, width, heads = CONVOLUTIONS[settings.model], settings.width, settings.heads
        loops = {} if settings.model == "transformer" else {"add_self_loops": False}
        inputs = [features, *[width] * (settings.layers - 1)]
        self.convs = nn.ModuleList(
            kind(
                size, width // heads, heads, dropout=settings.dropout, edge_dim=edge_dim, **loops
            )
            for size in inputs
        )  # fmt: skip
        self.skips = nn.ModuleList(nn.Linear(size, width) for size in inputs)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in inputs)
        self.out, self.dropout = nn.Linear(width, outputs), nn.Dropout(settings.dropout)
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def forward(self, x: Tensor, graphs: list[Graph], edge_attr: Tensor | None = None) -> Tensor:
        """Return the outputs of the last layer's destinations, [b, outputs].

        Args:
            x: [n, d] features of the nodes of a batch.
            graphs: the bipartite graph of each layer.
            edge_attr: [e, d] features of the edges of the batch; None if there are none. The edges
                of a layer are the first of them.
        """
        for place, graph in enumerate(graphs):
            attributes = None if edge_attr is None else edge_attr[: graph.num_edges]
            x = self.layer(place, (x, x[: graph.num_dst]), graph, attributes)
        return self.out(self.dropout(x))

    def layer(
        self,
        place: int,
        x: tuple[Tensor, Tensor],
        graph: Graph,
        edge_attr: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden vectors [m, width] of a layer's destinations."""
        if place == 0:
            x = self._scaled(x[0]), self._scaled(x[1])
        # The destinations are the first sources, so that both have the same dropout.
        inputs = self.dropout(x[0])
        ends = inputs, inputs[: graph.num_dst]
        terms = self._edge_terms(edge_attr)
        hidden = self.convs[place](ends, graph, **terms) + self.skips[place](ends[1])
        return self.norms[place](hidden).relu()

    def _edge_terms(self, edge_attr: Tensor | None) -> dict[str, Tensor]:
        """Return the arguments of an attention layer for the attributes of its edges."""
        if edge_attr is None:
            return {}
        terms = {"edge_attr": edge_attr}
        if self._weight is not None:
            place, spread = self._weight
            terms["attn_bias"] = edge_attr[:, place] * spread
        return terms

    def attention(
        self, x: Tensor, graph: Graph, edge_attr: Tensor | None = None
    ) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer its edges [2, e] and their attention weights [e, h]."""
        weights, terms = [], self._edge_terms(edge_attr)
        for place, conv in enumerate(self.convs):
            inputs = self._scaled(x) if place == 0 else x
            weights.append(conv(inputs, graph, return_attention_weights=True, **terms)[1])
            x = self.layer(place, (x, x), graph, edge_attr)
        return weights

    def _scaled(self, x: Tensor) -> Tensor:
        return ((x - self.center) / self.scale).clamp(-10, 10)

    @torch.no_grad()
    def embed_all(
        self, x: Tensor | NDArray, graph: Graph, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Return the hidden vectors [n, width] of all nodes, computed layer by layer."""
        layers = [
            lambda pair, part, some=None, place=place: self.layer(place, pair, part, some)
            for place in range(len(self.convs))
        ]
        return layerwise_inference(layers, x, graph, edge_attr, batch_edges=BATCH_EDGES)


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
    edge_attr: Tensor | None = None,
    edges: EdgeEncoder | None = None,
    processes: Processes = ONE,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> tuple[SampledNetwork, History]:
    r"""Train a network on sampled neighbourhoods of the training nodes.

    After each epoch, the loss on sampled neighbourhoods of at most 20,000 validation nodes is
    computed. The network has the weights of the epoch with the lowest loss.

    Several processes divide the nodes of each step, and sum their gradients:

    .. math:: \nabla L = \frac{1}{b} \sum_r \sum_{i \in B_r} \nabla \ell_i, \qquad
        B = \bigcup_r B_r, \quad b = |B|

    All processes then have the same network. It is the network of one process up to the random
    numbers of the samples and of dropout.

    Args:
        x: [n, d] float32 features, in memory or mapped from a file.
        graph: the edges.
        y: [n] float64 classes from 0, or standardised numbers.
        train: [k] training nodes.
        val: [m] validation nodes.
        outputs: number of classes; 1 for numbers.
        plan: sizes of the training.
        is_class: True for classes.
        edge_attr: [e, k] float32 features of the edges, in memory or mapped from a file; None if
            there are none.
        edges: encoder of these features.
        processes: the processes that train the network together. All of them must have the same
            graph, labels and parts.
        on_epoch: called after every epoch.

    Returns:
        The network, and the record of each epoch.

    Raises:
        TrainingError: the loss is not finite.
    """
    seed, size = plan.settings.seed, processes.size
    # This generator makes the choices that are the same in all processes.
    generator = torch.Generator().manual_seed(seed)
    process_seed = int(np.random.SeedSequence([seed, processes.rank]).generate_state(1)[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SampledNetwork(plan.settings, x.shape[1], outputs, edges)
        torch.manual_seed(process_seed)
        rows = train[torch.randperm(len(train), generator=generator)[:100_000].sort().values]
        network.center.copy_(x[rows].mean(0))
        network.scale.copy_(x[rows].std(0, correction=0).clamp(min=1e-6))
        if len(val) > CHECKED_NODES:
            val = val[torch.randperm(len(val), generator=generator)[:CHECKED_NODES].sort().values]
        data = Data(x=x, y=y.long() if is_class else y.float())

        def with_attributes(batch: Any) -> Any:
            if edge_attr is not None:
                batch.edge_attr = edge_attr[batch.e_id]
            return batch

        def loader(nodes: Tensor, order: torch.Generator | None) -> NeighborLoader:
            return NeighborLoader(
                data, plan.fanout, nodes, graph=graph, transform=with_attributes,
                batch_sampler=_Shares(len(nodes), processes, order),
                generator=torch.Generator().manual_seed(process_seed),
            )  # fmt: skip

        batches = loader(train, generator)
        optimizer = torch.optim.AdamW(network.parameters(), plan.rate, weight_decay=plan.decay)
        steps = plan.epochs * -(-len(train) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, plan.rate, total_steps=steps, pct_start=0.1
        )
        records: list[EpochRecord] = []
        best: dict[str, Tensor] = {}
        for epoch in range(plan.epochs):
            began, total = time.perf_counter(), 0.0
            network.train()
            for batch, (nodes, all_nodes) in zip(batches, _sizes(len(train), processes)):
                loss = _loss(network, batch, nodes, is_class=is_class)
                optimizer.zero_grad()
                (loss / all_nodes).backward()
                if size > 1:
                    sum_gradients(network.parameters())
                nn.utils.clip_grad_norm_(network.parameters(), 5.0)
                optimizer.step()
                schedule.step()
                total += float(loss.detach())
            network.eval()
            # The same neighbours are sampled after each epoch.
            checks = zip(loader(val, None), _sizes(len(val), processes))
            with torch.no_grad():
                losses = [
                    float(_loss(network, batch, nodes, is_class=is_class))
                    for batch, (nodes, _) in checks
                ]
            training, validation = _sums([total, sum(losses)], processes)
            training, validation = training / len(train), validation / len(val)
            check_finite(training, "training", epoch, plan.rate)
            check_finite(validation, "validation", epoch, plan.rate)
            record = EpochRecord(
                epoch, training, validation, float(schedule.get_last_lr()[0]),
                time.perf_counter() - began,
            )  # fmt: skip
            records.append(record)
            on_epoch(record)
            if validation <= min(one.validation_loss for one in records):
                best = {name: t.clone() for name, t in network.state_dict().items()}
        network.load_state_dict(best)
    chosen = int(np.argmin([record.validation_loss for record in records]))
    return network.eval(), History(tuple(records), chosen)


class _Shares:
    """Iterable of the positions of this process's nodes in each step.

    In a step without nodes for this process, it yields the first node of the step, whose loss must
    be ignored.

    Args:
        count: number of nodes.
        processes: the processes that divide each step.
        order: generator of the order of the nodes; None to take them in order.
    """

    def __init__(self, count: int, processes: Processes, order: torch.Generator | None) -> None:
        self.count, self.processes, self.order = count, processes, order

    def __iter__(self) -> Iterator[list[int]]:
        positions = torch.arange(self.count)
        if self.order is not None:
            positions = torch.randperm(self.count, generator=self.order)
        for step in positions.split(BATCH):
            share = step[self.processes.rank :: self.processes.size]
            yield (share if len(share) else step[:1]).tolist()


def _sizes(count: int, processes: Processes) -> Iterator[tuple[int, int]]:
    """Yield for each step the number of nodes of this process and of all processes."""
    for start in range(0, count, BATCH):
        nodes = min(BATCH, count - start)
        yield len(range(processes.rank, nodes, processes.size)), nodes


def _sums(values: Sequence[float], processes: Processes) -> list[float]:
    """Return the sum of each value over all processes."""
    total = torch.tensor(values, dtype=torch.float64)
    if processes.size > 1:
        dist.all_reduce(total)
    return total.tolist()


def _loss(network: SampledNetwork, batch: Any, nodes: int, *, is_class: bool) -> Tensor:
    """Return the sum of the losses of the first nodes of a batch."""
    out = network(batch.x, batch.layer_graphs, batch.edge_attr)[:nodes]
    target = batch.y[:nodes]
    if is_class:
        return F.cross_entropy(out, target, reduction="sum")
    return F.mse_loss(out[:, 0], target, reduction="sum")
