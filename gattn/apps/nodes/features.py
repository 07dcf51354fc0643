"""Features of nodes: encoded attributes, or degrees and random walk probabilities if there are
no attributes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.columns import Column, learn_columns
from gattn.apps.nodes.edge_columns import ALL_COLUMNS, EdgeColumns
from gattn.apps.nodes.edges import EdgeEncoder, read_edge_columns
from gattn.apps.nodes.feature_tensor import compact_features
from gattn.apps.nodes.fields import csr_tensor
from gattn.apps.nodes.typed.encoder import TypedEncoder, split_features
from gattn.graph import Graph
from gattn.structure import return_probabilities

__all__ = ["EncodedGraph", "FeatureEncoder", "encode_graph", "name_words"]

NAMES = "(name)"
"""Name of the column that contains the words of the nodes' names."""
WALKS = 2e7
"""Maximum number of pairs of consecutive edges for which return probabilities of random walks
are used as features. The time to compute them is proportional to the number of pairs.
"""


@dataclass(frozen=True)
class FeatureEncoder:
    """Encoder of the nodes of a graph as a feature matrix.

    Attributes:
        columns: encoders of attributes; empty if ``source`` is not ``"columns"``.
        width: number of features.
        walk_steps: number of steps of random walks for ``"structure"``; 0 for no walks.
        source: ``"x"`` for the features ``x`` of the graph, ``"columns"`` for encoded attributes,
            or ``"structure"`` for degrees and random walks.
        edges: encoder of the columns of edges; None if none is read.
        network: encoder of the other types and of the relations; None for a graph of one type.
    """

    columns: tuple[Column, ...]
    width: int
    walk_steps: int
    source: str
    edges: EdgeEncoder | None = None
    network: TypedEncoder | None = None

    @classmethod
    def fit(
        cls,
        graph: AttributedGraph,
        names: Sequence[str] | None,
        leave: Sequence[Hashable],
        *,
        node_names: bool = False,
    ) -> tuple[FeatureEncoder, list[str]]:
        """Fit an encoder to a graph.

        Args:
            graph: a graph with all its nodes, labelled or not.
            names: attributes to use; None for the features ``x`` of the graph, or all attributes.
            leave: attributes that are not features, such as labels and masks.
            node_names: True to encode the words of the nodes' names, too; ignored if the features
                ``x`` are used.

        Returns:
            The encoder, and notes for the user.

        Raises:
            GraphError: an attribute in ``names`` is missing, is repeated or is the label, or a
                number is infinite.
        """
        if graph.x is not None and names is None:
            return cls((), graph.x.shape[1], 0, "x"), []
        names = None if names is None else _as_columns(graph, names)
        for name in names or ():
            graph.column(name)
            if list(names or ()).count(name) > 1:
                raise GraphError(f"each feature must be listed once; got {name!r} more than once")
            if name in leave:
                raise GraphError(f"{name!r} cannot be a feature: it is the label or the split")
        if names is None:
            fault = next(
                (reason for name, reason in graph.unreadable.items() if name not in leave), None
            )
            if fault is not None:
                raise GraphError(f"{fault}. List the attributes to use in features (--features)")
        used = [c for c in graph.table.columns if c not in leave] if names is None else names
        table = _with_names(graph) if node_names else graph.table
        used = [*used, NAMES] if node_names else used
        try:
            columns, notes = learn_columns(table, list(used), graph.where)
        except ValueError as error:
            raise GraphError(str(error)) from None
        if columns:
            return cls(tuple(columns), sum(c.width for c in columns), 0, "columns"), notes
        if graph.network is not None:
            kind = graph.network.target
            note = f"Type {kind}: no columns are read, only the edges of its nodes."
            return cls((), 1, 0, "structure"), [*notes, note]
        steps = 4 if not _has_times(graph) and _two_steps(graph) <= WALKS else 0
        walks = f" and the return probabilities of random walks of 1 to {steps} steps" * bool(steps)
        note = f"The nodes have no features: the model uses their degrees{walks}."
        return cls((), 3 + steps, steps, "structure"), [*notes, note]

    def features(self, graph: AttributedGraph) -> Tensor:
        """Encode the nodes of a graph as features, [n, width] float32, dense or CSR.

        Raises:
            GraphError: the graph lacks an attribute or features ``x`` that the encoder reads.
            RuntimeError: the encoder reads columns of edges, and the graph was not passed through
                :meth:`attach_edges`, so that a model would ignore them.
        """
        if self.edges is not None and graph.edge_inputs is None:
            raise RuntimeError("pass the graph through attach_edges before its features are read")
        if self.network is not None and (graph.network is None or graph.network.inputs is None):
            raise RuntimeError("pass the graph through attach_edges before its features are read")
        if self.source == "structure" and graph.network is not None:
            # The models read the numbers of edges of each relation from the network.
            return torch.ones(len(graph), 1)
        if self.source == "structure":
            return _structure(graph, self.walk_steps)
        if self.source == "x":
            if graph.x is None or graph.x.shape[1] != self.width:
                width = "no x" if graph.x is None else f"{graph.x.shape[1]}"
                raise GraphError(f"x must have {self.width} features, as in training; got {width}")
            return graph.x
        read_names = any(column.name == NAMES for column in self.columns)
        table = _with_names(graph) if read_names else graph.table
        return compact_features(self.columns, table, graph.where)

    def unknown(self, graph: AttributedGraph) -> list[str]:
        """Return a note for each column if none of its values occurred in training, so that its
        values have no features.

        Args:
            graph: a graph other than the graph of :meth:`fit`.
        """
        present = [column for column in self.columns if column.name in graph.table.columns]
        notes = (column.unknown(graph.column(column.name)) for column in present)
        of_edges = [] if self.edges is None else self.edges.unknown(graph)
        of_others = [] if self.network is None else self.network.unknown(graph)
        return [*(note for note in notes if note), *of_edges, *of_others]

    def attach_edges(self, graph: AttributedGraph) -> AttributedGraph:
        """Return the graph with the inputs of its edges. It is unchanged if no edge columns are
        read.

        Raises:
            GraphError: the edges lack a column that the model reads, or it cannot be read; or the
                graph has other types of nodes than in training.
        """
        if self.network is not None:
            return self.network.attach(graph)
        if graph.network is not None:
            raise GraphError(
                "the model was trained on one table of nodes; got tables of the types "
                f"{', '.join(graph.network.types)}"
            )
        return graph if self.edges is None else self.edges.attach(graph)

    def state(self) -> dict[str, Any]:
        """Return the state of the encoder as a dictionary that can be stored in JSON."""
        edges = None if self.edges is None else self.edges.state()
        columns = [column.state() for column in self.columns]
        network = None if self.network is None else self.network.state()
        return {**vars(self), "columns": columns, "edges": edges, "network": network}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FeatureEncoder:
        """Restore an encoder from the result of :meth:`state`."""
        edges = state.get("edges")
        edges = None if edges is None else EdgeEncoder.from_state(edges)
        network = state.get("network")
        network = None if network is None else TypedEncoder.from_state(network)
        columns = tuple(map(Column.from_state, state["columns"]))
        return cls(**{**state, "columns": columns, "edges": edges, "network": network})


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """Graph with the features of its nodes.

    Attributes:
        graph: the nodes and edges.
        encoder: the encoder of the features.
        x: [n, d] float32, dense or ``torch.sparse_csr``.
        notes: sentences about decisions made when the graph was read and encoded.
    """

    graph: AttributedGraph
    encoder: FeatureEncoder
    x: Tensor
    notes: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, in which sparse features are stored as several dense
        tensors.

        If torch pickles a sparse CSR tensor, every process prints a warning that CSR is in beta.
        """
        if self.x.layout == torch.strided:
            return self.__dict__
        parts = self.x.crow_indices(), self.x.col_indices(), self.x.values()
        return self.__dict__ | {"x": (*parts, tuple(self.x.shape))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the graph from the state that :meth:`__getstate__` returned."""
        sparse = isinstance(state["x"], tuple)
        self.__dict__.update(state | {"x": csr_tensor(*state["x"]) if sparse else state["x"]})


