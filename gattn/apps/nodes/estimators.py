"""Scikit-learn estimators that predict a class or a number for each node of a graph."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import pandas as pd
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.fitting.settings import check_fraction, settings_of
from gattn.apps.fitting.tasks import CLASS_INDICES, REGRESSION, Task
from gattn.apps.fitting.types import EpochRecord
from gattn.apps.nodes import splits
from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where, at_row
from gattn.apps.nodes.edges import EdgeColumns
from gattn.apps.nodes.features import EncodedGraph, encode_graph
from gattn.apps.nodes.labels import (
    Labels,
    encode_classes,
    encode_numbers,
    find_classes,
    labels_of,
    read_labels,
    usual_labels,
)
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem
from gattn.apps.nodes.reading import GraphLike, read_graph
from gattn.apps.nodes.sampled.predictor import SampledPredictor
from gattn.apps.nodes.settings import NodeParameters, NodeSettings
from gattn.apps.nodes.splits import check_numbers, missing_classes
from gattn.apps.nodes.stack.predictor import StackedPredictor, network_from_state
from gattn.apps.nodes.times import node_times, time_cutoffs, time_split
from gattn.apps.run.estimator import SerializableEstimator
from gattn.data import Split

AnyPredictor: TypeAlias = NodePredictor | StackedPredictor


def fit_predictor(
    problem: NodeProblem,
    settings: NodeSettings,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    threads: int = 0,
) -> AnyPredictor:
    """Train the model that the settings select, and return it with its predictions of the
    validation part; see :meth:`NodePredictor.fit`.

    Raises:
        TrainingError: a part has no label, or a loss is not finite.
    """
    arguments = problem, settings, on_epoch, threads
    if settings.model == "stacked":
        return StackedPredictor.fit(*arguments)
    kind = SampledPredictor if problem.graph.compact else NodePredictor
    predictor = kind.fit(*arguments)
    predictor.validation = predictor.predict(problem.graph)[problem.val]
    return predictor


def training_notes(predictor: AnyPredictor, graph: AttributedGraph) -> list[str]:
    """Return a sentence if a stack cannot use all labels of the training for a graph, because the
    graph is another network, or because it lacks nodes of the training. The list is empty if it has
    all of them, and for a model that is no stack.
    """
    if not isinstance(predictor, StackedPredictor):
        return []
    places = predictor.training_places(graph)
    if places is None:
        return [
            "The network is not that of the training (compared by the names of nodes and by the "
            "edges): the parts of the model that read labels are not used, and the "
            "coverage of sets and intervals is not guaranteed."
        ]
    missing = int((places < 0).sum())
    if not missing:
        return []
    return [
        f"{missing:,} of {len(places):,} training nodes are not in the network: their labels are "
        "not used."
    ]


def attention_network(predictor: AnyPredictor) -> NodePredictor:
    """Return the attention network of a model."""
    return predictor.network if isinstance(predictor, StackedPredictor) else predictor


Self = TypeVar("Self", bound="NodeEstimator")


if TYPE_CHECKING:  # type checkers derive the constructor's signature from the settings
    Parameters = NodeParameters
else:
    Parameters = object


class NodeEstimator(SerializableEstimator, Parameters):
    """Base class of the estimators of nodes; :class:`NodeParameters` describes the parameters."""

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
            TrainingError: a loss is not finite.
        """
        # This call raises an error for invalid parameters before the graph is read.
        self.settings()
        self.checked("threads")
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

        Raises:
            ValueError: time and label are the same column.
            GraphError: a column is missing or cannot be read.
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
            GraphError: a part has no labelled node, or the training part contains only one class,
                or only one number.
            ValueError: a parameter is out of its range.
            TrainingError: a loss is not finite.
        """
        notes = self.check_split(y, split)
        encoded = replace(encoded, notes=(*encoded.notes, *notes))
        labelled = y.isfinite()
        train, val, test = (part[labelled[part]] for part in (split.train, split.val, split.test))
        for name, part in (("training", train), ("validation", val)):
            if not len(part):
                raise GraphError(f"the {name} part has no node with a label")
        drawn = splits.has_drawn_validation(split)
        problem = NodeProblem(
            encoded.graph, encoded.x, y, self.outputs, train, val, self.task, encoded.encoder, drawn
        )
        predictor = fit_predictor(problem, self.settings(), on_epoch, self.checked("threads"))
        self.predictor_ = predictor
        self.graph_, self.y_, self.notes_ = encoded.graph, y, encoded.notes
        self.split_ = replace(split, train=train, val=val, test=test)
        self._calibrate(y[val, None], predictor.validation)
        return self

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Check the labels of the parts before training. The subclasses do so; here, all labels are
        valid.

        Args:
            y: [n] float64; NaN for nodes without a label.
            split: indices of nodes.

        Returns:
            Sentences about classes that are missing in a part; empty for regression.

        Raises:
            GraphError: all labels of the training part are equal.
        """
        return []

    def settings(self) -> NodeSettings:
        """Return the settings of the estimator as an object of :class:`NodeSettings`."""
        return settings_of(NodeSettings, self)

    def embed(self, graph: GraphLike | None = None) -> np.ndarray:
        """Return the hidden vectors of the nodes, which are the inputs of the last layer.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.

        Returns:
            [n, width] float32; for one layer without skip connections, the features that it reads.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.

        Warns:
            UserWarning: another graph has values that did not occur in training; see :meth:`read`.
        """
        read = self.read(graph)
        return self.predictor_.embed(read).numpy()

    def attention(self, graph: GraphLike | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the edges and the attention weights of each layer.

        Args:
            graph: as in :meth:`embed`.

        Returns:
            For each layer a pair: edges [2, e] from source to destination, including the self-loops
            that the layer adds, and weights [e, h], which sum to 1 over the edges into a node. With
            several types of nodes, the edges join the nodes of all types, of which those of the
            predicted type are the first. For a model that was trained on sampled neighbourhoods,
            the edges are a sample around at most 64 nodes.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.

        Warns:
            UserWarning: another graph has values that did not occur in training; see :meth:`read`.
        """
        read = self.read(graph)
        layers = self.predictor_.attention(read)
        return [(edges.numpy(), weights.numpy()) for edges, weights in layers]

    def read(self, graph: GraphLike | None) -> AttributedGraph:
        """Read a graph in any supported format; None stands for the graph that was passed to
        ``fit``.

        Warns about attribute values that did not occur in training and therefore have no feature,
        and about labels of the training that a stack cannot use for this graph.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph is None and the estimator was loaded from a folder, or a column of
                edges is missing or cannot be read.
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
        the model cannot use. Raises GraphError if a column of edges is missing or cannot be read,
        or if the graph has other types of nodes than in training.
        """
        encoder = self.predictor_.encoder
        notes = encoder.unknown(graph)
        attached = encoder.attach_edges(graph)
        return attached, [*notes, *training_notes(self.predictor_, attached)]

    @classmethod
    def _restore(cls, tensors: dict[str, Tensor], state: dict[str, Any]) -> AnyPredictor:
        is_stack = "components" in state
        return (StackedPredictor.from_state if is_stack else network_from_state)(tensors, state)

    def _read_labels(self, graph: AttributedGraph, y: Labels | None) -> tuple[pd.Series, list[str]]:
        return read_labels(graph, self.label, y, classes=self.task.is_class)

    def _parts(self, graph: AttributedGraph, y: Tensor) -> tuple[Split, list[str]]:
        """Split the labelled nodes by time, by masks or at random; return also notes. Raises
        ValueError if validation_fraction is no fraction or the labels cannot be split.
        """
        share, by_class = float(self.validation_fraction), self.task.is_class
        check_fraction("validation_fraction", share)
        fractions = (1 - share, share, 0.0)
        if self.time is not None:
            return time_split(y, node_times(graph, self.time), fractions, self.time)
        if splits.mask_columns(graph):
            return splits.masked_split(graph, y, self.seed, share, by_class=by_class)
        return splits.random_node_split(y, self.seed, fractions, by_class=by_class), []

    def _held_out(self, graph: GraphLike | None, y: Any) -> tuple[Tensor, Tensor]:
        """Return k labels with which the model can be scored, [k] float64, and the predictions of
        their nodes, [k, outputs]. By default, these are the labels that ``fit`` did not use. Raises
        GraphError if there are no such labels, if ``y`` cannot be read, and as :meth:`read`, with
        its warnings.
        """
        read = self.read(graph)
        if graph is not None or y is not None:
            truth = self.encode_labels(self._read_labels(read, y)[0], read.where)
        else:
            truth = self.y_.clone()
            truth[torch.cat([self.split_.train, self.split_.val])] = torch.nan
            if not truth.isfinite().any():
                raise GraphError(
                    "every labelled node was used in fit: pass a graph and labels to score"
                )
        mask = truth.isfinite()
        return truth[mask], self.predictor_.predict(read)[mask]

    @property
    def class_names(self) -> list[str]:
        """Names of the classes; empty for numbers."""
        return list(map(str, getattr(self, "classes_", ())))

    @property
    def outputs(self) -> int:
        """Number of the network's outputs for each node: the number of classes, or 1."""
        return len(self.class_names) or 1

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


class NodeClassifier(ClassifierMixin, NodeEstimator):
    """Classifier of the nodes of a graph, trained on the nodes with a label.

    ``fit`` reads the whole graph and its labels, and ``predict()`` predicts all its nodes
    (transductive). ``predict(graph)`` predicts another graph with the same attributes (inductive).

    Args:
        {settings}

    Attributes:
        classes_: the classes, sorted.
        graph_: the graph of ``fit``, whose ``names`` are in the order of predictions.
        split_: the indices of the training and validation part.
        notes_: sentences about the choices that were made when the graph was read.
        predictor_: the fitted model.
        history_: the training history.

    Example:
        >>> import networkx
        >>> club = networkx.karate_club_graph()
        >>> known = {0: "Mr. Hi", 1: "Mr. Hi", 32: "Officer", 33: "Officer"}
        >>> model = NodeClassifier(epochs=20, features=[], validation_fraction=0.5)
        >>> model.fit(club, known).predict().shape
        (34,)
    """

    task: ClassVar[Task] = CLASS_INDICES

    def predict(self, graph: GraphLike | None = None) -> np.ndarray:
        """Predict the most probable class of each node.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.

        Returns:
            [n], the predicted class of each node, one of ``classes_``.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.

        Warns:
            UserWarning: another graph has values that did not occur in training; see :meth:`read`.
        """
        best = self.predict_proba(graph).argmax(1)
        return self.classes_[best]

    def predict_proba(self, graph: GraphLike | None = None) -> np.ndarray:
        """Return the probability of each class for each node, [n, classes] float64.

        The columns are in the order of ``classes_``. The argument, the errors and the warnings are
        the same as for :meth:`predict`.
        """
        read = self.read(graph)
        return self.predictor_.predict(read).numpy()

    def predict_set(self, graph: GraphLike | None = None, coverage: float = 0.9) -> np.ndarray:
        """Predict sets of classes that contain the true class with the given probability.

        The coverage holds for each class, on nodes from the distribution of the validation part:
        see :class:`gattn.apps.fitting.conformal.LabelSetCalibrator`. Every set contains the
        predicted class.

        Args:
            graph: as in :meth:`predict`.
            coverage: the probability, above 0 and below 1.

        Returns:
            [n, classes] bool: True for each class in the set, in the order of ``classes_``.

        Raises:
            ValueError: the coverage is not in (0, 1).
            NotFittedError, GraphError: as in :meth:`predict`, with its warnings.
        """
        return self.sets(torch.from_numpy(self.predict_proba(graph)), coverage).numpy()

    def sets(self, probability: Tensor, coverage: float) -> Tensor:
        """Return the sets of classes as a mask [k, classes] bool, given probabilities [k,
        classes]. Every set contains the most probable class.
        """
        sets = self.calibrator_.sets([probability], coverage=coverage)[:, 0]
        # Models that were fitted again, and changed networks, have other probabilities than those
        # of the calibration. A set without the prediction would contradict it.
        return sets.scatter(1, probability.argmax(1, keepdim=True), value=True)

    def score(self, graph: GraphLike | None = None, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the accuracy on the labelled nodes.

        Args:
            graph: another graph; None for the graph of ``fit``.
            y: labels as in ``fit``; by default the labelled nodes of ``fit`` that are in neither
                its training nor its validation part.

        Returns:
            From 0 to 1.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: no such node is labelled, a label is no class of the training, or the graph
                cannot be read.

        Warns:
            UserWarning: another graph has values that did not occur in training; see :meth:`read`.
        """
        truth, predicted = self._held_out(graph, y)
        return float(accuracy_score(truth.numpy(), predicted.argmax(1).numpy()))

    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Store the classes of the labels, and return the labels encoded as by
        :meth:`encode_labels`. Raises GraphError if there are fewer than two different labels, or
        too many to be classes.
        """
        self.classes_ = find_classes(values, where)
        return self.encode_labels(values, where)

    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Return the index of each label in ``classes_``, [n] float64; NaN for a missing label.
        Raises GraphError for a label that is no class.
        """
        return encode_classes(values, self.classes_)

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Return notes on classes that are missing in a part of the split.

        See :func:`gattn.apps.nodes.splits.missing_classes`. Raises GraphError if the training part
        has only one of several classes.
        """
        return missing_classes(y, split, self.classes_.tolist())

    def _calibrate(self, y: Tensor, output: Tensor) -> None:
        self.calibrator_ = LabelSetCalibrator.fit(y, [output])

    def _labels_state(self) -> dict[str, Any]:
        return super()._labels_state() | {"classes": self.classes_.tolist()}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        super()._load_labels_state(state)
        self.classes_ = np.array(state["classes"])


class NodeRegressor(RegressorMixin, NodeEstimator):
    """Regressor of the nodes of a graph, trained on the nodes with a label.

    Args:
        {settings}

    Example:
        >>> import networkx
        >>> path = networkx.path_graph(12)
        >>> model = NodeRegressor(epochs=5).fit(path, [0.1 * i for i in range(12)])
        >>> model.predict().shape
        (12,)
    """

    task: ClassVar[Task] = REGRESSION

    def predict(self, graph: GraphLike | None = None) -> np.ndarray:
        """Return the predicted number for each node, [n] float64, in the unit of the labels.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, or no graph was passed to a loaded estimator.

        Warns:
            UserWarning: another graph has values that did not occur in training; see :meth:`read`.
        """
        read = self.read(graph)
        return self.predictor_.predict(read)[:, 0].numpy()

    def predict_interval(
        self, graph: GraphLike | None = None, coverage: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper ends, [n] each, of intervals that contain the true value with
        the given probability.

        The intervals have the same width for every node: see
        :class:`gattn.apps.fitting.conformal.IntervalCalibrator`.

        Args:
            graph: as in :meth:`predict`.
            coverage: the probability, above 0 and below 1.

        Raises:
            ValueError: the coverage is not in (0, 1).
            NotFittedError, GraphError: as in :meth:`predict`, with its warnings.
        """
        low, high = self.intervals(torch.from_numpy(self.predict(graph))[:, None], coverage)
        return low[:, 0].numpy(), high[:, 0].numpy()

    def intervals(self, mean: Tensor, coverage: float) -> tuple[Tensor, Tensor]:
        """Return the lower and upper ends, [k, 1] each, of the prediction intervals for
        predictions [k, 1].
        """
        return self.calibrator_.interval(mean, torch.ones_like(mean), coverage=coverage)

    def score(self, graph: GraphLike | None = None, y: Any = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return R² on the labelled nodes. The arguments, the choice of the nodes and the warnings
        are those of :meth:`NodeClassifier.score`. Raises GraphError if no such node has a label, a
        label is no finite number, or the graph cannot be read.
        """
        truth, predicted = self._held_out(graph, y)
        return float(r2_score(truth.numpy(), predicted[:, 0].numpy()))

    def learn_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Check that the labels differ, and return them as :meth:`encode_labels` does. Raises
        GraphError if they are all equal.
        """
        y = self.encode_labels(values, where)
        if len(y[y.isfinite()].unique()) < 2:
            raise GraphError(f"{labels_of(values)} must be at least two different numbers")
        return y

    def encode_labels(self, values: pd.Series, where: Where = at_row) -> Tensor:
        """Convert labels to [n] float64, with NaN for nodes without a label.

        Error messages use ``where`` to describe the position of a node. Raises GraphError for a
        label that is no finite number.
        """
        return encode_numbers(values, where)

    def check_split(self, y: Tensor, split: Split) -> list[str]:
        """Raise GraphError if the labels of the training part are all equal; return no notes."""
        check_numbers(y, split)
        return []

    def _calibrate(self, y: Tensor, output: Tensor) -> None:
        self.calibrator_ = IntervalCalibrator.fit(y, output, torch.ones_like(output))


ESTIMATORS: dict[str, type[NodeEstimator]] = {
    str(kind.task): kind for kind in (NodeClassifier, NodeRegressor)
}
"""Estimators by the name of their task."""
