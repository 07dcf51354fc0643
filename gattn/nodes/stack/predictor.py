"""Stacked model of nodes, which combines an attention network with simpler models."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from torch import Tensor

from gattn.nodes.attributed import AttributedGraph
from gattn.nodes.features import FeatureEncoder
from gattn.nodes.fields import read_features, receptive_field
from gattn.nodes.predictor import NodePredictor, NodeProblem, label_moments
from gattn.nodes.settings import NodeSettings, NodeTask
from gattn.nodes.stack.components import LABEL_FREE, Components
from gattn.nodes.stack.propagation import Neighbours
from gattn.nodes.stack.weights import cross_fit, fit_weights, pool
from gattn.training.settings import from_table, to_table
from gattn.training.threads import Background, available_threads
from gattn.training.types import EpochRecord, History

__all__ = ["StackedPredictor"]

NETWORK = "gat"
"""Name of the attention network in a stack."""
MAX_PRODUCTS = 5e9
"""Maximum number of multiplications for training the attention network. It limits the number of
epochs on a large graph to at least ``FEWEST_EPOCHS``.
"""
FEWEST_EPOCHS = 20
PREFIX = "components."


class StackedPredictor:
    """Stacked model of nodes: several models, combined by weights fitted on the validation part.

    The components are the models of :class:`gattn.nodes.stack.components.Components` and the
    attention network. Components that read labels can predict only the graph that they were fitted
    to. For
    another graph, the remaining components are combined by a second set of weights.

    Attributes:
        settings: settings of the model and of its training.
        task: ``"regression"`` or ``"classification"``.
        encoder: encoder of the features.
        network: the attention network.
        weights: weight of each component by name, for the graph of :meth:`fit`.
        other_weights: weight by name of each component that does not read labels, for other graphs.
        validation: [m, outputs] cross-fitted predictions of the validation part: each node is
            predicted with weights that were chosen without it. Empty after :meth:`from_state`.
        validation_loss: cross-entropy or squared error of ``validation``; NaN after
            :meth:`from_state`.
    """

    def __init__(
        self,
        settings: NodeSettings,
        network: NodePredictor,
        components: Components,
        weights: Mapping[str, float],
        other_weights: Mapping[str, float],
        fingerprint: str,
        train_ranks: NDArray[np.int64],
    ) -> None:
        self.settings, self.network, self._components = settings, network, components
        self.task: NodeTask = network.task
        self.encoder, self.outputs = network.encoder, network.outputs
        self.weights, self.other_weights = dict(weights), dict(other_weights)
        self.validation = torch.zeros(0, self.outputs, dtype=torch.float64)
        self.validation_loss = float("nan")
        self._fingerprint, self._train_ranks = fingerprint, train_ranks
        self._last: tuple[AttributedGraph, dict[str, NDArray[np.float64]]] | None = None
        self._compared: tuple[AttributedGraph, bool] | None = None

    @classmethod
    def fit(
        cls,
        problem: NodeProblem,
        encoder: FeatureEncoder,
        task: NodeTask,
        settings: Sequence[NodeSettings],
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        threads: int = 0,
    ) -> list[StackedPredictor]:
        """Train a stack for each of the settings; see :meth:`NodePredictor.fit` for the arguments.

        The stacks have different attention networks, and share the other models. With two or more
        threads, the other models are fitted in a second Python thread beside the networks.
        """
        graph, is_class, first = problem.graph, task == "classification", settings[0]
        network_settings = [_network_settings(one, problem) for one in settings]
        mean, std = label_moments(problem, task)
        y = ((problem.y - mean) / std).numpy()
        train, val = problem.train.numpy(), problem.val.numpy()

        def fit_components(
            check: Callable[[], None],
        ) -> tuple[Components, dict[str, NDArray[np.float64]]]:
            return Components.fit(
                problem.x, Neighbours.of(graph), y, train, val, problem.outputs, first.seed,
                is_class=is_class, check=check,
            )  # fmt: skip

        def fit_networks(threads: int) -> list[NodePredictor]:
            return NodePredictor.fit(problem, encoder, task, network_settings, on_epoch, threads)

        # BLAS libraries also use one thread. Their threads spin between the small products. The
        # filter of warnings is set here because it is shared by all threads of a process.
        with threadpool_limits(1, "blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if available_threads() > 1:
                with Background(fit_components) as background:
                    networks = fit_networks(threads or 1)
                    components, predictions = background.result()
            else:
                networks = fit_networks(threads)
                components, predictions = fit_components(lambda: None)
        for network in networks:
            network.threads = threads
        predictions = {name: p * std + mean for name, p in predictions.items()}
        truth, stacks = problem.y.numpy()[val], []
        for stack_settings, network in zip(settings, networks):
            outputs = predictions | {NETWORK: network.predict(graph).numpy()}
            parts = {name: p[val] for name, p in outputs.items()}
            weights = _weights(parts, truth, is_class=is_class)
            label_free = {name: parts[name] for name in (*LABEL_FREE, NETWORK)}
            other_weights = _weights(label_free, truth, is_class=is_class)
            stack = cls(
                stack_settings,
                network,
                components,
                weights,
                other_weights,
                _fingerprint(graph),
                np.argsort(_name_order(graph))[components.train],
            )
            stack._last = graph, outputs
            seed = stack_settings.seed
            combined = cross_fit(list(parts.values()), truth, seed, is_class=is_class)
            stack.validation = torch.from_numpy(combined)
            stack.validation_loss = _loss(combined, truth, is_class=is_class)
            stacks.append(stack)
        return stacks

    @property
    def history(self) -> list[History]:
        """Training history of the attention network; empty after :meth:`from_state`."""
        return self.network.history

    @property
    def threads(self) -> int:
        """Number of threads inside an operator of the network; 0 to choose it from the size of the
        graph.
        """
        return self.network.threads

    @threads.setter
    def threads(self, threads: int) -> None:
        self.network.threads = threads

    def predict(self, graph: AttributedGraph) -> Tensor:
        """Return probabilities [n, classes], or numbers [n, 1] in the unit of the labels, as
        float64.
        """
        return self._combine(self.component_predictions(graph))

    def predict_edited(self, graph: AttributedGraph, original: AttributedGraph) -> Tensor:
        """Predict a graph from which edges or attribute values of ``original`` were removed.

        The models that read labels are used if ``original`` is the graph of :meth:`fit`.
        """
        return self._combine(self._predict_components(graph, with_labels=self.knows(original)))

    def _combine(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Return the weighted combination of the components' predictions."""
        weights = self.weights if set(parts) == set(self.weights) else self.other_weights
        predictions = [parts[name].numpy() for name in weights]
        combined = pool(
            predictions, np.array(list(weights.values())), is_class=self.task == "classification"
        )
        return torch.from_numpy(combined)

    def component_predictions(self, graph: AttributedGraph) -> dict[str, Tensor]:
        """Return the predictions of each model in the stack, [n, outputs] float64, by its name.

        Models that read labels are left out if the nodes or edges of the graph differ from the
        graph of :meth:`fit`.
        """
        if self._last is None or self._last[0] is not graph:
            parts = self._predict_components(graph, with_labels=self.knows(graph))
            self._last = graph, {name: p.numpy() for name, p in parts.items()}
        return {name: torch.from_numpy(p) for name, p in self._last[1].items()}

    def _predict_components(
        self, graph: AttributedGraph, *, with_labels: bool
    ) -> dict[str, Tensor]:
        neighbours = Neighbours.of(graph)
        components = self._components
        # The training nodes may have other positions in this graph.
        if with_labels:
            components = components.with_train(_name_order(graph)[self._train_ranks])
        predicted = components.predict(
            self.encoder.features(graph), neighbours, with_labels=with_labels
        )
        mean, std = self.network.mean, self.network.std
        outputs = {name: torch.from_numpy(p * std + mean) for name, p in predicted.items()}
        return outputs | {NETWORK: self.network.predict(graph)}

    def knows(self, graph: AttributedGraph) -> bool:
        """Return True if a graph has the same nodes and edges as the graph of :meth:`fit`, in any
        order.
        """
        # The result for the last graph is stored, because the fingerprint sorts all edges.
        if self._compared is None or self._compared[0] is not graph:
            self._compared = graph, _fingerprint(graph) == self._fingerprint
        return self._compared[1]

    def embed(self, graph: AttributedGraph) -> Tensor:
        """Return the input of the last attention layer for each node, [n, width] float32."""
        return self.network.embed(graph)

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer its edges [2, e], including added self-loops, and its weights [e,
        h].
        """
        return self.network.attention(graph)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling without the last graph, because the other process
        has it.
        """
        return {**self.__dict__, "_last": None, "_compared": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        tensors, network = self.network.state()
        arrays, components = self._components.state()
        arrays["train_ranks"] = torch.from_numpy(self._train_ranks)
        return tensors | {PREFIX + name: tensor for name, tensor in arrays.items()}, {
            **network, "settings": to_table(self.settings), "network": network["settings"],
            "components": components, "weights": self.weights,
            "other_weights": self.other_weights, "fingerprint": self._fingerprint,
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> StackedPredictor:
        """Restore a model from the result of :meth:`state`.

        Raises:
            KeyError: an entry of the state is missing.
            ValueError: a tensor is missing or has another shape.
        """
        settings = from_table(NodeSettings, state["settings"])
        of_network = {name: t for name, t in tensors.items() if not name.startswith(PREFIX)}
        network = NodePredictor.from_state(of_network, {**state, "settings": state["network"]})
        arrays = {
            name.removeprefix(PREFIX): t for name, t in tensors.items() if name.startswith(PREFIX)
        }
        components = Components.from_state(arrays, state["components"])
        weights = state["weights"], state["other_weights"]
        ranks = arrays["train_ranks"].numpy()
        return cls(settings, network, components, *weights, state["fingerprint"], ranks)


def _network_settings(settings: NodeSettings, problem: NodeProblem) -> NodeSettings:
    """Return the settings of the attention network; on a large graph, with fewer and larger steps.

    The size of the receptive field of the labelled nodes determines the time of an epoch.
    """
    nodes = torch.cat([problem.train, problem.val])
    graph = problem.graph
    field = receptive_field(graph.edge_index, len(graph), nodes, settings.layers)
    x = read_features(problem.x, field.nodes)
    stored = x.numel() if x.layout == torch.strided else x.values().numel()
    size = settings.width * (stored + sum(layer.num_edges for layer, _ in field.layers))
    epochs = min(settings.epochs, max(FEWEST_EPOCHS, int(MAX_PRODUCTS / max(size, 1))))
    rate = settings.learning_rate * (settings.epochs / epochs) ** 0.5
    return replace(settings, model=NETWORK, epochs=epochs, learning_rate=rate)


def _fingerprint(graph: AttributedGraph) -> str:
    """Return the SHA-256 hash of the names of a graph's nodes and of its edges, in any order."""
    order = _name_order(graph)
    names = "\0".join(str(graph.names[i]) for i in order).encode()
    source, destination = np.argsort(order)[graph.edge_index.numpy()]
    edges = np.sort(source * len(graph) + destination)
    return hashlib.sha256(names + edges.tobytes()).hexdigest()


def _name_order(graph: AttributedGraph) -> NDArray[np.int64]:
    """Return the indices [n] of the nodes in the order of their names."""
    names = list(map(str, graph.names))
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)


def _weights(parts: Mapping[str, NDArray], y: NDArray, *, is_class: bool) -> dict[str, float]:
    weights = fit_weights(list(parts.values()), y, is_class=is_class)
    return dict(zip(parts, weights.tolist()))


def _loss(predicted: NDArray, y: NDArray, *, is_class: bool) -> float:
    if not is_class:
        return float(np.square(predicted[:, 0] - y).mean())
    return float(-np.log(predicted[np.arange(len(y)), y.astype(int)] + 1e-12).mean())