def name_words(name: Hashable) -> str:
    """Return the words of a node's name, and the first three letters of the first word.

    >>> name_words("libfoo2-dev"), name_words(17)
    ('libfoo dev start_lib', '')
    """
    words = [word.lower() for word in re.findall(r"[^\W\d_]{2,}", str(name))]
    return " ".join([*words, f"start_{words[0][:3]}"]) if words else ""


def _with_names(graph: AttributedGraph) -> pd.DataFrame:
    """Return the attribute table with an additional column that contains the words of the nodes'
    names.
    """
    texts = pd.Series([name_words(name) for name in graph.names], dtype=object)
    return graph.table.assign(**{NAMES: texts})


def encode_graph(
    graph: AttributedGraph,
    names: Sequence[str] | None,
    leave: Sequence[Hashable],
    *,
    node_names: bool = False,
    edges: EdgeColumns = ALL_COLUMNS,
) -> EncodedGraph:
    """Fit a :class:`FeatureEncoder` to a graph, and return the graph with its features.

    The arguments are those of :meth:`FeatureEncoder.fit`, and the columns of edges to read.
    """
    if graph.network is not None:
        return _encode_typed(graph, names, leave, node_names=node_names, edges=edges)
    graph, edge_encoder, edge_notes = read_edge_columns(graph, edges)
    encoder, notes = FeatureEncoder.fit(graph, names, leave, node_names=node_names)
    encoder = replace(encoder, edges=edge_encoder)
    notes = (*graph.notes, *edge_notes, *notes)
    return EncodedGraph(graph, encoder, encoder.features(graph), notes)


