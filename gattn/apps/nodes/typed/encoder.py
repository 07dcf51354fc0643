"""Encoding of the nodes of other types and of the edges between types as inputs of the models."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.columns import ColumnEncoder
from gattn.apps.nodes.edges import COLUMN, EdgeColumns, EdgeEncoder, read_edge_columns
from gattn.apps.nodes.typed.network import Messages, TypedInputs, TypedNetwork
from gattn.apps.nodes.typed.relations import Relation
from gattn.apps.nodes.typed.tables import titled


@dataclass(frozen=True)
class TypedEncoder:
    """Encoder of the other types and of all relations of a typed network.

    Attributes:
        target: type of the labelled nodes.
        types: encoders of the nodes of each other type.
        readers: each relation, and the encoder of its columns; None if no column is read.
        directed: True if messages follow the direction of edges only.
    """

    target: str
    types: Mapping[str, ColumnEncoder]
    readers: tuple[tuple[Relation, EdgeEncoder | None], ...]
    directed: bool

    @property
    def relations(self) -> dict[Relation, EdgeEncoder | None]:
        """Encoders of the columns of the edges, by relation."""
        return dict(self.readers)

    @classmethod
    def fit(
        cls,
        graph: AttributedGraph,
        features: Mapping[str, Sequence[str]] | None,
        edges: EdgeColumns,
    ) -> tuple[TypedEncoder, list[str]]:
        """Fit the encoder to a graph with a typed network.

        Args:
            graph: the labelled nodes, with their network.
            features: columns to use, by type; None for all.
            edges: the columns of the edges to read.

        Returns:
            The encoder, and notes for the user.

        Raises:
            GraphError: a column is missing or cannot be read.
        """
        network = _network(graph)
        _check_edge_columns(network, edges)
        notes: list[str] = []
        types, relations = {}, {}
        for kind, nodes in network.others.items():
            chosen = None if features is None else list(features.get(kind, ()))
            with titled(f"type {kind!r}"):
                types[kind], decisions = ColumnEncoder.fit_columns(nodes, chosen)
            notes += [_with_type(note, kind) for note in decisions]
            if types[kind].source == "structure":
                notes.append(f"Type {kind}: no columns are read, only the edges of its nodes.")
        for relation, table in network.edges.items():
            available = [*table.table.columns, *table.unreadable]
            some = edges.features
            chosen_columns = EdgeColumns(
                None if some is None else tuple(name for name in some if name in available),
                edges.weight if edges.weight in available else None,
            )
            with titled(f"relation {relation}"):
                _, relations[relation], decisions = read_edge_columns(
                    _bipartite(relation, network), chosen_columns
                )
            notes += [f"Relation {relation}: {note}" for note in decisions]
        return cls(network.target, types, tuple(relations.items()), graph.directed), notes

    @property
    def messages(self) -> dict[Relation, int]:
        """Number of features of an edge, for each relation of the messages: each relation and,
        unless messages follow the direction of edges only, its reverse.
        """
        widths = {}
        for relation, encoder in sorted(self.relations.items()):
            widths[relation] = 0 if encoder is None else encoder.width
            if not self.directed:
                widths[relation.reverse()] = widths[relation]
        return widths

    @property
    def edge_dim(self) -> int:
        """Number of features of an edge in :attr:`TypedInputs.terms`."""
        return sum(1 + width for width in self.messages.values())

    def width(self, target: int) -> int:
        """Return the number of features of a node in :meth:`TypedInputs.joined`, given that of a
        labelled node.
        """
        others = sum(one.width for one in self.types.values())
        return target + others + len(self.messages) + 1 + len(self.types)

    def attach(self, graph: AttributedGraph) -> AttributedGraph:
        """Return the graph, the labelled nodes with their network, with the inputs of its network.

        Raises:
            GraphError: the graph has other types or relations than in training, or a column is
                missing or cannot be read.
        """
        network = _network(graph)
        self._check(network)
        messages: dict[Relation, Messages] = {}
        for relation, encoder in sorted(self.relations.items()):
            # Edges that are equal in the columns are merged.
            edges = _bipartite(relation, network)
            if encoder is not None:
                with titled(f"relation {relation}"):
                    edges = encoder.attach(edges)
            pairs = edges.arcs - torch.tensor([[0], [_offset(relation, network)]])
            features = weights = None
            if edges.edge_inputs is not None:
                features, weights = edges.edge_inputs.features, edges.edge_inputs.weights
            weights = None if weights is None else torch.from_numpy(weights)
            messages[relation] = Messages(pairs, features, weights)
            if not self.directed:
                messages[relation.reverse()] = messages[relation].reverse()
        x = {}
        for kind, nodes in network.others.items():
            with titled(f"type {kind!r}"):
                x[kind] = self.types[kind].read_columns(nodes)
        degrees = {kind: _degrees(kind, network.size(kind), messages) for kind in network.types}
        inputs = TypedInputs(x, degrees, messages)
        return replace(graph, network=replace(network, inputs=inputs))

    def unknown(self, graph: AttributedGraph) -> list[str]:
        """Return a note for each column that has values that did not occur in training. Raises
        GraphError if the types of the network are not those of the training.
        """
        network = _network(graph)
        self._check(network)
        notes = []
        for kind, encoder in self.types.items():
            unknown = encoder.unknown_columns(network.others[kind])
            notes += [_with_type(note, kind) for note in unknown]
        for relation, reader in self.relations.items():
            if reader is not None:
                of_edges = reader.unknown(_bipartite(relation, network))
                notes += [f"Relation {relation}: {note}" for note in of_edges]
        return notes

    def _check(self, network: TypedNetwork) -> None:
        """Raise GraphError if the types and relations of a network differ from those in
        training.
        """
        for title, expected, present in (
            ("types", sorted(self.types), network.types[1:]),
            ("relations", sorted(self.relations), sorted(network.edges)),
        ):
            if expected != present:
                names, others = (", ".join(map(str, one)) or "none" for one in (expected, present))
                raise GraphError(
                    f"the model was trained with the {title} {names}"
                    f"{f' in addition to {self.target}' * (title == 'types')}; got {others}"
                )


def split_features(
    graph: AttributedGraph, names: Sequence[str] | None
) -> tuple[list[str] | None, dict[str, list[str]] | None]:
    """Divide the names of features, such as ``authors.country``, among the types.

    Args:
        graph: the labelled nodes, with their network.
        names: names ``TYPE.COLUMN``, or names of columns of the labelled nodes; None for all.

    Returns:
        The columns of the labelled nodes, and the columns of the other types by type; twice None if
        ``names`` is None.

    Raises:
        GraphError: ``names`` is not None and the graph has only one type of nodes.
    """
    if names is None:
        return None, None
    network = _network(graph)
    of_target: list[str] = []
    others: dict[str, list[str]] = {}
    for name in names:
        kind, _, column = name.partition(".")
        if name in graph.table.columns or kind not in network.types or not column:
            of_target.append(name)
        elif kind == network.target:
            of_target.append(column)
        else:
            others.setdefault(kind, []).append(column)
    return of_target, others


def _check_edge_columns(network: TypedNetwork, edges: EdgeColumns) -> None:
    """Raise GraphError if a column of edges does not exist in any relation, or is not supported."""
    if edges.type is not None:
        raise GraphError(
            "edges of a network with several tables have the types of their relations: "
            f"edge_type (--edge-type) {edges.type!r} cannot be set"
        )
    available: set[Hashable] = set()
    for table in network.edges.values():
        available |= {*table.table.columns, *table.unreadable}
    for name in (*(edges.features or ()), *([edges.weight] if edges.weight else [])):
        if name not in available:
            columns = ", ".join(sorted(map(repr, available))) or "no columns"
            raise GraphError(f"no relation has a column {name!r}; the edges have {columns}")


def _offset(relation: Relation, network: TypedNetwork) -> int:
    """Return the number of the first destination of a relation in :func:`_bipartite`."""
    return 0 if relation.source == relation.destination else network.size(relation.source)


def _bipartite(relation: Relation, network: TypedNetwork) -> AttributedGraph:
    """Return the edges of a relation as a directed graph among its sources and, after them, its
    destinations; if both are of one type, the graph has the nodes of this type once.
    """
    edges, offset = network.edges[relation], _offset(relation, network)
    names = list(network.nodes[relation.source].names)
    if offset:
        names += network.nodes[relation.destination].names
    edges = replace(edges, pairs=edges.pairs + torch.tensor([[0], [offset]]))
    pairs = edges.pairs.unique(dim=1)
    table = pd.DataFrame(index=range(len(names)))
    return AttributedGraph(
        names, table, edge_index=pairs, directed=True, arcs=pairs, edge_table=edges
    )


def _degrees(kind: str, count: int, messages: Mapping[Relation, Messages]) -> Tensor:
    """Return the logarithms [m, r] of one plus the numbers of messages into the nodes of a type,
    whose number m is ``count``, in the order of the r relations that end there.
    """
    columns: list[NDArray] = [
        np.bincount(one.pairs[1].numpy(), minlength=count)
        for relation, one in messages.items()
        if relation.destination == kind
    ]
    table = np.stack(columns, 1) if columns else np.zeros((count, 0))
    return torch.from_numpy(np.log1p(table).astype(np.float32))


def _network(graph: AttributedGraph) -> TypedNetwork:
    """Return the tables of a network with several types of nodes. Raises GraphError if the graph
    has only one.
    """
    if graph.network is None:
        raise GraphError(
            "the model was trained on several tables of nodes (--nodes TYPE=FILE and --edges): "
            "pass a network with the same types"
        )
    return graph.network


def _with_type(note: str, kind: str) -> str:
    """Add the name of a node type to a note on a column of this type."""
    return COLUMN.sub(rf"\g<0> of {kind}", note)
