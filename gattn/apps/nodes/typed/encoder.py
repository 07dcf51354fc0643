"""Encoding of the nodes of other types and of the edges between types as inputs of the models."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.columns import Column, learn_columns, write_features
from gattn.apps.nodes.edge_columns import EdgeColumns, edge_weights
from gattn.apps.nodes.edge_table import EdgeTable
from gattn.apps.nodes.feature_tensor import compact_features
from gattn.apps.nodes.typed.network import Messages, TypedInputs, TypedNetwork
from gattn.apps.nodes.typed.relations import Relation
from gattn.apps.nodes.typed.tables import with_projection

__all__ = ["EdgeReader", "TypedEncoder", "split_features"]

COLUMN = re.compile(r"^(Column|attribute) (['\"]).*?\2")
"""Pattern for the name of a column at the beginning of a note or an error message."""


@dataclass(frozen=True)
class EdgeReader:
    """Encoder of the columns of one relation.

    Attributes:
        columns: encoders of the features.
        weight: column of weights; None if there is none.
        scale: mean of the weights above 0.
    """

    columns: tuple[Column, ...] = ()
    weight: str | None = None
    scale: float = 1.0

    @classmethod
    def fit(
        cls, edges: EdgeTable, relation: Relation, choice: EdgeColumns
    ) -> tuple[EdgeReader, list[str]]:
        """Fit the encoder to the edges of a relation, and return it with notes for the user."""
        available = [str(name) for name in (*edges.table.columns, *edges.unreadable)]
        weight = choice.weight if choice.weight in available else None
        if choice.features is None:
            names = [str(name) for name in edges.table.columns if name != weight]
        else:
            names = [name for name in choice.features if name in available]
        for name in (*names, *([weight] if weight else [])):
            if name in edges.unreadable:
                raise GraphError(f"relation {relation}: {edges.unreadable[name]}")
        try:
            columns, notes = learn_columns(edges.table, names, edges.at_line)
            scale = 1.0
            if weight is not None:
                values = edge_weights(edges.table[weight], edges.at_line)
                if not (values > 0).any():
                    raise GraphError(f"every weight is 0 in column {weight!r}")
                scale = float(values[values > 0].mean())
        except ValueError as error:
            raise GraphError(f"relation {relation}: {error}") from None
        read = ", ".join(repr(column.name) for column in columns)
        if read:
            notes.append(f"Columns of the edges that are read: {read}.")
        if weight:
            notes.append(f"Column {weight!r} of the edges contains their weights.")
        notes = [f"Relation {relation}: {note}" for note in notes]
        return cls(tuple(columns), weight, scale), notes

    @property
    def names(self) -> list[str]:
        """Names of the columns that are read."""
        return [*([self.weight] if self.weight else []), *(c.name for c in self.columns)]

    @property
    def width(self) -> int:
        """Number of features of an edge."""
        return sum(column.width for column in self.columns)

    def read(self, edges: EdgeTable, relation: Relation) -> Messages:
        """Encode the edges of a relation. Edges that are equal in the columns are merged, and edges
        of weight 0 are removed.

        Raises:
            GraphError: a column is missing or cannot be read.
        """
        for name in self.names:
            if name not in edges.table.columns:
                reason = edges.unreadable.get(name, f"the edges have no column {name!r}")
                raise GraphError(f"relation {relation}: {reason}, which the model reads")
        frame = edges.table[list(dict.fromkeys(self.names))].copy()
        source, destination = edges.pairs.numpy()
        frame.insert(0, "(destination)", destination)
        frame.insert(0, "(source)", source)
        edges = edges.select(np.asarray(~frame.astype(object).duplicated()))
        try:
            weights = None
            if self.weight is not None:
                weights = edge_weights(edges.table[self.weight], edges.at_line) / self.scale
                edges, weights = edges.select(weights > 0), weights[weights > 0]
            features = None
            if self.columns:
                features = (
                    write_features(self.columns, edges.table, edges.at_line)
                    .toarray()
                    .astype(np.float32)
                )
        except ValueError as error:
            raise GraphError(f"relation {relation}: {error}") from None
        return Messages(
            edges.pairs,
            None if features is None else torch.from_numpy(features),
            None if weights is None else torch.from_numpy(weights.astype(np.float32)),
        )

    def unknown(self, edges: EdgeTable) -> list[str]:
        """Return a note for each column with values that did not occur in training."""
        notes = [
            column.unknown(edges.table[column.name], "edges")
            for column in self.columns
            if column.name in edges.table.columns
        ]
        return [note for note in notes if note]

    def state(self) -> dict[str, Any]:
        """Return the state of the encoder as a dictionary that can be stored in JSON."""
        return {**vars(self), "columns": [column.state() for column in self.columns]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> EdgeReader:
        """Restore an encoder from the result of :meth:`state`."""
        return cls(**{**state, "columns": tuple(map(Column.from_state, state["columns"]))})


@dataclass(frozen=True)
class TypedEncoder:
    """Encoder of the other types and of all relations of a typed network.

    Attributes:
        target: type of the labelled nodes.
        types: encoders of the columns of each other type; empty for a type that is known by its
            edges only.
        widths: number of features ``x`` of each other type, if it has them instead of columns.
        relations: encoders of the columns of each relation.
        directed: True if messages follow the direction of edges only.
    """

    target: str
    types: Mapping[str, tuple[Column, ...]]
    widths: Mapping[str, int]
    relations: Mapping[Relation, EdgeReader]
    directed: bool

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
        types, widths = {}, {}
        for kind, nodes in network.others.items():
            chosen = None if features is None else list(features.get(kind, ()))
            if nodes.x is not None and chosen is None:
                types[kind], widths[kind] = (), nodes.x.shape[1]
                continue
            if chosen is None:
                chosen = [str(name) for name in nodes.table.columns]
                for reason in nodes.unreadable.values():
                    raise GraphError(
                        f"type {kind!r}: {reason}. List the attributes to use in features "
                        "(--features TYPE.COLUMN)"
                    )
            try:
                for name in chosen:
                    nodes.column(name)
                columns, decisions = learn_columns(nodes.table, chosen, nodes.where)
            except ValueError as error:
                raise GraphError(f"type {kind!r}: {error}") from None
            types[kind] = tuple(columns)
            notes += [_with_type(note, kind) for note in decisions]
            if not columns:
                notes.append(f"Type {kind}: no columns are read, only the edges of its nodes.")
        relations = {}
        for relation, table in network.edges.items():
            relations[relation], decisions = EdgeReader.fit(table, relation, edges)
            notes += decisions
        return cls(network.target, types, widths, relations, graph.directed), notes

    @property
    def messages(self) -> list[Relation]:
        """Relations of the messages: each relation and, unless messages follow the direction of
        edges only, its reverse.
        """
        pairs = (
            (one,) if self.directed else (one, one.reverse()) for one in sorted(self.relations)
        )
        return [relation for pair in pairs for relation in pair]

    @property
    def kinds(self) -> list[str]:
        """Names of all types: the target, and the others in order."""
        return [self.target, *sorted(self.types)]

    def width(self, kind: str) -> int:
        """Return the number of features of the nodes of another type."""
        return self.widths.get(kind) or sum(column.width for column in self.types[kind])

    def attach(
        self, graph: AttributedGraph, x: Mapping[str, Tensor] | None = None
    ) -> AttributedGraph:
        """Return the graph with the inputs of its network.

        Args:
            graph: the labelled nodes, with their network.
            x: encoded features of the nodes of each other type; None to encode them.

        Raises:
            GraphError: the graph has other types or relations than in training, or a column is
                missing or cannot be read.
        """
        network = _network(graph)
        self._check(network)
        messages: dict[Relation, Messages] = {}
        for relation in sorted(self.relations):
            one = self.relations[relation].read(network.edges[relation], relation)
            messages[relation] = one
            if not self.directed:
                messages[relation.reverse()] = one.reverse()
        return replace(graph, network=replace(network, inputs=self._inputs(network, messages, x)))

    def with_edges(
        self, graph: AttributedGraph, edges: Mapping[Relation, EdgeTable]
    ) -> AttributedGraph:
        """Return the graph from :meth:`attach` with other edges for some relations."""
        network = _network(graph)
        inputs = network.inputs
        changed = replace(network, edges={**network.edges, **edges}, inputs=None)
        edited = with_projection(replace(graph, network=changed))
        return self.attach(edited, None if inputs is None else inputs.x)

    def permuted(self, graph: AttributedGraph, relation: Relation, seed: int) -> AttributedGraph:
        """Return the graph from :meth:`attach` after the destinations of one relation were permuted
        among its edges.
        """
        edges = _network(graph).edges[relation]
        order = np.random.default_rng(seed).permutation(len(edges))
        pairs = torch.stack([edges.pairs[0], edges.pairs[1, torch.from_numpy(order)]])
        return self.with_edges(graph, {relation: replace(edges, pairs=pairs)})

    def unknown(self, graph: AttributedGraph) -> list[str]:
        """Return a note for each column that has values that did not occur in training."""
        network = _network(graph)
        self._check(network)
        notes = []
        for kind, columns in self.types.items():
            nodes = network.others[kind]
            some = [column for column in columns if column.name in nodes.table.columns]
            unknown = (column.unknown(nodes.table[column.name]) for column in some)
            notes += [_with_type(note, kind) for note in unknown if note]
        for relation, reader in self.relations.items():
            of_edges = reader.unknown(network.edges[relation])
            notes += [f"Relation {relation}: {note}" for note in of_edges]
        return notes

    def state(self) -> dict[str, Any]:
        """Return the state of the encoder as a dictionary that can be stored in JSON."""
        return {
            "target": self.target,
            "types": {kind: [c.state() for c in columns] for kind, columns in self.types.items()},
            "widths": dict(self.widths),
            "relations": [[*relation, one.state()] for relation, one in self.relations.items()],
            "directed": self.directed,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TypedEncoder:
        """Restore an encoder from the result of :meth:`state`."""
        return cls(
            state["target"],
            {kind: tuple(map(Column.from_state, some)) for kind, some in state["types"].items()},
            state["widths"],
            {Relation(*names): EdgeReader.from_state(one) for *names, one in state["relations"]},
            state["directed"],
        )

    def _check(self, network: TypedNetwork) -> None:
        """Raise an error if the types and relations of a network differ from those in training."""
        for title, expected, present in (
            ("types", sorted(self.types), sorted(network.others)),
            ("relations", sorted(self.relations), sorted(network.edges)),
        ):
            if expected != present:
                names, others = (", ".join(map(str, one)) or "none" for one in (expected, present))
                raise GraphError(
                    f"the model was trained with the {title} {names}"
                    f"{f' in addition to {self.target}' * (title == 'types')}; got {others}"
                )

    def _inputs(
        self,
        network: TypedNetwork,
        messages: Mapping[Relation, Messages],
        x: Mapping[str, Tensor] | None,
    ) -> TypedInputs:
        if x is None:
            x = {kind: self._features(kind, network.others[kind]) for kind in self.kinds[1:]}
        degrees = {kind: _degrees(kind, network.size(kind), messages) for kind in self.kinds}
        return TypedInputs(x, degrees, messages)

    def _features(self, kind: str, nodes: AttributedGraph) -> Tensor:
        """Encode the nodes of another type: [m, d] float32, dense or CSR."""
        if kind in self.widths:
            if nodes.x is None or nodes.x.shape[1] != self.widths[kind]:
                width = "no x" if nodes.x is None else f"{nodes.x.shape[1]}"
                raise GraphError(
                    f"type {kind!r}: x must have {self.widths[kind]} features, as in training; got "
                    f"{width}"
                )
            return nodes.x
        if not self.types[kind]:
            return torch.zeros(len(nodes), 0)
        try:
            return compact_features(self.types[kind], nodes.table, nodes.where)
        except GraphError as error:
            raise GraphError(f"type {kind!r}: {error}") from None


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
    """Raise an error if a column of edges does not exist in any relation, or is not supported."""
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


def _degrees(kind: str, count: int, messages: Mapping[Relation, Messages]) -> Tensor:
    """Return the logarithms [m, r] of one plus the numbers of messages into the nodes of a type."""
    columns: list[NDArray] = [
        np.bincount(one.pairs[1].numpy(), minlength=count)
        for relation, one in messages.items()
        if relation.destination == kind
    ]
    table = np.stack(columns, 1) if columns else np.zeros((count, 0))
    return torch.from_numpy(np.log1p(table).astype(np.float32))


def _network(graph: AttributedGraph) -> TypedNetwork:
    if graph.network is None:
        raise GraphError(
            "the model was trained on several tables of nodes (--nodes TYPE=FILE and --edges): "
            "pass a network with the same types"
        )
    return graph.network


def _with_type(note: str, kind: str) -> str:
    """Add the name of a node type to a note on a column of this type."""
    return COLUMN.sub(rf"\g<0> of {kind}", note)
