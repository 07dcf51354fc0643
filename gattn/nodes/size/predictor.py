"""Model of the nodes of a large graph: a stack whose parts are trained on samples."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pandas.util import hash_pandas_object
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from gattn.distributed import Processes
from gattn.nodes.attributed import AttributedGraph, GraphError, compacted
from gattn.nodes.features import FeatureEncoder
from gattn.nodes.predictor import NodeProblem, label_moments
from gattn.nodes.settings import NodeSettings, NodeTask
from gattn.nodes.size.blocks import SampledBlocks, sample
from gattn.nodes.size.means import NeighbourMeans, propagate, smooth
from gattn.nodes.size.network import ONE, SampledNetwork, fit_sampled, plan_samples
from gattn.nodes.size.scratch import Scratch, pieces
from gattn.nodes.stack.blocks import Reduction, as_matrix
from gattn.nodes.stack.linear import Linear, Scaler, fit_linear
from gattn.nodes.stack.perceptron import Perceptron
from gattn.nodes.stack.weights import choose_weights, fit_weights, pool_by_name
from gattn.sampling import NeighborSampler
from gattn.training.model_io import remove_prefix
from gattn.training.settings import from_table, to_table
from gattn.training.threads import limited_threads
from gattn.training.types import EpochRecord, History

__all__ = ["SampledPredictor", "sampled_notes"]

NETWORK, SMOOTHED = "gat", "smoothed"
LABEL_FREE = ("constant", "columns", "neighbours", NETWORK)
"""Names of the components that read no labels, so that they can also predict other graphs."""
LINEAR_ROWS, PERCEPTRON_ROWS, CHECKED_ROWS = 30_000, 400_000, 50_000
"""Maximum numbers of training nodes of the linear model and of a perceptron, and of validation
nodes by which penalties and weights are chosen.
"""
TYPED_LABELS = 256
"""Maximum number of features that are means of labels over the neighbours of one edge type."""
SHOWN_SEEDS, SHOWN_FANOUT = 64, 12
"""Number of nodes whose neighbourhoods are sampled for the picture of the attention weights, and
number of neighbours in each hop.
"""
NODE_FANOUT = 1024
"""Maximum number of edges into a single node whose attention weights are computed."""


def sampled_notes(settings: NodeSettings) -> list[str]:
    """Return sentences about the parts that are computed on samples, or left out, in a sampled
    training.
    """
    notes = [
        "Wide features are projected to 128 dimensions, and attention weights are shown for "
        "sampled neighbourhoods."
    ]
    if settings.model != "stacked":
        return notes
    return [
        "Models that are left out when neighbours are sampled: trees, closed_form and consistent, "
        "which are slow on many nodes, and the refit to the training and the validation part. The "
        "factors that correct the frequencies of the classes are also left out.",
        f"Models that are fitted to samples: the linear model to at most {LINEAR_ROWS:,} training "
        f"nodes, each perceptron to at most {PERCEPTRON_ROWS:,}, and the weights to at most "
        f"{CHECKED_ROWS:,} validation nodes.",
        "The baselines logistic_regression (ridge) and label_propagation are the components "
        "columns and propagation, with fewer steps than on a whole graph.",
        *notes,
    ]


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
    ``smoothed``     the combination of all others, smoothed along the edges with the labels
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
        smoothed: weights of the components in the combination that is smoothed.
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
        self.smoothed: dict[str, float] = {}
        self.other_weights: dict[str, float] = {}
        self.validation = torch.zeros(0, outputs, dtype=torch.float64)
        self.validation_parts: dict[str, Tensor] = {}
        self.validation_loss = float("nan")
        self.history: list[History] = []
        self._network: SampledNetwork
        self._reduction = Reduction(np.zeros((0, 0), np.float32))
        self._with_direction = False
        self._linear: tuple[Scaler, Linear] | None = None
        self._perceptrons: dict[str, Perceptron] = {}
        self._train_hash = np.zeros(0, np.uint64)
        self._labels = np.zeros(0)
        self._fingerprint = ""
        self._last: tuple[AttributedGraph, dict[str, NDArray[np.float32]], Scratch] | None = None
        self._shown: tuple[AttributedGraph, list[tuple[Tensor, Tensor]]] | None = None
        self._inputs: tuple[AttributedGraph, SampledBlocks] | None = None
        self._compared: tuple[AttributedGraph, bool] | None = None

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
        hashes = _name_hashes(graph)
        self._fingerprint = _fingerprint(graph, hashes)
        self._train_hash, self._labels = hashes[train], targets[train]
        scratch, outputs = Scratch(), self.outputs
        parts: dict[str, NDArray[np.float32]] = {}
        if self._is_stack:
            rows, val_rows = (
                sample(train, LINEAR_ROWS, seed), sample(val, CHECKED_ROWS, seed)
            )  # fmt: skip
            some = np.concatenate([rows, val_rows])
            x = as_matrix(problem.x) if blocks.sparse is not None else None
            block = x[some] if x is not None else blocks.features[some]
            scaler = Scaler.fit([block])
            places = np.arange(len(some))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                linear = fit_linear(
                    scaler.join([block]), targets[some], places[: len(rows)], places[len(rows) :],
                    outputs, is_class=is_class,
                )  # fmt: skip
            self._linear = scaler, linear
            rows = sample(train, PERCEPTRON_ROWS, seed)
            self._perceptrons["neighbours"] = self._fit_perceptron(
                blocks, [blocks.joined[rows]], targets, rows
            )
            parts |= self._label_free(blocks, scratch)
            around = self._around(blocks, parts["neighbours"], train, scratch)
            self._perceptrons["labels"] = self._fit_perceptron(
                blocks, [blocks.joined[rows], around[rows]], targets, rows
            )
            parts |= self._with_labels(blocks, around, train, scratch)
        parts[NETWORK] = self._by_network(blocks, scratch)
        val_rows = sample(val, CHECKED_ROWS, seed)
        truth = targets[val_rows]
        at_rows = {name: part[val_rows].astype(np.float64) for name, part in parts.items()}
        weights, _ = choose_weights(list(at_rows.values()), truth, seed, is_class=is_class)
        self.smoothed = dict(zip(parts, weights.tolist()))
        other = {name: p for name, p in at_rows.items() if name in LABEL_FREE}
        of_others = fit_weights(list(other.values()), truth, is_class=is_class)
        self.other_weights = dict(zip(other, of_others.tolist()))
        self.weights = dict(self.smoothed)
        if self._is_stack:
            combined = self._smooth(parts, blocks.means, train, scratch)
            pair = [pool_by_name(at_rows, self.smoothed, is_class=is_class)]
            pair.append(combined[val_rows].astype(np.float64))
            share, _ = choose_weights(pair, truth, seed, is_class=is_class)
            self.weights = {name: float(share[0]) * w for name, w in self.smoothed.items()}
            self.weights[SMOOTHED] = float(share[1])
            parts[SMOOTHED] = combined
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

    def _fit_perceptron(
        self, blocks: SampledBlocks, dense: list[NDArray], targets: NDArray, rows: NDArray
    ) -> Perceptron:
        sparse = [] if blocks.sparse is None else [blocks.sparse[rows]]
        return Perceptron.fit(
            sparse, dense, targets[rows], np.arange(len(rows)), self.outputs, self.settings.seed,
            is_class=self._is_class,
        )  # fmt: skip

    def _one_hot(self) -> NDArray[np.float32]:
        """Return the labels of the training nodes: one-hot classes or standardised numbers."""
        if self._is_class:
            return np.eye(self.outputs, dtype=np.float32)[self._labels.astype(int)]
        return self._labels[:, None].astype(np.float32)

    def _label_free(self, blocks: SampledBlocks, scratch: Scratch) -> dict[str, NDArray]:
        """Predict all nodes with the constant, the linear model and the first perceptron."""
        assert self._linear is not None
        scaler, linear = self._linear
        n = len(blocks.joined)
        columns = scratch.array(n, self.outputs)
        for rows in pieces(n):
            block = blocks.features[rows] if blocks.sparse is None else blocks.sparse[rows]
            columns[rows] = linear.predict(scaler.join([block]))
        constant = scratch.array(n, self.outputs)
        constant[:] = self._one_hot().mean(0, dtype=np.float64)
        return {
            "constant": constant,
            "columns": columns,
            "neighbours": self._by_perceptron("neighbours", blocks, [], scratch),
        }

    def _by_perceptron(
        self, name: str, blocks: SampledBlocks, more: list[NDArray], scratch: Scratch
    ) -> NDArray[np.float32]:
        out = scratch.array(len(blocks.joined), self.outputs)
        for rows in pieces(len(out)):
            sparse = [] if blocks.sparse is None else [blocks.sparse[rows]]
            dense = [block[rows] for block in (blocks.joined, *more)]
            out[rows] = self._perceptrons[name].predict(sparse, dense)
        return out

    def _around(
        self, blocks: SampledBlocks, guess: NDArray[np.float32], train: NDArray, scratch: Scratch
    ) -> NDArray[np.float32]:
        r"""Compute features of each node from the labels of other nodes, [n, d].

        .. math:: A \tilde Y, \qquad A A \tilde Y - \mathrm{diag}(A A) \tilde Y

        Nodes without a label get a predicted label. In a directed graph, and in a graph with times,
        only means over one step are computed. Means over two steps would contain the label of the
        node itself, whose share is not subtracted in these graphs. If edges have types, there are
        also means over the neighbours of each type.
        """
        means, c = blocks.means, self.outputs
        complete = scratch.array(*guess.shape)
        complete[:] = guess
        complete[train] = self._one_hot()
        is_two_way, start = blocks.two_way, 2 * c if blocks.two_way else c
        typed = min(blocks.typed_count, TYPED_LABELS // c)
        out = scratch.array(len(guess), start + typed * c)
        means(complete, out[:, :c])
        if is_two_way:
            means(out[:, :c], out[:, c:start])
            back = means.round_trips()
            for rows in pieces(len(guess)):
                out[rows, c:start] -= back[rows] * complete[rows]
        for place, of_type in enumerate(blocks.typed_means(typed)):
            of_type(complete, out[:, start + place * c :][:, :c])
        return out

    def _with_labels(
        self, blocks: SampledBlocks, around: NDArray, train: NDArray, scratch: Scratch
    ) -> dict[str, NDArray[np.float32]]:
        spread = scratch.array(len(around), self.outputs)
        return {
            "labels": self._by_perceptron("labels", blocks, [around], scratch),
            "propagation": propagate(blocks.means, self._one_hot(), train, spread),
        }

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

    def _smooth(
        self,
        parts: Mapping[str, NDArray],
        means: NeighbourMeans,
        train: NDArray,
        scratch: Scratch,
    ) -> NDArray[np.float32]:
        combined = self._pooled(parts, self.smoothed, scratch)
        out = scratch.array(*combined.shape)
        return smooth(means, combined, self._one_hot(), train, out)

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
        weights = self.weights if self.knows(graph) else self.other_weights
        pooled = self._pooled(parts, weights, Scratch())
        result = torch.from_numpy(pooled).double()
        return result if self._is_class else result * self.std + self.mean

    def component_predictions(self, graph: AttributedGraph) -> dict[str, Tensor]:
        """Return the predictions of each component, [n, outputs] float32, by name.

        Components that read labels are left out if the nodes or edges of the graph differ from
        those of :meth:`fit`.
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
        with_labels = self._is_stack and self.knows(graph)
        if self._is_stack:
            parts |= self._label_free(blocks, scratch)
        train = np.zeros(0, np.int64)
        if with_labels:
            train = pd.Index(_name_hashes(graph)).get_indexer(pd.Index(self._train_hash))
            around = self._around(blocks, parts["neighbours"], train, scratch)
            parts |= self._with_labels(blocks, around, train, scratch)
        parts[NETWORK] = self._by_network(blocks, scratch)
        if with_labels:
            parts[SMOOTHED] = self._smooth(parts, blocks.means, train, scratch)
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

    def knows(self, graph: AttributedGraph) -> bool:
        """Return True if a graph has the same nodes and edges as the graph of :meth:`fit`, in any
        order.
        """
        if self._last is not None and self._last[0] is graph and not self._compared:
            return SMOOTHED in self._last[1] or not self._is_stack
        if self._compared is None or self._compared[0] is not graph:
            compact = self._compact(graph)
            same = _fingerprint(compact, _name_hashes(compact)) == self._fingerprint
            self._compared = graph, same
        return self._compared[1]

    def embed(self, graph: AttributedGraph) -> Tensor:
        """Return the input of the output layer for each node, [n, width] float32."""
        with _threads(self.threads):
            return self._embed(self._blocks(self._compact(graph)))

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer edges [2, e] and their attention weights [e, h], in sampled
        neighbourhoods of 64 nodes, among them the node of highest degree.

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
        return {**self.__dict__, "_last": None, "_compared": None, "_shown": None, "_inputs": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        tensors = {f"network.{name}": t for name, t in self._network.state_dict().items()}
        tensors["axes"] = torch.from_numpy(self._reduction.axes)
        tensors["train_hash"] = torch.from_numpy(self._train_hash.view(np.int64))
        tensors["labels"] = torch.from_numpy(self._labels)
        for name, model in self._perceptrons.items():
            states = model.state_dict().items()
            tensors |= {f"perceptron.{name}.{key}": tensor for key, tensor in states}
        linear = None
        if self._linear is not None:
            scaler, model = self._linear
            tensors["linear.weight"] = torch.from_numpy(np.ascontiguousarray(model.weight))
            tensors["linear.bias"] = torch.from_numpy(np.ascontiguousarray(model.bias))
            linear = {"factors": list(scaler.factors), "penalty": model.penalty}
        return tensors, {
            "sampled": True, "settings": to_table(self.settings), "task": self.task,
            "outputs": self.outputs, "encoder": self.encoder.state(), "mean": self.mean,
            "std": self.std, "weights": self.weights, "smoothed": self.smoothed,
            "other_weights": self.other_weights, "fingerprint": self._fingerprint,
            "with_direction": self._with_direction, "linear": linear,
            "perceptrons": list(self._perceptrons),
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
        model.weights, model.smoothed = state["weights"], state["smoothed"]
        model.other_weights = state["other_weights"]
        model._fingerprint = state["fingerprint"]
        model._with_direction = state["with_direction"]
        model._reduction = Reduction(tensors["axes"].numpy())
        model._train_hash = tensors["train_hash"].numpy().view(np.uint64)
        model._labels = tensors["labels"].numpy()
        features = model._reduction.axes.shape[1] or encoder.width
        model._network = SampledNetwork(
            plan_samples(settings, 1).settings, features, model.outputs, encoder.edges
        )
        try:
            model._network.load_state_dict(remove_prefix("network.", tensors))
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        model._network.eval()
        is_class = model._is_class
        if (linear := state["linear"]) is not None:
            weight, bias = (tensors[f"linear.{name}"].numpy() for name in ("weight", "bias"))
            model._linear = (
                Scaler(tuple(linear["factors"])), Linear(weight, bias, is_class, linear["penalty"])
            )  # fmt: skip
        model._perceptrons = {
            name: Perceptron.from_state(
                remove_prefix(f"perceptron.{name}.", tensors), is_class=is_class
            )
            for name in state["perceptrons"]
        }
        return model


def _threads(threads: int) -> Any:
    """Return a context with a number of threads inside an operator; 0 for torch's number."""
    return limited_threads(1 << 62, threads)


def _name_hashes(graph: AttributedGraph) -> NDArray[np.uint64]:
    """Return a 64-bit hash [n] of the name of each node."""
    names = pd.Series([str(name) for name in graph.names], dtype=object)
    # Type checkers do not know the type of this function.
    hashes = cast("Any", hash_pandas_object)(names, index=False, categorize=False)
    return hashes.to_numpy(np.uint64)


def _fingerprint(graph: AttributedGraph, hashes: NDArray[np.uint64]) -> str:
    """Return a hash of the names of a compact graph's nodes and of its edges, in any order.

    The fingerprint is a hash of two sums modulo 2**64, over the nodes and over the edges. Sums do
    not depend on the order, so that no array must be sorted.
    """
    with np.errstate(over="ignore"):
        total, edges = hashes.sum(dtype=np.uint64), np.uint64(0)
        source, destination = graph.edge_index.numpy()
        for start in range(0, len(source), 1 << 22):
            rows = slice(start, start + (1 << 22))
            pairs = hashes[source[rows]] * np.uint64(0x9E3779B97F4A7C15) + hashes[destination[rows]]
            pairs ^= pairs >> np.uint64(31)
            edges += (pairs * np.uint64(0xBF58476D1CE4E5B9)).sum(dtype=np.uint64)
    sizes = len(graph), graph.edge_index.shape[1]
    return hashlib.sha256(f"{sizes} {total} {edges}".encode()).hexdigest()


def _loss(predicted: Tensor, y: Tensor, *, is_class: bool) -> float:
    if not is_class:
        return float((predicted[:, 0] - y).square().mean())
    return float(-(predicted[torch.arange(len(y)), y.long()] + 1e-12).log().mean())
