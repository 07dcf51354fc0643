"""Stacked model of nodes, which combines an attention network with simpler models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
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
from gattn.apps.nodes.fields import field_size
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem
from gattn.apps.nodes.sampled.predictor import DEFAULTS, SampledPredictor
from gattn.apps.nodes.scratch import fold_masks
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack.components import LABEL_FREE, Components
from gattn.apps.nodes.stack.linear import Targets
from gattn.apps.nodes.stack.residual import (
    LabelledPredictor,
    ResidualPredictor,
    residual_settings,
    with_defaults,
)
from gattn.apps.nodes.stack.training_nodes import TrainingNodes
from gattn.apps.nodes.stack.weights import Combination, mean_loss
from gattn.apps.nodes.typed.neighbours import neighbours_of
from gattn.apps.run.model_io import remove_prefix
from gattn.apps.runtime.threads import limited_threads

NETWORK = "gat"
"""Model, and name, of the attention network."""
MAX_PRODUCTS = 5e9
"""Maximum number of multiplications in the training of the attention network. On a large graph,
it limits the number of epochs, but not to less than ``FEWEST_EPOCHS``.
"""
FEWEST_EPOCHS = 20
REFIT_FOLDS = 3
"""Number of folds of the validation part for the calibration of models that are fitted again."""
LONGER, LATE = 3, 0.9
"""Factor of the number of epochs of a second training if the network has a weight and the lowest
validation loss of the first training is after this share of its epochs: 0.98 on a board of mines,
whose area under the ROC curve rises from 0.947 to 0.976, and 0.58 and 0.20 on blocks-0.5 and
blocks-0.2.
"""
PREFIX = "components."


class StackedPredictor:
    """Stacked model of nodes: several models, combined by weights fitted on the validation part.

    The components are the models of :class:`gattn.apps.nodes.stack.components.Components` and the
    attention network, which is trained on the whole graph or, if the graph is compact, on sampled
    neighbourhoods. Components that read labels can predict only the network that they were
    fitted to, which may have changed: training nodes keep their labels by name. For another
    network, the remaining components are combined by a second set of weights. For classes, the
    combination is multiplied by a factor for each class; see
    :func:`gattn.apps.nodes.stack.priors.class_factors`.

    If the validation part was drawn from the nodes for training, the components other than the
    network that have a weight are fitted to both parts after the weights are chosen. The
    predictions of the validation part, which calibrate sets and intervals, then come from models
    that were fitted in the same way without a third of this part, so that the sets have their
    coverage with the final models. A compact graph has no second fit, because it would take long.

    Args:
        settings: settings of the model and of its training.
        network: the trained attention network.
        components: the other fitted models.
        combination: weights of the components.
        training: the training nodes, by which a changed network is matched.

    Attributes:
        settings: settings of the model and of its training.
        task: type of the labels.
        encoder: encoder of the features.
        network: the attention network.
        combination: weights of the components.
        validation: [m, outputs] cross-fitted predictions of the validation part: each node is
            predicted with weights that were chosen without it. Empty after :meth:`from_state`.
        validation_parts: [m, outputs] predictions of the validation part, by the name of the
            component, by models that were fitted without the predicted nodes, like those of
            ``validation``. Empty after :meth:`from_state`.
        is_refit: True if the final models, except the network, were also fitted to the validation
            part; False after :meth:`from_state`.
        validation_loss: cross-entropy or squared error of ``validation``; NaN after
            :meth:`from_state`.
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
        self.task, self.encoder, self.outputs = network.task, network.encoder, network.outputs
        self.combination = combination
        self.validation_parts: dict[str, Tensor] = {}
        self.validation = self._in_unit(combination.validation)
        self.validation_loss, self.is_refit = float("nan"), False
        self._training = training
        self._last: tuple[AttributedGraph, dict[str, NDArray]] | None = None
        self._matched: tuple[AttributedGraph, NDArray[np.int64] | None] | None = None

    @classmethod
    def fit(
        cls,
        problem: NodeProblem,
        settings: NodeSettings,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        threads: int = 0,
    ) -> StackedPredictor:
        """Train a stack, and return it; see :meth:`NodePredictor.fit` for the arguments. The seed
        of the settings determines all random draws. Raises TrainingError if the loss of a network
        is not finite.
        """
        graph, is_class = problem.graph, problem.task.is_class
        neighbours = neighbours_of(graph)
        kind, network_settings = _choose_network(settings, problem, timed=neighbours.timed)
        # The gradients of a normalisation depend on the number of threads.
        network_threads = 1 if kind in (ResidualPredictor, LabelledPredictor) else threads
        network = kind.fit(problem, network_settings, on_epoch, network_threads)
        reads_labels = isinstance(network, LabelledPredictor)
        y = ((problem.y - network.mean) / network.std).numpy()
        train, val = problem.train.numpy(), problem.val.numpy()
        to = Targets(y, train, val, problem.outputs, is_class, settings.seed)
        fit_components = partial(Components.fit, problem.x, neighbours, epochs=settings.epochs)
        with _one_thread(threads):
            components, predictions = fit_components(to)

        def combine(network: NodePredictor) -> tuple[dict[str, NDArray], Combination]:
            """Return the predictions of an attention network by component, and the weights of all
            components. The number of threads of the network is set.
            """
            network.threads = threads
            of_network = _network_part(network, graph, components)
            label_free = LABEL_FREE if reads_labels else (*LABEL_FREE, NETWORK)
            return of_network, Combination.fit(
                predictions | of_network, to, timed=neighbours.timed, label_free=label_free
            )

        of_network, combination = combine(network)
        epochs = min(LONGER * network_settings.epochs, settings.epochs)
        is_short = reads_labels and epochs > network_settings.epochs
        losses = network.history[0].validation_losses
        is_late = losses.index(min(losses)) >= LATE * len(losses)
        if is_short and combination.weights[NETWORK] and is_late:
            more = replace(network_settings, epochs=epochs)
            other = kind.fit(problem, more, on_epoch, network_threads)
            network = min(network, other, key=lambda one: min(one.history[0].validation_losses))
            of_network, combination = combine(network)
        at_val = {name: p[val] for name, p in (predictions | of_network).items()}
        is_refit = settings.refit and problem.drawn and not graph.compact
        if is_refit:
            used = combination.used
            if "labels" in used:
                used.add("neighbours")  # its predictions are inputs of the model `labels`
            fit_again = partial(fit_components, like=components, reuse=predictions.keys() - used)
            left_out = {name: p.copy() for name, p in at_val.items()}
            with _one_thread(threads):
                for inside in fold_masks(len(val), REFIT_FOLDS, to.seed):
                    some = np.sort(np.concatenate([train, val[~inside]]))
                    others, again = fit_again(replace(to, train=some))
                    if reads_labels:
                        again |= _network_part(network, graph, others)
                    for name, p in again.items():
                        left_out[name][inside] = p[val[inside]]
                both = np.sort(np.concatenate([train, val]))
                components, predictions = fit_again(replace(to, train=both))
            combination, at_val = combination.fit_again(at_val, left_out, to), left_out
            if reads_labels:
                of_network = _network_part(network, graph, components)
        training = TrainingNodes.fit(graph, components.train)
        stack = cls(settings, network, components, combination, training)
        stack._last = graph, predictions | of_network
        stack._matched = graph, components.train
        stack.validation_parts = {name: stack._in_unit(p) for name, p in at_val.items()}
        stack.is_refit = is_refit
        truth = problem.y[problem.val].numpy()
        stack.validation_loss = mean_loss(stack.validation.numpy(), truth, is_class=is_class)
        return stack

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each component by name, for the graph of :meth:`fit`."""
        return self.combination.weights

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
        float64. The argument and the errors are those of :meth:`NodePredictor.predict`. The
        predictions of the components for the last graph are stored in the model.
        """
        return self._in_unit(self.combination.predict(self._parts(graph)))

    def predict_edited(self, graph: AttributedGraph, original: AttributedGraph) -> Tensor:
        """Predict a graph that was created from ``original`` by removing edges or attribute values;
        see :meth:`predict`.

        The models that read labels are used if ``original`` has nodes of the training. Nodes have
        the same positions in both graphs.
        """
        parts = self._predict_components(graph, self.training_places(original))
        return self._in_unit(self.combination.predict(parts))

    def component_predictions(self, graph: AttributedGraph) -> dict[str, Tensor]:
        """Return a dictionary from the name of each model in the stack to its predictions, [n,
        outputs], in the unit of the labels; see :meth:`predict` for the graph.

        Models that read labels are left out for another network than that of :meth:`fit`.
        """
        return {name: self._in_unit(part) for name, part in self._parts(graph).items()}

    def _in_unit(self, predicted: NDArray) -> Tensor:
        """Return a copy of standardised predictions in the unit of the labels."""
        return torch.tensor(predicted) * self.network.std + self.network.mean

    def _parts(self, graph: AttributedGraph) -> dict[str, NDArray]:
        """Return the standardised predictions [n, outputs] of all components, by name; those of the
        last graph are stored in the model.
        """
        if self._last is None or self._last[0] is not graph:
            self._last = graph, self._predict_components(graph, self.training_places(graph))
        return self._last[1]

    def _predict_components(
        self, graph: AttributedGraph, places: NDArray[np.int64] | None
    ) -> dict[str, NDArray]:
        """Return the standardised predictions [n, outputs] of each component. ``places`` are the
        training nodes in the graph, whose labels are read; None to read no labels.
        """
        of_labels = None if places is None else self._components.with_train(places)
        predicted = (of_labels or self._components).predict(
            self.encoder.features(graph), neighbours_of(graph), with_labels=of_labels is not None
        )
        return predicted | _network_part(self.network, graph, of_labels)

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
        return self._reading(graph).embed(graph)

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return the edges [2, e], including added self-loops, and the attention weights [e, h]
        of each layer.
        """
        return self._reading(graph).attention(graph)

    def _reading(self, graph: AttributedGraph) -> NodePredictor:
        """Return the attention network with the labels that it reads to predict a graph."""
        places = self.training_places(graph)
        of_labels = None if places is None else self._components.with_train(places)
        return _with_labels(self.network, graph, of_labels)

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
            "components": components, "weights": self.weights,
            "factors": self.combination.factors, "other_weights": self.combination.other,
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> StackedPredictor:
        """Restore a model from the result of :meth:`state`.

        Raises:
            KeyError: an entry of the state is missing.
            RuntimeError: a tensor of a network is missing or has another shape.
            SettingsError: a setting is unknown or out of range.
        """
        settings = from_table(NodeSettings, state["settings"])
        of_network = {name: t for name, t in tensors.items() if not name.startswith(PREFIX)}
        network = network_from_state(of_network, {**state, "settings": state["network"]})
        arrays = remove_prefix(PREFIX, tensors)
        components = Components.from_state(arrays, state["components"])
        combination = Combination(
            state["weights"], state["other_weights"], state["factors"],
            np.zeros((0, network.outputs)),
        )  # fmt: skip
        training = TrainingNodes.from_state(remove_prefix("training.", arrays))
        return cls(settings, network, components, combination, training)


def network_from_state(tensors: dict[str, Tensor], state: Mapping[str, Any]) -> NodePredictor:
    """Restore an attention network from the result of its method :meth:`NodePredictor.state`.
    Raises KeyError for an unknown class, and otherwise as :meth:`NodePredictor.from_state`.
    """
    kinds = NodePredictor, ResidualPredictor, LabelledPredictor, SampledPredictor
    kind = {kind.__name__: kind for kind in kinds}[state["kind"]]
    return kind.from_state(tensors, state)


def _network_part(
    network: NodePredictor, graph: AttributedGraph, components: Components | None
) -> dict[str, NDArray]:
    """Return the standardised predictions [n, outputs] float32 of an attention network, by its
    name, with the labels of ``components``.
    """
    network = _with_labels(network, graph, components)
    predicted = (network.predict(graph).numpy() - network.mean) / network.std
    return {network.settings.model: predicted.astype(np.float32)}


def _with_labels(
    network: NodePredictor, graph: AttributedGraph, components: Components | None
) -> NodePredictor:
    """Return a network for a graph. A network that reads labels reads those of ``components``, and
    none if it is None.
    """
    if components is not None and isinstance(network, LabelledPredictor):
        return network.reading(graph, components.train, components.labels)
    return network


def _choose_network(
    settings: NodeSettings, problem: NodeProblem, *, timed: bool
) -> tuple[type[NodePredictor], NodeSettings]:
    """Return the class of the attention network for the graph of a problem, and its settings.

    If a graph has many labels, it is a :class:`LabelledPredictor`, or a :class:`ResidualPredictor`
    if a node must not depend on newer nodes (``timed``). For a compact graph, it is a
    :class:`SampledPredictor`.
    """
    graph = problem.graph
    if graph.compact:
        return SampledPredictor, with_defaults(replace(settings, model=NETWORK), DEFAULTS)
    residual = residual_settings(settings, problem)
    if residual is not None:
        return ResidualPredictor if timed else LabelledPredictor, residual
    labelled = torch.cat([problem.train, problem.val])
    x, edge_index, _ = problem.network_graph
    size = field_size(x, edge_index, labelled, settings.layers)
    products = settings.width * (size.values + size.edges)
    return NodePredictor, _limit_epochs(replace(settings, model=NETWORK), products)


def _limit_epochs(settings: NodeSettings, products: int) -> NodeSettings:
    """Return the settings of an attention network whose epoch computes a number of products. On a
    large graph, it has fewer epochs, at least 20, and a learning rate that is higher by the square
    root of the same factor.
    """
    epochs = min(settings.epochs, max(FEWEST_EPOCHS, int(MAX_PRODUCTS / max(products, 1))))
    rate = settings.learning_rate * (settings.epochs / epochs) ** 0.5
    return replace(settings, epochs=epochs, learning_rate=rate)


@contextmanager
def _one_thread(threads: int) -> Iterator[None]:
    """Limit BLAS libraries to one thread, and torch's operators to ``threads`` threads, or to one
    if it is 0. Warnings of scikit-learn on convergence and on the number of classes are ignored.

    The threads of a BLAS library would wait actively between small products.
    """
    with limited_threads(0, threads), threadpool_limits(1, "blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        yield