def _encode_typed(
    graph: AttributedGraph,
    names: Sequence[str] | None,
    leave: Sequence[Hashable],
    *,
    node_names: bool,
    edges: EdgeColumns,
) -> EncodedGraph:
    """Return a graph with a typed network, the features of its labelled nodes, and the inputs of
    the network.
    """
    of_target, of_others = split_features(graph, names)
    encoder, notes = FeatureEncoder.fit(graph, of_target, leave, node_names=node_names)
    network, network_notes = TypedEncoder.fit(graph, of_others, edges)
    encoder = replace(encoder, network=network)
    graph = encoder.attach_edges(graph)
    notes = (*graph.notes, *notes, *network_notes)
    return EncodedGraph(graph, encoder, encoder.features(graph), notes)


def _as_columns(graph: AttributedGraph, names: Sequence[str]) -> list[str]:
    """Replace a vector attribute, such as ``x``, by the names of its columns: ``x.0``, ``x.1``,
    ...
    """
    columns = [str(column) for column in graph.table.columns]
    expanded: list[str] = []
    for name in names:
        parts = [c for c in columns if re.fullmatch(rf"{re.escape(name)}\.\d+", c)]
        expanded += parts if parts and name not in columns else [name]
    return expanded


def _degrees(graph: AttributedGraph) -> tuple[Tensor, Tensor]:
    edges = Graph(graph.edge_index, len(graph))
    return edges.in_degree(), edges.out_degree()


def _has_times(graph: AttributedGraph) -> bool:
    return graph.edge_inputs is not None and graph.edge_inputs.structure.open is not None


def _two_steps(graph: AttributedGraph) -> int:
    """Return the number of walks of length two in a graph. It determines the cost of the return
    probabilities.
    """
    into, out = _degrees(graph)
    return int((into.long() * out.long()).sum())


def _structure(graph: AttributedGraph, steps: int) -> Tensor:
    """Compute features from the structure of a graph without attributes: [n, 3 + steps].

    The features are the logarithms of in- and out-degrees, ones, and return probabilities.
    """
    into, out = (degree.float().log1p() for degree in _degrees(graph))
    if _has_times(graph):
        # The outgoing edges of a node lead to newer nodes. Its features must not depend on newer
        # nodes, so outgoing edges are not read.
        out = torch.zeros_like(out)
    columns = [into[:, None], out[:, None], torch.ones(len(graph), 1)]
    if steps:
        columns.append(return_probabilities(graph.edge_index, len(graph), steps=steps))
    return torch.cat(columns, 1)
