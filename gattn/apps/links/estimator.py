"""Estimator with scikit-learn's interface that predicts links between the nodes of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.fitting.settings import check_fraction, settings_of
from gattn.apps.fitting.tasks import CLASSIFICATION, Task
from gattn.apps.fitting.types import EpochRecord
from gattn.apps.links.model import LinkModel, LinkProblem
from gattn.apps.links.pairs import Links, link_times, random_parts, read_links, restrict, time_parts
from gattn.apps.links.settings import LinkParameters, LinkSettings
from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.edges import EdgeColumns
from gattn.apps.nodes.features import EncodedGraph, encode_graph
from gattn.apps.nodes.reading import GraphLike, read_graph
from gattn.apps.nodes.splits import MASKS, split_column_notes
from gattn.apps.run.estimator import SerializableEstimator
from gattn.apps.run.notes import noise_note
from gattn.data import Split

Self = TypeVar("Self", bound="LinkPredictor")


if TYPE_CHECKING:  # type checkers derive the constructor's signature from the settings
    Parameters = LinkParameters
else:
    Parameters = object


class LinkPredictor(SerializableEstimator, Parameters):
    """Predictor of links between the nodes of a graph, trained on the graph's edges.

    ``fit`` reads the graph, and ``predict()`` proposes links that the graph does not have.
    ``predict(graph)`` proposes links of another graph with the same attributes.

    Args:
        {settings}

    Attributes:
        graph_: the graph of ``fit``, with all edges.
        links_: the links of this graph.
        split_: positions of the training and validation links in ``links_``.
        notes_: sentences about the choices of the reader of the graph, for example the columns of
            sources and targets.
        validation_: metrics of each component on the validation links.
        predictor_: the fitted model. Its attribute ``noise`` names the metrics by which it does not
            score links better than a random order.
        history_: the training history.

    Example:
        >>> import networkx
        >>> club = networkx.karate_club_graph()
        >>> model = LinkPredictor(epochs=5, features=[], negatives=20).fit(club)
        >>> model.predict(top=3).columns.tolist()
        ['source', 'target', 'score', 'probability']
    """

    item: ClassVar[str] = "links"
    task: ClassVar[Task] = CLASSIFICATION
    predictor_: LinkModel
    graph_: AttributedGraph
    links_: Links
    split_: Split
    notes_: tuple[str, ...]
    validation_: dict[str, dict[str, float]]
    _parameters = LinkParameters
    _predictor_kind = LinkModel

    def fit(
        self: Self,
        graph: GraphLike,
        y: None = None,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train the model on the edges of a graph.

        Args:
            graph: a networkx graph, PyG's ``Data``, a table of edges, or tables (edges, nodes).
            y: not used; the edges are the labels.
            on_epoch: called after every epoch.

        Returns:
            The estimator itself.

        Raises:
            GraphError: the graph or an attribute cannot be trained on.
            ValueError: a parameter is out of its range.
            TrainingError: a loss is not finite.

        Warns:
            UserWarning: by some metric, the model is not significantly better than a random order.
        """
        self.settings()  # this call raises an error for invalid parameters before the graph is read
        check_fraction("validation_fraction", float(self.validation_fraction))
        read = read_graph(graph, directed=False)
        links, notes = read_links(read, self.directed)
        split, times = self.parts(read, links, float(self.validation_fraction), 0.0)
        encoded = self.encode(read.with_notes(*notes), links, split)
        self.fit_parts(encoded, links, split, times, on_epoch=on_epoch)
        self.graph_ = self.predictor_.encoder.attach_edges(read)
        if self.predictor_.noise:
            warnings.warn(noise_note("links", self.predictor_.noise), stacklevel=2)
        return self

    def parts(
        self, graph: AttributedGraph, links: Links, val: float, test: float
    ) -> tuple[Split, NDArray[np.float64] | None]:
        """Divide the links into parts, by the column of times or at random.

        Args:
            graph: the graph with all edges.
            links: its m links.
            val: share of the validation part, above 0.
            test: share of the test part; 0 for none.

        Returns:
            The positions of the links in each part, and the times [m] of the links; None without a
            column of times.

        Raises:
            GraphError: there are too few links or times, a time is missing, or every directed link
                has an opposite link, from which it would be predicted.
        """
        if links.directed and links.are_links(*links.pairs[::-1]).all():
            raise GraphError("every edge has an opposite edge: set --undirected or directed=False")
        if self.time is None:
            return random_parts(links, int(self.seed), val, test), None
        times = link_times(graph, links, self.time)
        return time_parts(links, times, val, test, self.time), times

    def encode(self, graph: AttributedGraph, links: Links, split: Split) -> EncodedGraph:
        """Fit the feature encoder to the graph of the training links.

        Args:
            graph: the graph with all edges.
            links: its links.
            split: the parts of the links. No edge of a validation or test link is read.

        Returns:
            The graph of the training links, with the features of its nodes and edges. Unless they
            are named as features, the column of times, and columns of nodes that look like the
            parts of a split, are left out.

        Raises:
            GraphError: a column is missing or cannot be read.
        """
        messages = restrict(graph, links, split.train.numpy())
        left: list[Hashable] = [*MASKS]
        if self.features is None and graph.x is None:
            notes = split_column_notes(graph)
            left += notes
            messages = messages.with_notes(*notes.values())
        table = messages.edge_table
        special = *(self.edge_features or ()), self.edge_weight, self.edge_type
        if self.time in table.table.columns and self.time not in special:
            table = replace(table, table=table.table.drop(columns=str(self.time)))
            messages = replace(messages, edge_table=table)
        if self.time in graph.table.columns and self.time not in (self.features or ()):
            left.append(self.time)
        return encode_graph(
            messages, self.features, left, node_names=bool(self.names),
            edges=EdgeColumns(
                None if self.edge_features is None else tuple(self.edge_features),
                self.edge_weight, self.edge_type,
            ),
        )  # fmt: skip

    def fit_parts(
        self: Self,
        encoded: EncodedGraph,
        links: Links,
        split: Split,
        times: NDArray[np.float64] | None,
        *,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> Self:
        """Train the model on the training and the validation part of the links.

        The attribute ``graph_`` is not set, because ``encoded`` has only the training links.

        Args:
            encoded: the result of :meth:`encode`.
            links: all links of the graph.
            split: the parts of the links; the test part is not used.
            times: [m] times of the links; None if there are no times.
            on_epoch: called after every epoch.

        Returns:
            The fitted estimator (``self``).

        Raises:
            SettingsError: a parameter is out of its range.
            GraphError: no negative can be drawn for the links.
            TrainingError: a loss is not finite.
        """
        problem = LinkProblem(
            encoded.graph, encoded.encoder, links, split, times, self.checked("negatives")
        )
        threads = self.checked("threads")
        model, validation = LinkModel.fit(problem, self.settings(), on_epoch, threads)
        self.predictor_, self.links_, self.split_ = model, links, split
        self.validation_ = validation["metrics"]
        self.notes_ = encoded.notes
        return self

    def settings(self) -> LinkSettings:
        """Return the settings of the estimator as an object of :class:`LinkSettings`."""
        return settings_of(LinkSettings, self)

    def predict(
        self, graph: GraphLike | None = None, top: int = 10, *, per_node: bool = False
    ) -> pd.DataFrame:
        """Propose the links with the highest scores among the pairs of nodes that have no edge.

        Args:
            graph: another graph with the same attributes; None for the graph of ``fit``.
            top: number of links, overall or for each source.
            per_node: True for the best links of each source.

        Returns:
            A table with the columns ``source``, ``target``, ``score`` and ``probability``, sorted
            by score; with ``per_node`` by source and score. ``probability`` is the probability that
            the pair is a link, under the assumption that half of all pairs are links. The table is
            empty if all pairs are linked.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph lacks an attribute, only one of the two graphs is bipartite, or
                no graph was passed to a loaded estimator.
            ValueError: ``top`` is less than 1.

        Warns:
            UserWarning: the graph has values that did not occur in training.
        """
        if top < 1:
            raise ValueError(f"top must be at least 1; got {top}")
        read, links = self.read(graph)
        pairs, scores, chances = self.predictor_.propose(read, links, top, per_node=per_node)
        names = np.array([*read.names, None], dtype=object)[:-1]
        return pd.DataFrame(
            {
                "source": names[pairs[0]], "target": names[pairs[1]], "score": scores,
                "probability": chances,
            }
        )  # fmt: skip

    def predict_proba(
        self, pairs: Sequence[tuple[Hashable, Hashable]], graph: GraphLike | None = None
    ) -> NDArray[np.float64]:
        """Return the probability that each of some pairs of nodes is a link, under the assumption
        that half of all pairs are links.

        Args:
            pairs: m pairs (source, target) of names of nodes.
            graph: another graph with the same attributes; None for the graph of ``fit``. If one of
                its edges joins a pair, the probability depends on this edge.

        Returns:
            [m] float64.

        Raises:
            NotFittedError: the estimator was not fitted.
            GraphError: the graph has no node of one of the names, lacks an attribute, or was not
                passed to a loaded estimator.

        Warns:
            UserWarning: the graph has values that did not occur in training.
        """
        read, _ = self.read(graph)
        place = {name: i for i, name in enumerate(read.names)}
        unknown = [name for pair in pairs for name in pair if name not in place]
        if unknown:
            examples = ", ".join(map(repr, read.names[:3]))
            raise GraphError(f"the graph has no node {unknown[0]!r}; its nodes are {examples}, ...")
        ends = np.array([[place[a], place[b]] for a, b in pairs], np.int64).reshape(-1, 2)
        scores = self.predictor_.score(read, ends[:, 0], ends[:, 1])
        return self.predictor_.probability(scores)

    def read(self, graph: GraphLike | None) -> tuple[AttributedGraph, Links]:
        """Read a graph in any supported format, and its links. None stands for the graph that was
        passed to ``fit``.

        Raises:
            GraphError: the graph is None and the estimator was loaded from a folder; or one of this
                graph and the graph of ``fit`` is bipartite and the other is not.
            NotFittedError: the estimator was not fitted.

        Warns:
            UserWarning: a column has values that did not occur in training.
        """
        self.check_fitted()
        if graph is None:
            if getattr(self, "graph_", None) is None:
                raise GraphError(
                    "a loaded estimator does not contain a graph: pass the graph to predict"
                )
            return self.graph_, self.links_
        read = read_graph(graph, directed=False)
        for note in self.predictor_.encoder.unknown(read):
            warnings.warn(note, stacklevel=3)
        return self.attach(read)

    def attach(self, graph: AttributedGraph) -> tuple[AttributedGraph, Links]:
        """Return a graph with the inputs of its edges, together with its links; see :meth:`read`.
        Raises GraphError if only one of this graph and the graph of the training is bipartite.
        """
        model = self.predictor_
        links, _ = read_links(graph, model.directed)
        if links.bipartite != model.bipartite:
            kinds = {True: "bipartite", False: "not bipartite"}
            raise GraphError(
                f"the model was trained on a graph that is {kinds[model.bipartite]}; this graph "
                f"is {kinds[links.bipartite]}"
            )
        return model.encoder.attach_edges(graph), links
