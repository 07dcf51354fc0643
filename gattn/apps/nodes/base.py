"""Base class of the classifier and the regressor of nodes."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.apps.fitting.checks import check_fraction
from gattn.apps.fitting.settings import check_value, settings_of
from gattn.apps.fitting.types import EpochRecord
from gattn.apps.nodes import splits
from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where, at_row
from gattn.apps.nodes.edges import EdgeColumns
from gattn.apps.nodes.features import EncodedGraph, encode_graph
from gattn.apps.nodes.labels import Labels, read_labels, usual_labels
from gattn.apps.nodes.models import (
    AnyPredictor,
    fit_predictor,
    predictor_from_state,
    training_notes,
)
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem
from gattn.apps.nodes.reading import GraphLike, read_graph
from gattn.apps.nodes.settings import NodeParameters, NodeSettings, NodeTask
from gattn.apps.nodes.times import node_times, time_cutoffs, time_split
from gattn.apps.run.estimator import SerializableEstimator
from gattn.data import Split

Self = TypeVar("Self", bound="NodeEstimator")


if TYPE_CHECKING:  # type checkers derive the constructor's signature from the settings
    Parameters = NodeParameters
else:
    Parameters = object


class NodeEstimator(SerializableEstimator, Parameters):
    """Base class of the estimators of nodes; :class:`NodeParameters` describes the parameters."""

    task: ClassVar[NodeTask]
    item: ClassVar[str] = "nodes"
    predictor_: AnyPredictor
    graph_: AttributedGraph
    y_: Tensor
    notes_: tuple[str, ...]
    split_: Split
    _parameters = NodeParameters
    _predictor_kind = NodePredictor

    def fit(
        self: Self,
        graph: GraphLike,
        y: Labels | None = None,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train the model on the labelled nodes of a graph.

        Args:
            graph: a networkx graph, PyG's ``Data``, a table of edges, or tables (edges, nodes).
                For several types of nodes, PyG's ``HeteroData``, or a pair of dictionaries: tables
                of edges by relation (source type, name, destination type), and tables of nodes by
                type.
            y: n labels in the order of the nodes, None or NaN for unlabelled nodes; or a mapping
                from the nodes' names to labels; or None to read the attribute named by ``label``.
                In a tensor of whole numbers, -1 marks a node without a class.
            on_epoch: called after every epoch.

        Returns:
            The estimator itself.

        Raises:
            GraphError: the graph, an attribute or the labels cannot be trained on.
            ValueError: a parameter is out of its range.
        """
        # This call raises an error for invalid parameters before the graph is read.
        self.settings()
        self.checked_threads()
        read = read_graph(
            graph, directed=self.directed, label=self.label, label_type=self.label_type
        )
        if self.time is not None and read.network is not None:
            raise GraphError(
                f"time {self.time!r} cannot be set for a network with several tables of nodes"
            )
        values, notes = self._read_labels(read, y)
        labels = self.learn_labels(values, read.where)
        ordered, order = read.in_name_order()
        y_ordered = labels[order]
        split, split_notes = self._parts(ordered, y_ordered)
        encoded = self.encode(ordered.with_notes(*notes, *split_notes), values.name, split=split)
        self.fit_parts(encoded, y_ordered, split, on_epoch=on_epoch)
        if not torch.equal(order, torch.arange(len(order))):
            # The user's order of the nodes is that of all results.
            self.graph_ = encoded.encoder.attach_edges(read.with_notes(*notes, *split_notes))
            train, val, test = (
                order[part].sort().values
                for part in (self.split_.train, self.split_.val, self.split_.test)
            )
            self.y_, self.split_ = labels, replace(self.split_, train=train, val=val, test=test)
        return self

    def encode(
        self,
        graph: AttributedGraph,
        label: Hashable,
        *,
        leave: Sequence[str] = (),
        split: Split | None = None,
    ) -> EncodedGraph:
        """Fit the feature encoder to a graph, and return the graph with the features of its nodes.

        Args:
            graph: the graph.
            label: the attribute with the labels; None if they are not an attribute. Attributes
                called ``y`` or ``label`` are then excluded unless ``features`` names them.
            leave: attributes to exclude besides the label and the masks. Columns that hold row
                numbers or the parts of a split are excluded, too, unless ``features`` names them.
            split: the parts of the nodes. If only the edges have times and the split is by time,
                it defines the time at which a node is predicted; otherwise it is not used.
        """
        left = [name for name in (label, self.label, *leave, *splits.MASKS) if name is not None]
        if label is None:
            doubtful = [name for name in usual_labels(graph) if name not in (self.features or ())]
            left += doubtful
            graph = graph.with_notes(
                *(
                    f"Attribute {name!r} may contain the labels: it is not used as a feature."
                    for name in doubtful
                )
            )
        if self.features is None and graph.x is None:
            notes = splits.split_column_notes(graph)
            notes = {name: note for name, note in notes.items() if name not in left}
            left += notes
            graph = graph.with_notes(*notes.values())
        time = self.time
        if time is not None and time == (self.label if label is None else label):
            raise ValueError(f"time and label must be different columns; got {time!r} for both")
        if time in graph.table.columns and time not in (self.features or ()):
            left.append(time)
            graph = graph.with_notes(
                f"Column {time!r} of the nodes contains times and is not used as a feature."
            )
        edges = self.edge_columns()
        if time is not None and split is not None:
            edges = replace(edges, cutoffs=time_cutoffs(graph, split, time))
        return encode_graph(graph, self.features, left, node_names=bool(self.names), edges=edges)

    def edge_columns(self) -> EdgeColumns:
        """Return the names of the edge columns to read, and of the column of times."""
        features = self.edge_features
        return EdgeColumns(
            None if features is None else tuple(features),
            self.edge_weight, self.edge_type, self.time,
        )  # fmt: skip

    def fit_parts(
        self: Self,
        encoded: EncodedGraph,
        y: Tensor,
        split: Split,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train the model on the training part and the validation part of an encoded graph.

        Args:
            encoded: the result of :meth:`encode`.
            y: [n] float64 labels that :meth:`learn_labels` returned; NaN for nodes without a label.
            split: indices of nodes; the test part is not used.
            on_epoch: called after every epoch.

        Returns:
            The fitted estimator (``self``).

        Raises:
            GraphError: a part has no labelled node, or the training part contains only one class.
        """
        notes = self.check_split(y, split)
        encoded = replace(encoded, notes=(*encoded.notes, *notes))
        labelled = y.isfinite()
        train, val, test = (part[labelled[part]] for part in (split.train, split.val, split.test))
        for name, part in (("training", train), ("validation", val)):
            if not len(part):
                raise GraphError(f"the {name} part has no node with a label")
        drawn = splits.has_drawn_validation(split)
        problem = NodeProblem(encoded.graph, encoded.x, y, self.outputs, train, val, drawn)
        predictor = fit_predictor(
            problem, encoded.encoder, self.task, self.settings(), on_epoch, self.checked_threads()
        )
        self.predictor_ = predictor
        self.graph_, self.y_, self.notes_ = encoded.graph, y, encoded.notes
        self.split_ = replace(split, train=train, val=val, test=test)
        self._calibrate(y[val, None], predictor.validation)
        return self

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Check the labels of the parts before training.

        Args:
            y: [n] float64; NaN for nodes without a label.
            split: indices of nodes.

        Returns:
            Sentences about classes that are missing in a part; empty for regression.

        Raises:
            GraphError: the training part has one class only.
        """
        return []

    def settings(self) -> NodeSettings:
        """Return the settings of the estimator as an object of :class:`NodeSettings`."""
        return settings_of(NodeSettings, self)

    def checked_threads(self) -> int:
        """Return the setting ``threads``: the number of threads of each operator, or 0 to choose it
        automatically.

        Raises:
            ValueError: the number is negative.
        """
        return check_value(NodeParameters, "threads", self.threads)

    def embed(self, graph: GraphLike | None = None) -> np.ndarray:
        """Return the hidden vectors of the nodes, which are the inputs of the last layer.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.

        Returns:
            [n, width] float32.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.
        """
        read = self.read(graph)
        return self.predictor_.embed(read).numpy()

    def attention(self, graph: GraphLike | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the edges and the attention weights of each layer.

        Args:
            graph: as in :meth:`embed`.

        Returns:
            For each layer a pair: edges [2, e] from source to destination, including the self-loops
            that the layer adds, and weights [e, h], which sum to 1 over the edges into a node.
        """
        read = self.read(graph)
        layers = self.predictor_.attention(read)
        return [(edges.numpy(), weights.numpy()) for edges, weights in layers]

    def read(self, graph: GraphLike | None) -> AttributedGraph:
        """Read a graph in any supported format; None stands for the graph that was passed to
        ``fit``.

        Warns about attribute values that did not occur in training and therefore have no feature.

        Raises:
            GraphError: the graph is None and the estimator was loaded from a folder.
        """
        check_is_fitted(self, "predictor_")
        if graph is not None:
            network = self.predictor_.encoder.network
            read = read_graph(
                graph, directed=self.directed, label=self.label,
                label_type=None if network is None else network.target,
            )  # fmt: skip
            attached, notes = self.attach(read)
            for note in notes:
                warnings.warn(note, stacklevel=3)
            return attached
        if getattr(self, "graph_", None) is None:
            raise GraphError(
                "a loaded estimator does not contain a graph: pass the graph to predict"
            )
        return self.graph_

    def attach(self, graph: AttributedGraph) -> tuple[AttributedGraph, list[str]]:
        """Return a graph with the inputs that the model reads, and notes on values and labels that
        the model cannot use.
        """
        encoder = self.predictor_.encoder
        notes = encoder.unknown(graph)
        attached = encoder.attach_edges(graph)
        return attached, [*notes, *training_notes(self.predictor_, attached)]

    @classmethod
    def _restore(cls, tensors: dict[str, Tensor], state: dict[str, Any]) -> AnyPredictor:
        return predictor_from_state(tensors, state)

    def _read_labels(self, graph: AttributedGraph, y: Labels | None) -> tuple[pd.Series, list[str]]:
        return read_labels(graph, self.label, y, classes=self.task == "classification")

    def _parts(self, graph: AttributedGraph, y: Tensor) -> tuple[Split, list[str]]:
        fraction, by_class = float(self.validation_fraction), self.task == "classification"
        if self.time is not None:
            check_fraction("validation_fraction", fraction)
            times = node_times(graph, self.time)
            return time_split(y, times, (1 - fraction, fraction, 0.0), self.time)
        if splits.mask_columns(graph):
            return splits.masked_split(graph, y, self.seed, fraction, by_class=by_class)
        check_fraction("validation_fraction", fraction)
        fractions = (1 - fraction, fraction, 0.0)
        return splits.random_node_split(y, self.seed, fractions, by_class=by_class), []

    def _held_out(self, graph: GraphLike | None, y: Any) -> tuple[AttributedGraph, Tensor]:
        """Return a graph and labels on which the model can be scored. By default, these are the
        labels that ``fit`` did not use.
        """
        read = self.read(graph)
        if graph is not None or y is not None:
            return read, self.encode_labels(self._read_labels(read, y)[0], read.where)
        rest = self.y_.clone()
        rest[torch.cat([self.split_.train, self.split_.val])] = torch.nan
        if not rest.isfinite().any():
            raise GraphError(
                "every labelled node was used in fit: pass a graph and labels to score"
            )
        return read, rest

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of the network's outputs for each node."""

    @abstractmethod
    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Store the classes of the labels, and return the labels encoded as by
        :meth:`encode_labels`.
        """

    @abstractmethod
    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Convert labels to [n] float64, with NaN for nodes without a label.

        Error messages use ``where`` to describe the position of a node.
        """

    @abstractmethod
    def _calibrate(self, y: Tensor, output: Tensor) -> None:
        """Calibrate the prediction intervals, or the sets of classes, on the labels and
        predictions of the validation nodes.
        """
