"""Stacked model of nodes, which combines an attention network with simpler models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from torch import Tensor

from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.fields import field_size
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem, label_moments
from gattn.apps.nodes.settings import NodeSettings, NodeTask
from gattn.apps.nodes.stack.combination import Combination
from gattn.apps.nodes.stack.components import LABEL_FREE, Components
from gattn.apps.nodes.stack.residual import ResidualPredictor, residual_settings
from gattn.apps.nodes.stack.training_nodes import TrainingNodes
from gattn.apps.nodes.stack.weights import mean_loss
from gattn.apps.nodes.typed.neighbours import neighbours_of
from gattn.apps.nodes.typed.predictor import TypedPredictor, input_size, network_kind
from gattn.apps.run.model_io import remove_prefix
from gattn.apps.runtime.threads import Background, available_threads, limited_threads

__all__ = ["StackedPredictor"]

NETWORK, TYPED_NETWORK = "gat", "hgt"
"""Model, and name, of the attention network for a graph of one type, and for a typed network."""
PILOT, PILOT_EPOCHS = 0.4, 6
"""A network may be stopped early after this fraction of its epochs on a large graph, but not
before this number of epochs.
"""
HOPELESS = 1.5
"""A network is stopped early if its loss is more than this multiple of the lowest loss of the
other models.
"""
MAX_PRODUCTS = 5e9
"""Maximum number of multiplications in the training of the attention network. On a large graph,
it limits the number of epochs, but not to less than ``FEWEST_EPOCHS``.
"""
FEWEST_EPOCHS = 20
REFIT_FOLDS = 3
"""Number of folds of the validation part for the calibration of models that are fitted again."""
PREFIX = "components."


class StackedPredictor:
    """Stacked model of nodes: several models, combined by weights fitted on the validation part.

    The components are the models of :class:`gattn.apps.nodes.stack.components.Components` and the
    attention network. Components that read labels can predict only the network that they were
    fitted to, which may have changed: training nodes keep their labels by name. For another
    network, the remaining components are combined by a second set of weights. For classes, the
    combination is multiplied by a factor for each class; see
    :func:`gattn.apps.nodes.stack.priors.class_factors`.

    If the validation part was drawn from the nodes for training, the components other than the
    network that have a weight are fitted to both parts after the weights are chosen. The
    predictions of the validation part, which calibrate sets and intervals, then come from models
    that were fitted in the same way without a third of this part, so that the sets have their
    coverage with the final models.

    Attributes:
        settings: settings of the model and of its training.
        task: ``"regression"`` or ``"classification"``.
        encoder: encoder of the features.
        network: the attention network.
        combination: weights of the components.
        validation: [m, outputs] cross-fitted predictions of the validation part: each node is
            predicted with weights that were chosen without it. Empty after :meth:`from_state`.
        validation_parts: [m, outputs] predictions of the validation part by each component that
            was fitted to the training part alone, by name. Empty after :meth:`from_state`.
        validation_loss: cross-entropy or squared error of ``validation``; NaN after
            :meth:`from_state`.
        stopped: True if the training of the network ended early, because its loss was far above
            that of the other components. False after :meth:`from_state`.
    """

    def __init__(
        self,
        settings: NodeSettings,
        network: NodePredictor,
        components: Components,
        combination: Combination,
        training: TrainingNodes,
    ) -> None:
        self.settings, self.network, self._components = settings, network, components
        self.task: NodeTask = network.task
        self.encoder, self.outputs = network.encoder, network.outputs
        self.combination = combination
        self.validation_parts: dict[str, Tensor] = {}
        self.validation = torch.from_numpy(combination.validation)
        self.validation_loss = float("nan")
        self.stopped = False
        self._training = training
        self._last: tuple[AttributedGraph, dict[str, NDArray[np.float64]]] | None = None
        self._matched: tuple[AttributedGraph, NDArray[np.int64] | None] | None = None

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
        """Train one stack for each settings object; see :meth:`NodePredictor.fit` for the
        arguments.

        The stacks have different attention networks, and share the other models. On a small graph
        and with two or more threads, the other models are fitted in a second Python thread beside
        the networks. On a large graph, the other models are fitted first, in two threads, and the
        training of a network ends early if its loss is far above theirs.
        """
        graph, is_class, first = problem.graph, task == "classification", settings[0]
        kind, network_settings = _choose_network(settings, problem, encoder)
        mean, std = label_moments(problem, task)
        y = ((problem.y - mean) / std).numpy()
        train, val = problem.train.numpy(), problem.val.numpy()
        neighbours = neighbours_of(graph)
        is_large = kind is not ResidualPredictor and network_settings[0].epochs < first.epochs
        fit_components = partial(
            Components.fit, problem.x, neighbours, y, outputs=problem.outputs, seed=first.seed,
            is_class=is_class, epochs=first.epochs,
        )  # fmt: skip
        fit_networks = partial(kind.fit, problem, encoder, task, network_settings, on_epoch)
        # The gradients of a layer normalisation depend on the number of threads.
        network_threads = 1 if kind is ResidualPredictor else threads

        with _one_blas_thread():
            parallel = available_threads() > 1
            # A bound of infinity means that no network is stopped early.
            is_hopeless = partial(_is_hopeless, best=np.inf, epochs=0)
            if is_large:
                with limited_threads(0, threads):
                    components, predictions = fit_components(train, val, parallel=parallel)
                best = min(
                    mean_loss(p[val], y[val], is_class=is_class) for p in predictions.values()
                )
                is_hopeless = partial(_is_hopeless, best=best, epochs=network_settings[0].epochs)
                networks = fit_networks(network_threads, is_hopeless)
            elif parallel:
                with Background(lambda check: fit_components(train, val, check=check)) as work:
                    networks = fit_networks(network_threads or 1)
                    components, predictions = work.result()
            else:
                networks = fit_networks(network_threads)
                components, predictions = fit_components(train, val)
        for network in networks:
            network.threads = threads
        truth = problem.y.numpy()[val]
        by_network = [
            {network.settings.model: network.predict(graph).numpy()} for network in networks
        ]
        in_unit = {name: p * std + mean for name, p in predictions.items()}
        chosen = [
            Combination.fit(
                in_unit | each, problem.y.numpy(), train, val, stack_settings.seed,
                is_class=is_class, timed=neighbours.timed,
                label_free=(*LABEL_FREE, NETWORK, TYPED_NETWORK),
            )
            for each, stack_settings in zip(by_network, settings)
        ]  # fmt: skip
        final, final_predictions = components, in_unit
        if first.refit and problem.drawn:
            used = {name for weights in chosen for name in weights.used}
            if "labels" in used:
                used.add("neighbours")  # its predictions are inputs of the model `labels`
            reuse = {name: p for name, p in predictions.items() if name not in used}

            def fit_again(more: NDArray) -> tuple[Components, dict[str, NDArray]]:
                both = np.sort(np.concatenate([train, more]))
                again, new = fit_components(
                    both, val, parallel=parallel, like=components, reuse=reuse
                )
                return again, {name: p * std + mean for name, p in new.items()}

            fold = np.random.default_rng(first.seed).permutation(len(val)) % REFIT_FOLDS
            left_out = {name: p[val] for name, p in in_unit.items()}
            with _one_blas_thread(), limited_threads(0, threads):
                for number in range(min(REFIT_FOLDS, len(val))):
                    inside = fold == number
                    for name, p in fit_again(val[~inside])[1].items():
                        left_out[name][inside] = p[val[inside]]
                final, final_predictions = fit_again(val)
            chosen = [
                weights.fit_again(
                    {name: p[val] for name, p in (in_unit | each).items()},
                    left_out | {name: p[val] for name, p in each.items()},
                    truth, stack_settings.seed, is_class=is_class,
                )
                for each, weights, stack_settings in zip(by_network, chosen, settings)
            ]  # fmt: skip
        training = TrainingNodes.fit(graph, final.train)
        stacks = []
        for stack_settings, network, each, weights in zip(settings, networks, by_network, chosen):
            stack = cls(stack_settings, network, final, weights, training)
            stack._last = graph, final_predictions | each
            stack._matched = graph, final.train
            stack.stopped = is_hopeless(network.history[0].records)
            stack.validation_parts = {
                name: torch.from_numpy(p[val]) for name, p in (in_unit | each).items()
            }
            stack.validation_loss = mean_loss(weights.validation, truth, is_class=is_class)
            stacks.append(stack)
        return stacks

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each component by name, for the graph of :meth:`fit`."""
        return self.combination.weights

    @property
    def other_weights(self) -> dict[str, float]:
        """Weight by name of each component that does not read labels, for other graphs."""
        return self.combination.other

    @property
    def history(self) -> list[History]:
        """Training history of the attention network. It is empty in a model that
        :meth:`from_state` restored.
        """
        return self.network.history

    @property
    def threads(self) -> int:
        """Number of threads of each operator of the network; with 0, it is chosen by the size of
        the graph.
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
        """Predict a graph that was created from ``original`` by removing edges or attribute values.

        The models that read labels are used if ``original`` has nodes of the training.
        """
        return self._combine(self._predict_components(graph, self.training_places(original)))

    def _combine(self, parts: Mapping[str, Tensor]) -> Tensor:
        """Return the weighted combination of the predictions of the components."""
        arrays = {name: part.numpy() for name, part in parts.items()}
        return torch.from_numpy(self.combination.predict(arrays))

    def component_predictions(self, graph: AttributedGraph) -> dict[str, Tensor]:
        """Return a dictionary from the name of each model in the stack to its predictions, [n,
        outputs] float64.

        Models that read labels are left out for another network than that of :meth:`fit`.
        """
        if self._last is None or self._last[0] is not graph:
            parts = self._predict_components(graph, self.training_places(graph))
            self._last = graph, {name: p.numpy() for name, p in parts.items()}
        return {name: torch.from_numpy(p) for name, p in self._last[1].items()}

    def _predict_components(
        self, graph: AttributedGraph, places: NDArray[np.int64] | None
    ) -> dict[str, Tensor]:
        components = self._components if places is None else self._components.with_train(places)
        predicted = components.predict(
            self.encoder.features(graph), neighbours_of(graph), with_labels=places is not None
        )
        mean, std = self.network.mean, self.network.std
        outputs = {name: p * std + mean for name, p in predicted.items()}
        outputs[self.network.settings.model] = self.network.predict(graph).numpy()
        return {name: torch.from_numpy(p) for name, p in outputs.items()}

    def training_places(self, graph: AttributedGraph) -> NDArray[np.int64] | None:
        """Return the index [k] of each training node in a graph, and -1 for a node that it lacks;
        None for another network than that of :meth:`fit`.
        """
        # The result for the last graph is cached, because all edges are read.
        if self._matched is None or self._matched[0] is not graph:
            self._matched = graph, self._training.places(graph)
        return self._matched[1]

    def embed(self, graph: AttributedGraph) -> Tensor:
        """Return the input of the last attention layer for each node, [n, width] float32."""
        return self.network.embed(graph)

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return the edges [2, e], including added self-loops, and the attention weights [e, h]
        of each layer.
        """
        return self.network.attention(graph)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling. It does not contain the last graph, because the
        receiving process has it.
        """
        return {**self.__dict__, "_last": None, "_matched": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        tensors, network = self.network.state()
        arrays, components = self._components.state()
        arrays |= {f"training.{name}": value for name, value in self._training.state().items()}
        return tensors | {PREFIX + name: tensor for name, tensor in arrays.items()}, {
            **network, "settings": to_table(self.settings), "network": network["settings"],
            "residual": isinstance(self.network, ResidualPredictor),
            "components": components, "weights": self.weights,
            "factors": self.combination.factors, "other_weights": self.other_weights,
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
        kind = NodePredictor
        if state["encoder"].get("network"):
            kind = TypedPredictor
        elif state.get("residual"):
            kind = ResidualPredictor
        network = kind.from_state(of_network, {**state, "settings": state["network"]})
        arrays = {
            name.removeprefix(PREFIX): t for name, t in tensors.items() if name.startswith(PREFIX)
        }
        components = Components.from_state(arrays, state["components"])
        combination = Combination(
            state["weights"], state["other_weights"], state["factors"],
            np.zeros((0, network.outputs)),
        )  # fmt: skip
        training = TrainingNodes.from_state(remove_prefix("training.", arrays))
        return cls(settings, network, components, combination, training)


def _choose_network(
    settings: Sequence[NodeSettings], problem: NodeProblem, encoder: FeatureEncoder
) -> tuple[type[NodePredictor], list[NodeSettings]]:
    """Return the class of the attention networks of a graph, and their settings.

    The settings differ only in the seed. The size of the receptive field of the labelled nodes
    determines the time of an epoch.
    """
    first, graph = settings[0], problem.graph
    if graph.network is not None:
        products, model = input_size(problem.x, graph.network, first), TYPED_NETWORK
    else:
        labelled = torch.cat([problem.train, problem.val])
        size = field_size(problem.x, graph.edge_index, labelled, first.layers)
        residual = residual_settings(first, problem, size)
        if residual is not None:
            return ResidualPredictor, [replace(residual, seed=one.seed) for one in settings]
        products, model = first.width * (size.values + size.edges), NETWORK
    limited = _limit_epochs(replace(first, model=model), products)
    return network_kind(encoder), [replace(limited, seed=one.seed) for one in settings]


def _limit_epochs(settings: NodeSettings, products: int) -> NodeSettings:
    """Return the settings of an attention network whose epoch computes a number of products. On a
    large graph, it makes fewer and larger steps.
    """
    epochs = min(settings.epochs, max(FEWEST_EPOCHS, int(MAX_PRODUCTS / max(products, 1))))
    rate = settings.learning_rate * (settings.epochs / epochs) ** 0.5
    return replace(settings, epochs=epochs, learning_rate=rate)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Limit BLAS libraries to one thread, and ignore warnings about convergence.

    The threads of a BLAS library would wait actively between small products. The warnings filter is
    set here because all threads of a process share it.
    """
    with threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _is_hopeless(records: Sequence[EpochRecord], best: float, epochs: int) -> bool:
    """Return True if a network's loss is far above the lowest loss of the other models.

    Args:
        records: records of the network's epochs so far.
        best: lowest validation loss of the other models.
        epochs: maximum number of epochs.
    """
    if len(records) < max(PILOT_EPOCHS, PILOT * epochs):
        return False
    return min(record.validation_loss for record in records) > HOPELESS * best
