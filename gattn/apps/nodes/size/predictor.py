"""Model of the nodes of a large graph: a stack whose parts are trained on samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.nodes.attributed import AttributedGraph, GraphError, compacted
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.predictor import NodeProblem, label_moments
from gattn.apps.nodes.settings import NodeSettings, NodeTask
from gattn.apps.nodes.size.blocks import SampledBlocks, sample
from gattn.apps.nodes.size.components import (
    LINEAR_ROWS,
    PERCEPTRON_ROWS,
    VALIDATION_ROWS,
    SampledComponents,
)
from gattn.apps.nodes.size.network import ONE, SampledNetwork, fit_sampled, plan_samples
from gattn.apps.nodes.size.scratch import Scratch, pieces
from gattn.apps.nodes.stack.blocks import Reduction
from gattn.apps.nodes.stack.training_nodes import TrainingNodes
from gattn.apps.nodes.stack.weights import choose_weights, fit_weights, pool_by_name
from gattn.apps.run.model_io import remove_prefix
from gattn.apps.runtime.threads import limited_threads
from gattn.distributed import Processes
from gattn.sampling import NeighborSampler

__all__ = ["SampledPredictor"]

NETWORK = "gat"
LABEL_FREE = ("constant", "columns", "neighbours", NETWORK)
"""Names of the components that read no labels, so that they can also predict other graphs."""
SHOWN_SEEDS, SHOWN_FANOUT = 64, 12
"""Number of nodes whose neighbourhoods are sampled for the picture of the attention weights, and
number of neighbours in each hop.
"""
NODE_FANOUT = 1024
"""Maximum number of edges into a single node whose attention weights are computed."""


class SampledPredictor:
    """Stack of models for a graph above the memory budget.

    ===============  =========================================================================
    ``constant``     share of each class, or the mean
    ``columns``      linear model on a node's features
    ``neighbours``   perceptron on a node's features, their means over one and two steps, and
                     degrees
    ``labels``       the same, also on the labels around a node
    ``propagation``  labels spread along the edges
    ``gat``          attention network, trained on sampled neighbourhoods
    ===============  =========================================================================

    All predictions are computed for all nodes and read all edges: means over neighbours a few
    columns at a time, the perceptrons for one range of nodes at a time, and the network layer by
    layer. Columns of edges are read as by a model of the whole graph. Attention reads the features
    and the weights of edges; the perceptrons read means with these weights, means for each type,
    and means of the features. With times, messages and means never come from the future.

    Weights of components are fitted on the validation part. A model other than ``stacked`` has the
    component ``gat`` only.

    Attributes:
        settings: settings of the model and of its training.
        task: ``"regression"`` or ``"classification"``.
        encoder: encoder of the features.
        outputs: number of classes; 1 for numbers.
        weights: weight of each component by name, for the graph of :meth:`fit`.
        other_weights: weights of the components without labels, for other graphs.
        validation: [m, outputs] predictions of the validation part. Empty after
            :meth:`from_state`.
        validation_parts: the same by component.
        validation_loss: loss of ``validation``; NaN after :meth:`from_state`.
        history: training history of the network; empty after :meth:`from_state`.
        stopped: False; a sampled network is trained to its end.
        threads: number of threads inside an operator; 0 for torch's number.
    """

    stopped = False
    threads = 0

    def __init__(
        self,
        settings: NodeSettings,
        task: NodeTask,
        encoder: FeatureEncoder,
        outputs: int,
    ) -> None:
        self.settings, self.encoder, self.outputs = settings, encoder, outputs
        self.task: NodeTask = task
        self.mean, self.std = 0.0, 1.0
        self.weights: dict[str, float] = {}
        self.other_weights: dict[str, float] = {}
        self.validation = torch.zeros(0, outputs, dtype=torch.float64)
        self.validation_parts: dict[str, Tensor] = {}
        self.validation_loss = float("nan")
        self.history: list[History] = []
        self._network: SampledNetwork
        self._reduction = Reduction(np.zeros((0, 0), np.float32))
        self._with_direction = False
        self._components = SampledComponents(outputs, settings.seed, is_class=self._is_class)
        self._training: TrainingNodes
        self._last: tuple[AttributedGraph, dict[str, NDArray[np.float32]], Scratch] | None = None
        self._shown: tuple[AttributedGraph, list[tuple[Tensor, Tensor]]] | None = None
        self._inputs: tuple[AttributedGraph, SampledBlocks] | None = None
        self._matched: tuple[AttributedGraph, NDArray[np.int64] | None] | None = None

    @property
    def network(self) -> SampledNetwork:
        """The attention network."""
        return self._network

    @property
    def _is_class(self) -> bool:
        return self.task == "classification"

    @property
    def _is_stack(self) -> bool:
        return self.settings.model == "stacked"

    @classmethod
    def fit(
        cls,
        problem: NodeProblem,
        encoder: FeatureEncoder,
        task: NodeTask,
        settings: Sequence[NodeSettings],
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        threads: int = 0,
        processes: Processes = ONE,
    ) -> list[SampledPredictor]:
        """Train a model for each of the settings.

        Several processes train the attention network together; the first process alone fits the
        other models.

        Args:
            problem: a compact graph, its features, labels and parts.
            encoder: encoder of the features.
            task: type of the labels.
            settings: settings of each model, which differ in their seeds only.
            on_epoch: called after every epoch of the networks.
            threads: number of threads inside an operator; 0 for torch's number.
            processes: the processes that train together; all have the same arguments.

        Returns:
            The models; in a process other than the first, they have the network only.

        Raises:
            GraphError: the model is gps, which attends among all pairs of nodes.
            TrainingError: a loss is not finite.
        """
        if settings[0].model == "gps":
            raise GraphError(
                "gps attends among all pairs of nodes, so it cannot be trained on samples: use "
                "gat, gatv2, transformer or stacked, or train on the whole graph in one process "
                "with a larger --memory"
            )
        first, graph = settings[0], problem.graph
        with _threads(threads):
            blocks = SampledBlocks(graph, problem.x, None, first.seed, with_direction=None)
            predictors = []
            for one in settings:
                predictor = cls(one, task, encoder, problem.outputs)
                predictor.threads = threads
                predictor._fit_network(problem, blocks, on_epoch, processes)
                if not processes.rank:
                    predictor._fit(problem, blocks)
                predictors.append(predictor)
        return predictors

    def _fit_network(
        self,
        problem: NodeProblem,
        blocks: SampledBlocks,
        on_epoch: Callable[[EpochRecord], None],
        processes: Processes,
    ) -> None:
        self.mean, self.std = label_moments(problem, self.task)
        self._network, history = fit_sampled(
            blocks.network_features, blocks.graph, (problem.y - self.mean) / self.std,
            problem.train, problem.val, self.outputs,
            plan_samples(self.settings, len(problem.train)), is_class=self._is_class,
            edge_attr=blocks.attributes, edges=self.encoder.edges, processes=processes,
            on_epoch=on_epoch,
        )  # fmt: skip
        self.history = [history]

    def _fit(self, problem: NodeProblem, blocks: SampledBlocks) -> None:
        """Fit all models other than the network, and the weights."""
        graph, is_class, seed = problem.graph, self._is_class, self.settings.seed
        y = (problem.y - self.mean) / self.std
        train, val = problem.train.numpy(), problem.val.numpy()
        targets = y.numpy()
        self._reduction, self._with_direction = blocks.reduction, blocks.with_direction
        self._training = TrainingNodes.fit(graph, train)
        self._matched = graph, train
        self._components.labels = targets[train]
        scratch, components = Scratch(), self._components
        parts: dict[str, NDArray[np.float32]] = {}
        if self._is_stack:
            rows, val_rows = sample(train, LINEAR_ROWS, seed), sample(val, VALIDATION_ROWS, seed)
            components.fit_linear(problem.x, blocks, targets, rows, val_rows)
            rows = sample(train, PERCEPTRON_ROWS, seed)
            components.fit_perceptron("neighbours", blocks, [], targets, rows)
            parts |= components.without_labels(blocks, scratch)
            around = components.around(blocks, parts["neighbours"], train, scratch)
            components.fit_perceptron("labels", blocks, [around], targets, rows)
            parts |= components.with_labels(blocks, around, train, scratch)
        parts[NETWORK] = self._by_network(blocks, scratch)
        val_rows = sample(val, VALIDATION_ROWS, seed)
        truth = targets[val_rows]
        at_rows = {name: part[val_rows].astype(np.float64) for name, part in parts.items()}
        weights, _ = choose_weights(list(at_rows.values()), truth, seed, is_class=is_class)
        self.weights = dict(zip(parts, weights.tolist()))
        other = {name: p for name, p in at_rows.items() if name in LABEL_FREE}
        of_others = fit_weights(list(other.values()), truth, is_class=is_class)
        self.other_weights = dict(zip(other, of_others.tolist()))
        self._last = graph, parts, scratch
        self._shown = graph, self._shown_attention(blocks)
        at_val = {
            name: torch.from_numpy(part[val].astype(np.float64)) * self.std + self.mean
            for name, part in parts.items()
        }
        self.validation_parts = at_val
        arrays = {name: part.numpy() for name, part in at_val.items()}
        self.validation = torch.from_numpy(pool_by_name(arrays, self.weights, is_class=is_class))
        self.validation_loss = _loss(self.validation, problem.y[problem.val], is_class=is_class)

    def _by_network(self, blocks: SampledBlocks, scratch: Scratch) -> NDArray[np.float32]:
        out = scratch.array(len(blocks.joined), self.outputs)
        hidden = self._embed(blocks)
        with torch.no_grad():
            for rows in pieces(len(out)):
                logits = self._network.out(hidden[rows])
                out[rows] = (logits.softmax(1) if self._is_class else logits).numpy()
        return out

    def _embed(self, blocks: SampledBlocks) -> Tensor:
        return self._network.embed_all(blocks.network_features, blocks.graph, blocks.attributes)

    def _pooled(
        self, parts: Mapping[str, NDArray], weights: Mapping[str, float], scratch: Scratch
    ) -> NDArray[np.float32]:
        some = {name: w for name, w in weights.items() if w} or dict(weights)
        n = len(next(iter(parts.values())))
        out = scratch.array(n, self.outputs)
        for rows in pieces(n):
            chunk = {name: parts[name][rows].astype(np.float64) for name in some}
            out[rows] = pool_by_name(chunk, some, is_class=self._is_class)
        return out

    def predict(self, graph: AttributedGraph) -> Tensor:
        """Return probabilities [n, classes], or numbers [n, 1] in the unit of the labels, as
        float64.
        """
        parts = self._parts(graph)
        weights = self.weights if "labels" in parts or not self._is_stack else self.other_weights
        pooled = self._pooled(parts, weights, Scratch())
        result = torch.from_numpy(pooled).double()
        return result if self._is_class else result * self.std + self.mean

    def component_predictions(self, graph: AttributedGraph) -> dict[str, Tensor]:
        """Return the predictions of each component, [n, outputs] float32, by name.

        Components that read labels are left out for another network than that of :meth:`fit`.
        """
        return {
            name: torch.from_numpy(np.asarray(part)) * self.std + self.mean
            for name, part in self._parts(graph).items()
        }

    def predict_edited(self, graph: AttributedGraph, original: AttributedGraph) -> Tensor:
        """Raise an error, because explanations need a model of the whole graph."""
        raise GraphError(
            "nodes explain needs a model that was trained on the whole graph; this one was trained "
            "on samples, because the graph was above the memory budget (--memory)"
        )

    def _parts(self, graph: AttributedGraph) -> dict[str, NDArray[np.float32]]:
        if self._last is None or self._last[0] is not graph:
            with _threads(self.threads):
                self._last = graph, *self._compute(self._compact(graph))
        return self._last[1]

    def _compute(self, graph: AttributedGraph) -> tuple[dict[str, NDArray[np.float32]], Scratch]:
        scratch = Scratch()
        blocks = self._blocks(graph)
        parts: dict[str, NDArray[np.float32]] = {}
        if self._is_stack:
            parts |= self._components.without_labels(blocks, scratch)
        places = self.training_places(graph) if self._is_stack else None
        if places is None:
            parts[NETWORK] = self._by_network(blocks, scratch)
            return parts, scratch
        components = self._components.with_train(places)
        train = places[places >= 0]
        around = components.around(blocks, parts["neighbours"], train, scratch)
        parts |= components.with_labels(blocks, around, train, scratch)
        parts[NETWORK] = self._by_network(blocks, scratch)
        return parts, scratch

    def _blocks(self, graph: AttributedGraph) -> SampledBlocks:
        return SampledBlocks(
            graph, self.encoder.features(graph), self._reduction, self.settings.seed,
            with_direction=self._with_direction,
        )  # fmt: skip

    def _compact(self, graph: AttributedGraph) -> AttributedGraph:
        """Return a graph with compact edges and the inputs of its edges."""
        if graph.compact:
            return graph
        return self.encoder.attach_edges(compacted(graph))

    def training_places(self, graph: AttributedGraph) -> NDArray[np.int64] | None:
        """Return the index [k] of each training node in a graph, and -1 for a node that it lacks;
        None for another network than that of :meth:`fit`.
        """
        if self._matched is None or self._matched[0] is not graph:
            self._matched = graph, self._training.places(self._compact(graph))
        return self._matched[1]

    def embed(self, graph: AttributedGraph) -> Tensor:
        """Return the input of the output layer for each node, [n, width] float32."""
        with _threads(self.threads):
            return self._embed(self._blocks(self._compact(graph)))

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer edges [2, e] and their attention weights [e, h]. The edges are
        sampled around 64 nodes, one of which is the node of highest degree.

        The weights of a node sum to 1 over its sampled edges.
        """
        if self._shown is None or self._shown[0] is not graph:
            with _threads(self.threads):
                self._shown = graph, self._shown_attention(self._blocks(self._compact(graph)))
        return self._shown[1]

    def attention_of(self, graph: AttributedGraph, node: int) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer edges [2, e] and their attention weights [e, h], in the
        neighbourhood of one node.

        The neighbourhood contains all edges into the node, or 1,024 of them if there are more, and
        a sample of the edges of the next layers.
        """
        with _threads(self.threads):
            if self._inputs is None or self._inputs[0] is not graph:
                self._inputs = graph, self._blocks(self._compact(graph))
            return self._sampled_attention(self._inputs[1], np.array([node]), NODE_FANOUT)

    def _shown_attention(self, blocks: SampledBlocks) -> list[tuple[Tensor, Tensor]]:
        nodes = np.arange(len(blocks.features))
        seeds = sample(nodes, SHOWN_SEEDS - 1, self.settings.seed)
        seeds = np.unique(np.append(seeds, int(blocks.means.degrees.argmax())))
        return self._sampled_attention(blocks, seeds, SHOWN_FANOUT)

    @torch.no_grad()
    def _sampled_attention(
        self, blocks: SampledBlocks, seeds: NDArray[np.int64], fanout: int
    ) -> list[tuple[Tensor, Tensor]]:
        """Return the attention weights in the neighbourhoods of seed nodes.

        ``fanout`` is the maximum number of edges into a seed node.
        """
        counts = [fanout, *[SHOWN_FANOUT] * (self.settings.layers - 1)]
        sampler = NeighborSampler(blocks.graph, counts)
        batch = sampler.sample(torch.from_numpy(seeds), random_seed=self.settings.seed)
        edge_attr = None if blocks.attributes is None else blocks.attributes[batch.edges]
        x = blocks.network_features[batch.nodes]
        weights = self._network.attention(x, batch.graph, edge_attr)
        return [(batch.nodes[pairs], alpha) for pairs, alpha in weights]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling without the last graph, because the other process
        has it.
        """
        return {**self.__dict__, "_last": None, "_matched": None, "_shown": None, "_inputs": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        tensors = {f"network.{name}": t for name, t in self._network.state_dict().items()}
        tensors["axes"] = torch.from_numpy(self._reduction.axes)
        tensors |= {f"training.{name}": value for name, value in self._training.state().items()}
        more, components = self._components.state()
        return tensors | more, {
            "sampled": True, "settings": to_table(self.settings), "task": self.task,
            "outputs": self.outputs, "encoder": self.encoder.state(), "mean": self.mean,
            "std": self.std, "weights": self.weights,
            "other_weights": self.other_weights, "with_direction": self._with_direction,
            **components,
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> SampledPredictor:
        """Restore a model from the result of :meth:`state`.

        Raises:
            KeyError: an entry of the state is missing.
            ValueError: a tensor is missing or has another shape.
        """
        settings = from_table(NodeSettings, state["settings"])
        encoder = FeatureEncoder.from_state(state["encoder"])
        model = cls(settings, state["task"], encoder, state["outputs"])
        model.mean, model.std = state["mean"], state["std"]
        model.weights, model.other_weights = state["weights"], state["other_weights"]
        model._with_direction = state["with_direction"]
        model._reduction = Reduction(tensors["axes"].numpy())
        model._training = TrainingNodes.from_state(remove_prefix("training.", tensors))
        features = model._reduction.axes.shape[1] or encoder.width
        model._network = SampledNetwork(
            plan_samples(settings, 1).settings, features, model.outputs, encoder.edges
        )
        try:
            model._network.load_state_dict(remove_prefix("network.", tensors))
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        model._network.eval()
        model._components.load_state(tensors, state)
        return model


def _threads(threads: int) -> Any:
    """Return a context with a number of threads inside an operator; 0 for torch's number."""
    return limited_threads(1 << 62, threads)


def _loss(predicted: Tensor, y: Tensor, *, is_class: bool) -> float:
    if not is_class:
        return float((predicted[:, 0] - y).square().mean())
    return float(-(predicted[torch.arange(len(y)), y.long()] + 1e-12).log().mean())
