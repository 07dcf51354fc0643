"""The features of nodes: their attributes, or, where they have none, their place in the graph."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.columns import Column, learn_columns, write_features
from gattn.nodes.fields import csr_tensor
from gattn.structure import return_probabilities

__all__ = ["EncodedGraph", "FeatureEncoder", "encode_graph"]

DENSE = 0.25
"""Features with a larger share of entries that are not zero are kept as a dense matrix."""
WALKS = 2e7
"""Pairs of edges, one after the other, up to which random walks are followed."""


@dataclass(frozen=True)
class FeatureEncoder:
    """How the nodes of a graph become a matrix of features.

    Attributes:
        columns: attributes that are read; none for ready features or for structure.
        width: of the matrix.
        walk_steps: steps of the random walks of structure; 0 without walks.
        source: ``"x"`` for ready features, ``"columns"``, or ``"structure"``.
    """

    columns: tuple[Column, ...]
    width: int
    walk_steps: int
    source: str

    @classmethod
    def fit(
        cls, graph: AttributedGraph, names: Sequence[str] | None, leave: Sequence[Hashable]
    ) -> tuple[FeatureEncoder, list[str]]:
        """Learn the features of a graph, and say what was decided.

        Args:
            graph: with all its nodes, labelled or not.
            names: attributes to use; None for ready features where there are some, else all.
            leave: attributes that are no features: labels, parts.

        Returns:
            The encoder, and notes.

        Raises:
            GraphError: a named attribute is missing, doubled, or the label; an infinite number.
        """
        if graph.x is not None and names is None:
            return cls((), graph.x.shape[1], 0, "x"), []
        names = None if names is None else _as_columns(graph, names)
        for name in names or ():
            graph.column(name)
            if list(names or ()).count(name) > 1:
                raise GraphError(f"each feature must be named once; got {name!r} twice or more")
            if name in leave:
                raise GraphError(f"{name!r} cannot be a feature: it is the label or the split")
        if names is None:
            fault = next(
                (told for name, told in graph.unreadable.items() if name not in leave), None
            )
            if fault is not None:
                raise GraphError(f"{fault}. Name the attributes to read with features (--features)")
        used = [c for c in graph.table.columns if c not in leave] if names is None else names
        try:
            columns, notes = learn_columns(graph.table, list(used), graph.where)
        except ValueError as error:
            raise GraphError(str(error)) from None
        if columns:
            return cls(tuple(columns), sum(c.width for c in columns), 0, "columns"), notes
        steps = 4 if _two_steps(graph) <= WALKS else 0
        walks = f" and the chances of random walks to be back after 1 to {steps} steps" * bool(
            steps
        )
        told = f"The nodes have no features: read are their degrees{walks}."
        return cls((), 3 + steps, steps, "structure"), [*notes, told]

    def features(self, graph: AttributedGraph) -> Tensor:
        """The features [n, width] float32 of a graph's nodes, dense or ``torch.sparse_csr``.

        Raises:
            GraphError: the graph has no such features.
        """
        if self.source == "structure":
            return _structure(graph, self.walk_steps)
        if self.source == "x":
            if graph.x is None or graph.x.shape[1] != self.width:
                came = "no x" if graph.x is None else f"{graph.x.shape[1]}"
                raise GraphError(f"x must have {self.width} features, as in training; got {came}")
            return graph.x
        try:
            matrix = write_features(self.columns, graph.table, graph.where)
        except ValueError as error:
            raise GraphError(str(error)) from None
        if matrix.nnz > DENSE * len(graph) * self.width:
            return torch.from_numpy(matrix.toarray())
        return _as_tensor(matrix, self.width)

    def unknown(self, graph: AttributedGraph) -> list[str]:
        """What of another graph's attributes has no feature, in a sentence each."""
        there = [column for column in self.columns if column.name in graph.table.columns]
        told = (column.unknown(graph.column(column.name)) for column in there)
        return [sentence for sentence in told if sentence]

    def state(self) -> dict[str, Any]:
        """What :meth:`from_state` makes the encoder of, for JSON."""
        columns = [column.state() for column in self.columns]
        return {
            "columns": columns, "width": self.width, "walk_steps": self.walk_steps,
            "source": self.source,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FeatureEncoder:
        """Make an encoder of what :meth:`state` gave."""
        columns = tuple(Column.from_state(column) for column in state["columns"])
        return cls(columns, state["width"], state["walk_steps"], state["source"])


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A graph with its features.

    Attributes:
        graph: the nodes and edges.
        encoder: how the attributes became features.
        x: [n, d] float32, dense or ``torch.sparse_csr``.
        notes: what was decided in reading it.
    """

    graph: AttributedGraph
    encoder: FeatureEncoder
    x: Tensor
    notes: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: sparse features as their parts.

        Torch's own way to send them has every process print that such tensors are new.
        """
        if self.x.layout == torch.strided:
            return self.__dict__
        parts = self.x.crow_indices(), self.x.col_indices(), self.x.values()
        return self.__dict__ | {"x": (*parts, tuple(self.x.shape))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what :meth:`__getstate__` gave."""
        sparse = isinstance(state["x"], tuple)
        self.__dict__.update(state | {"x": csr_tensor(*state["x"]) if sparse else state["x"]})


def encode_graph(
    graph: AttributedGraph, names: Sequence[str] | None, leave: Sequence[Hashable]
) -> EncodedGraph:
    """Learn the features of a graph, as :meth:`FeatureEncoder.fit` does, and make them."""
    encoder, notes = FeatureEncoder.fit(graph, names, leave)
    return EncodedGraph(graph, encoder, encoder.features(graph), (*graph.notes, *notes))


def _as_columns(graph: AttributedGraph, names: Sequence[str]) -> list[str]:
    """The columns of attributes, where a list of numbers is read as ``x.0``, ``x.1``, ..."""
    columns = [str(column) for column in graph.table.columns]
    found: list[str] = []
    for name in names:
        places = [c for c in columns if re.fullmatch(rf"{re.escape(name)}\.\d+", c)]
        found += places if places and name not in columns else [name]
    return found


def _as_tensor(matrix: sp.csr_matrix, width: int) -> Tensor:
    pointers, columns = (
        torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices)
    )
    return csr_tensor(pointers, columns, torch.from_numpy(matrix.data), (len(pointers) - 1, width))


def _degrees(graph: AttributedGraph) -> tuple[Tensor, Tensor]:
    found = Graph(graph.edge_index, len(graph))
    return found.in_degree(), found.out_degree()


def _two_steps(graph: AttributedGraph) -> int:
    """How many walks of two edges there are: what a random walk's matrix may grow to."""
    into, out = _degrees(graph)
    return int((into.long() * out.long()).sum())


def _structure(graph: AttributedGraph, steps: int) -> Tensor:
    """Degrees into and out of each node, their logarithms scaled, and return probabilities."""
    into, out = (degree.float().log1p() for degree in _degrees(graph))
    columns = [into[:, None], out[:, None], torch.ones(len(graph), 1)]
    if steps:
        columns.append(return_probabilities(graph.edge_index, len(graph), steps=steps))
    return torch.cat(columns, 1)
