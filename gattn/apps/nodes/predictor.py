"""Model of the nodes of a graph: a neural network and the encoder of its input features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from gattn.apps.fitting.full_batch import FullBatch, FullBatchSettings, fit_full_batch
from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.tasks import SINGLE_TARGET_TASKS, Task
from gattn.apps.fitting.types import EpochRecord, History, Loss
from gattn.apps.nodes import fields
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.network import AttentionNetwork, attention_weights
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.runtime.threads import limited_threads

Self = TypeVar("Self", bound="NodePredictor")


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """Graph with features, labels, a training part and a validation part.

    Attributes:
        graph: the nodes and edges.
        x: [n, d] features, dense or ``torch.sparse_csr``.
        y: [n] float64, numbers of classes from 0 or numbers to predict; NaN for missing labels.
        outputs: number of classes; 1 for numbers.
        train: [k] int64 nodes to train on.
        val: [k] int64 validation nodes, by which the epoch is chosen.
        task: type of the labels.
        encoder: encoder of the features.
        drawn: True if the validation part was drawn from the nodes for training.
    """

    graph: AttributedGraph
    x: Tensor
    y: Tensor
    outputs: int
    train: Tensor
    val: Tensor
    task: Task
    encoder: FeatureEncoder
    drawn: bool = False

    @cached_property
    def network_graph(self) -> NetworkGraph:
        """Graph that an attention network reads; the choice of its settings and all trainings share
        it.
        """
        return NetworkGraph.of(self.graph, self.x)


class NetworkGraph(NamedTuple):
    """Graph that an attention network reads. For several types, it has the nodes of all types.

    Attributes:
        x: [m, d] features of the nodes, dense or ``torch.sparse_csr``; the nodes that are predicted
            are the first.
        edge_index: [2, e] int64 from source to destination.
        terms: features and biases of the edges, by the name of a layer's argument; empty if there
            are none.
    """

    x: Tensor
    edge_index: Tensor
    terms: Mapping[str, Tensor]

    @classmethod
    def of(cls, graph: AttributedGraph, x: Tensor) -> NetworkGraph:
        """Return the graph that a network reads, given the features x [n, d] of the graph's nodes.
        The inputs of a network with several types must have been attached by an encoder.
        """
        if graph.network is None:
            return cls(x, graph.edge_index, graph.edge_terms)
        inputs = graph.network.inputs
        assert inputs is not None
        return cls(inputs.joined(x), inputs.edge_index, inputs.terms)


class NodePredictor:
    """Trained model of the nodes of a graph, created by :meth:`fit` or :meth:`from_state`.

    Attributes:
        settings: settings of the model and of its training.
        task: type of the labels.
        encoder: encoder of the features.
        network: the network.
        mean: mean of the training labels; 0 for classes.
        std: standard deviation of the training labels; 1 for classes.
        validation: [m, outputs] predictions of the validation part; empty after
            :meth:`from_state`.
        history: records of the training; empty after :meth:`from_state`.
        threads: number of threads inside an operator of a prediction; 0 to choose it from the size
            of the graph.
        schedule: schedule of the learning rate.
        is_refit: False; a stack may be fitted again to the validation part, too.
    """

    schedule: ClassVar[Literal["constant", "one-cycle"]] = "constant"
    threads = 0
    is_refit = False
    _network_class: ClassVar[Any] = AttentionNetwork

    def __init__(
        self, settings: NodeSettings, task: Task, encoder: FeatureEncoder, outputs: int
    ) -> None:
        """Create an untrained model with initial weights."""
        self.settings, self.task, self.encoder = settings, task, encoder
        self.outputs = outputs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            self.network = self._make_network().eval()
        self.mean, self.std = 0.0, 1.0
        self.validation = torch.zeros(0, outputs, dtype=torch.float64)
        self.history: list[History] = []
        self._read: tuple[AttributedGraph, NetworkGraph] | None = None
        self._inputs: tuple[AttributedGraph, Any] | None = None

    def _make_network(self) -> Any:
        """Create the network with initial weights."""
        encoder = self.encoder
        return self._network_class(
            self.settings, encoder.network_width, self.outputs, encoder.edge_dim
        )

    @classmethod
    def fit(
        cls: type[Self],
        problem: NodeProblem,
        settings: NodeSettings,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        threads: int = 0,
    ) -> Self:
        """Train a model on the labelled nodes of a graph.

        Args:
            problem: the graph, its labels and parts.
            settings: settings of the model.
            on_epoch: called after every epoch.
            threads: number of threads inside an operator; 0 to choose it by the size of the
                network. The previous number of threads is restored at the end.

        Returns:
            The trained model.

        Raises:
            TrainingError: a part has no label, or the loss is not finite.
        """
        predictor = cls(settings, problem.task, problem.encoder, problem.outputs)
        mean, std = map(float, problem.task.scaling(problem.y[problem.train, None]))
        history = predictor._train(problem, (problem.y - mean) / std, on_epoch, threads)
        predictor.mean, predictor.std, predictor.threads = mean, std, threads
        predictor.history = [history]
        return predictor

    def _train(
        self,
        problem: NodeProblem,
        y: Tensor,
        on_epoch: Callable[[EpochRecord], None],
        threads: int,
    ) -> History:
        """Train the network of an untrained model in place, and return its history.

        The arguments are those of :meth:`fit`; ``y`` [n] are classes or standardised numbers.
        Raises TrainingError if the loss is not finite.
        """
        self._read = problem.graph, problem.network_graph
        settings = self.settings
        training = FullBatchSettings(
            settings.epochs, settings.patience, settings.learning_rate, settings.weight_decay,
            settings.seed, self.schedule,
        )  # fmt: skip
        with limited_threads(graph_elements(problem.graph, settings), threads):
            return fit_full_batch(
                self.network,
                self.loss,
                self._part(problem, problem.train, y),
                self._part(problem, problem.val, y),
                training,
                score=_is_right if self.task.is_class else None,
                on_epoch=on_epoch,
            )

    def _part(self, problem: NodeProblem, nodes: Tensor, y: Tensor) -> FullBatch[Any]:
        """Return the training input for given nodes, [k] int64: their receptive field, features
        and labels. ``y`` [n] are the classes or standardised numbers of all nodes.
        """
        x, edge_index, every_term = problem.network_graph
        field = fields.receptive_field(edge_index, x.shape[0], nodes, self.settings.layers)
        terms = fields.edge_terms(every_term, field)
        inputs = fields.FieldInput(fields.read_features(x, field.nodes), field, terms)
        return FullBatch(inputs, y[nodes, None].float())

    @property
    def loss(self) -> Loss:
        """Element-wise loss of the training."""
        return self.task.loss()

    @property
    def validation_loss(self) -> float:
        """Loss on the validation part at the chosen epoch."""
        return self.history[0].validation_losses[self.history[0].chosen]

    @torch.no_grad()
    def predict(self, graph: AttributedGraph) -> Tensor:
        """Return probabilities [n, classes], or numbers [n, 1] in the unit of the labels, as
        float64.

        Args:
            graph: the graph with the inputs of its edges, which ``encoder.attach_edges`` returned.
                The model stores it with its features until the next graph is predicted.

        Raises:
            GraphError: the graph lacks an attribute that the model reads.
            RuntimeError: the model reads columns of edges or several types of nodes, and the graph
                was not passed through ``attach_edges``.
        """
        with limited_threads(graph_elements(graph, self.settings), self.threads):
            return self.in_unit(self.network(self._whole(graph))[: len(graph)].double())

    def in_unit(self, out: Tensor) -> Tensor:
        """Convert outputs of the network to probabilities, or to numbers in the unit of the
        labels.
        """
        return self.task.link(out * self.std + self.mean)

    def predict_edited(self, graph: AttributedGraph, original: AttributedGraph) -> Tensor:
        """Predict a graph that was created from ``original`` by removing edges or attribute
        values.
        """
        return self.predict(graph)

    @torch.no_grad()
    def embed(self, graph: AttributedGraph) -> Tensor:
        """Return the input of the last layer for each node, [n, width] float32; for one layer
        without skip connections, the features that it reads. The argument and the errors are those
        of :meth:`predict`.
        """
        with limited_threads(graph_elements(graph, self.settings), self.threads):
            embedding = self.network.embed(self._whole(graph))
            dense = embedding if embedding.layout == torch.strided else embedding.to_dense()
            return dense[: len(graph)]

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer the edges [2, e], including added self-loops, and the attention
        weights [e, h]. With several types of nodes, the edges join the nodes of all types, of which
        those of the predicted type are the first. The argument and the errors are those of
        :meth:`predict`.
        """
        with limited_threads(graph_elements(graph, self.settings), self.threads):
            return attention_weights(self.network, self._whole(graph))

    def _whole(self, graph: AttributedGraph) -> Any:
        """Return the input of the network for all nodes of a graph."""
        x, edge_index, terms = self._network_graph(graph)
        field = fields.whole_graph(edge_index, x.shape[0], self.settings.layers)
        return fields.FieldInput(x, field, fields.edge_terms(terms, field))

    def _network_graph(self, graph: AttributedGraph) -> NetworkGraph:
        """Return the graph that the network reads. That of the last graph is cached, because
        encoding texts is slow. The errors are those of :meth:`predict`.
        """
        if self._read is None or self._read[0] is not graph:
            self._read = graph, NetworkGraph.of(graph, self.encoder.features(graph))
        return self._read[1]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling. It does not contain the last graph, because the
        receiving process has it.
        """
        return {**self.__dict__, "_read": None, "_inputs": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        return dict(self.network.state_dict()), {
            "kind": type(self).__name__,
            "settings": to_table(self.settings), "task": self.task.name, "outputs": self.outputs,
            "encoder": self.encoder.state(), "mean": self.mean, "std": self.std,
        }  # fmt: skip

    @classmethod
    def from_state(cls: type[Self], tensors: dict[str, Tensor], state: Mapping[str, Any]) -> Self:
        """Restore a model from the result of :meth:`state`.

        Raises:
            KeyError: an entry of the state is missing.
            RuntimeError: a tensor is missing or has another shape.
            SettingsError: a setting is unknown or out of range.
        """
        encoder = FeatureEncoder.from_state(state["encoder"])
        settings = from_table(NodeSettings, state["settings"])
        predictor = cls(settings, SINGLE_TARGET_TASKS[state["task"]], encoder, state["outputs"])
        predictor.network.load_state_dict(tensors)
        predictor.mean, predictor.std = state["mean"], state["std"]
        return predictor


def graph_elements(graph: AttributedGraph, settings: NodeSettings) -> int:
    """Return the number of nodes times the number of hidden features, which measures the size of a
    layer.

    The size decides how many threads compute a layer; see
    :func:`gattn.apps.runtime.threads.choose_threads`.
    """
    return len(graph) * settings.width


def _is_right(output: Tensor, target: Tensor) -> Tensor:
    """Return a tensor [k, 1] that is 1 for each node whose class is predicted correctly, and 0
    for the others.
    """
    return (output.argmax(1, keepdim=True) == target).float()
