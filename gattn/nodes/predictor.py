"""A network of nodes with the features that it reads: trained, applied to graphs, kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.features import FeatureEncoder
from gattn.nodes.fields import FieldInput, read_features, receptive_field, whole_graph
from gattn.nodes.network import make_network
from gattn.nodes.settings import NodeSettings, NodeTask
from gattn.nodes.stack import apply_stacked, can_stack
from gattn.training.full_batch import (
    FullBatch,
    FullBatchSettings,
    apply_each,
    fit_full_batches,
)
from gattn.training.losses import squared_error
from gattn.training.scaling import moments
from gattn.training.settings import from_table, to_table
from gattn.training.types import EpochRecord, History

__all__ = ["NodePredictor", "NodeProblem"]

GPS_NODES = 20_000
"""Attention among all nodes of a larger graph takes hours a step."""


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """A graph with labels, of which a part trains and a part chooses the epoch.

    Attributes:
        graph: the nodes and edges.
        x: [n, d] their features, dense or ``torch.sparse_csr``.
        y: [n] float64, classes from 0 or numbers, NaN where unknown.
        outputs: classes; 1 for numbers.
        train: [k] int64, the nodes to learn from.
        val: [k] int64, the nodes that choose the epoch.
    """

    graph: AttributedGraph
    x: Tensor
    y: Tensor
    outputs: int
    train: Tensor
    val: Tensor


class NodePredictor:
    """A trained model of nodes: what :meth:`fit` gives and :meth:`from_state` restores.

    Attributes:
        settings: what it was trained by.
        task: ``"regression"`` or ``"classification"``.
        encoder: the features that it reads.
        network: its weights.
        mean: of the training labels, 0 of classes.
        std: of the training labels, 1 of classes.
        history: what was recorded of the training; empty after :meth:`from_state`.
    """

    def __init__(
        self, settings: NodeSettings, task: NodeTask, encoder: FeatureEncoder, outputs: int
    ) -> None:
        """Make it with its first weights."""
        self.settings, self.task, self.encoder = settings, task, encoder
        self.outputs = outputs
        self.network = make_network(settings, encoder.width, outputs).eval()
        self.mean, self.std = 0.0, 1.0
        self.history: list[History] = []
        self._read: tuple[AttributedGraph, Tensor] | None = None

    @classmethod
    def fit(
        cls,
        problem: NodeProblem,
        encoder: FeatureEncoder,
        task: NodeTask,
        settings: Sequence[NodeSettings],
        tick: Callable[[EpochRecord], None] = lambda record: None,
    ) -> list[NodePredictor]:
        """Train on the labelled nodes of a graph, once or several times together.

        Args:
            problem: the graph, its labels and parts.
            encoder: of the problem's features.
            task: what the labels are.
            settings: how; of several models that differ in their seeds alone.
            tick: told of every epoch.

        Returns:
            The trained models.

        Raises:
            GraphError: a graph too large for the model.
            TrainingError: no label of a part is known, or the loss is not finite.
        """
        _check_size(settings[0], len(problem.graph))
        made: list[NodePredictor] = [cls(one, task, encoder, problem.outputs) for one in settings]
        y, (mean, std) = problem.y, (0.0, 1.0)
        if task == "regression":
            mean, std = (float(one) for one in moments(y[problem.train, None]))
            y = (y - mean) / std
        first, networks = settings[0], [one.network for one in made]
        histories = fit_full_batches(
            networks,
            _class_loss if task == "classification" else squared_error,
            made[0]._part(problem, problem.train, y),
            made[0]._part(problem, problem.val, y),
            FullBatchSettings(
                first.epochs, first.patience, first.learning_rate, first.weight_decay, first.seed
            ),
            apply=apply_stacked if can_stack(networks) else apply_each,
            score=_is_right if task == "classification" else None,
            tick=tick,
        )
        for one, history in zip(made, histories):
            one._read, one.mean, one.std = (problem.graph, problem.x), mean, std
            one.history = [history]
        return made

    def _part(self, problem: NodeProblem, nodes: Tensor, y: Tensor) -> FullBatch[FieldInput]:
        """The field of some nodes and their labels."""
        edges, n, layers = problem.graph.edge_index, len(problem.graph), self.settings.layers
        if self.settings.model == "gps":  # every node reads every other
            target = torch.full((n, 1), torch.nan, dtype=torch.float32)
            target[nodes, 0] = y[nodes].float()
            return FullBatch(FieldInput(problem.x, whole_graph(edges, n, layers)), target)
        field = receptive_field(edges, n, nodes, layers)
        inputs = FieldInput(read_features(problem.x, field.nodes), field)
        return FullBatch(inputs, y[nodes, None].float())

    @torch.no_grad()
    def predict(self, graph: AttributedGraph) -> Tensor:
        """Probabilities [n, classes], or numbers [n, 1] in the labels' unit: float64."""
        out = self.network(self._whole(graph)).double()
        return out.softmax(1) if self.task == "classification" else out * self.std + self.mean

    @torch.no_grad()
    def embed(self, graph: AttributedGraph) -> Tensor:
        """What the last layer reads of every node: [n, width] float32."""
        made = self.network.embed(self._whole(graph))
        return made if made.layout == torch.strided else made.to_dense()

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Of each layer its edges [2, e], with the self-loops it adds, and weights [e, h]."""
        return self.network.attention(self._whole(graph))

    def _whole(self, graph: AttributedGraph) -> FieldInput:
        _check_size(self.settings, len(graph))
        if self._read is None or self._read[0] is not graph:  # text takes long to read
            self._read = graph, self.encoder.features(graph)
        field = whole_graph(graph.edge_index, len(graph), self.settings.layers)
        return FieldInput(self._read[1], field)

    def __getstate__(self) -> dict[str, Any]:
        """Without the last graph, which a process that gets the model has."""
        return {**self.__dict__, "_read": None}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors, and what else :meth:`from_state` needs, for JSON."""
        return dict(self.network.state_dict()), {
            "settings": to_table(self.settings), "task": self.task, "outputs": self.outputs,
            "encoder": self.encoder.state(), "mean": self.mean, "std": self.std,
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> NodePredictor:
        """Make a model of what :meth:`state` gave.

        Raises:
            KeyError: something is missing.
            ValueError: a tensor is missing or of another shape.
        """
        encoder = FeatureEncoder.from_state(state["encoder"])
        settings = from_table(NodeSettings, state["settings"])
        made = cls(settings, state["task"], encoder, state["outputs"])
        try:
            made.network.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(str(error)) from None
        made.mean, made.std = state["mean"], state["std"]
        return made


def _check_size(settings: NodeSettings, nodes: int) -> None:
    if settings.model == "gps" and nodes > GPS_NODES:
        raise GraphError(
            f"gps attends among all pairs of nodes: at most {GPS_NODES:,} nodes; got {nodes:,}. "
            "Take gat, gatv2 or transformer"
        )


def _class_loss(output: Tensor, target: Tensor) -> Tensor:
    """-log of the probability of the true class: [k, 1]."""
    return F.cross_entropy(output, target[:, 0].long(), reduction="none")[:, None]


def _is_right(output: Tensor, target: Tensor) -> Tensor:
    """1 where the likeliest class is the true one, else 0: [k, 1]."""
    return (output.argmax(1, keepdim=True) == target).float()
