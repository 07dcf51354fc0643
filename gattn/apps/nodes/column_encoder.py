"""Encoding of the nodes of one type as a feature matrix."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError, Where, at_row
from gattn.apps.nodes.columns import Column, learn_columns, write_features, write_numbers
from gattn.apps.nodes.fields import csr_tensor

NAMES = "(name)"
"""Name of the column that contains the words of the nodes' names."""
DENSE = 0.25
"""Features are stored as a sparse matrix if at most this fraction of them is nonzero."""


@dataclass(frozen=True)
class ColumnEncoder:
    """Encoder of the columns of the nodes of one type, or of their features ``x``.

    Attributes:
        columns: encoders of attributes; empty if ``source`` is not ``"columns"``.
        width: number of features.
        source: ``"x"`` for the features ``x`` of the nodes, ``"columns"`` for encoded attributes,
            or ``"structure"`` if the nodes have neither.
    """

    columns: tuple[Column, ...]
    width: int
    source: str

    @classmethod
    def fit_columns(
        cls,
        nodes: AttributedGraph,
        names: Sequence[str] | None,
        leave: Sequence[Hashable] = (),
        *,
        node_names: bool = False,
    ) -> tuple[ColumnEncoder, list[str]]:
        """Fit an encoder to the nodes of one type.

        Args:
            nodes: all nodes of the type, labelled or not.
            names: attributes to use; None for the features ``x`` of the nodes, or all attributes.
            leave: attributes that are not features, such as labels and masks.
            node_names: True to encode the words of the nodes' names, too; ignored if the features
                ``x`` are used.

        Returns:
            The encoder, and notes for the user.

        Raises:
            GraphError: an attribute in ``names`` is missing, is repeated or is the label, or a
                number is infinite.
        """
        if nodes.x is not None and names is None:
            return ColumnEncoder((), nodes.x.shape[1], "x"), []
        names = None if names is None else _as_columns(nodes, names)
        for name in names or ():
            nodes.column(name)
            if list(names or ()).count(name) > 1:
                raise GraphError(f"each feature must be listed once; got {name!r} more than once")
            if name in leave:
                raise GraphError(f"{name!r} cannot be a feature: it is the label or the split")
        if names is None:
            for name, reason in nodes.unreadable.items():
                if name not in leave:
                    raise GraphError(
                        f"{reason}. List the attributes to use in features (--features)"
                    )
        used = [c for c in nodes.table.columns if c not in leave] if names is None else names
        table = _with_names(nodes) if node_names else nodes.table
        used = [*used, NAMES] if node_names else used
        try:
            columns, notes = learn_columns(table, list(used), nodes.where)
        except ValueError as error:
            raise GraphError(str(error)) from None
        width = sum(column.width for column in columns)
        return ColumnEncoder(tuple(columns), width, "columns" if columns else "structure"), notes

    def read_columns(self, nodes: AttributedGraph) -> Tensor:
        """Encode nodes as features, [n, width] float32, dense or CSR; without columns, [n, 0].

        Raises:
            GraphError: the nodes lack an attribute or features ``x`` that the encoder reads.
        """
        if self.source == "x":
            if nodes.x is None or nodes.x.shape[1] != self.width:
                width = "no x" if nodes.x is None else f"{nodes.x.shape[1]}"
                raise GraphError(f"x must have {self.width} features, as in training; got {width}")
            return nodes.x
        if not self.columns:
            return torch.zeros(len(nodes), 0)
        read_names = any(column.name == NAMES for column in self.columns)
        table = _with_names(nodes) if read_names else nodes.table
        return _compact_features(self.columns, table, nodes.where)

    def unknown_columns(self, nodes: AttributedGraph) -> list[str]:
        """Return a note for each column if none of its values occurred in training, so that its
        values have no features.
        """
        present = [column for column in self.columns if column.name in nodes.table.columns]
        notes = (column.unknown(nodes.column(column.name)) for column in present)
        return [note for note in notes if note]

    def state(self) -> dict[str, Any]:
        """Return the state of the encoder as a dictionary that can be stored in JSON."""
        return {**vars(self), "columns": [column.state() for column in self.columns]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ColumnEncoder:
        """Restore an encoder from the result of :meth:`state`."""
        return cls(**{**state, "columns": tuple(map(Column.from_state, state["columns"]))})


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


def _compact_features(
    columns: Sequence[Column], table: pd.DataFrame, where: Where = at_row
) -> Tensor:
    """Encode columns of n nodes as features, [n, d] float32: dense, or CSR if few are nonzero.

    Args:
        columns: encoders of the columns.
        table: n rows of attributes.
        where: describes the position of a node.

    Raises:
        GraphError: the table lacks a column, or it cannot be read.
    """
    try:
        dense = write_numbers(columns, table, where)
        if dense is not None and np.count_nonzero(dense) > DENSE * dense.size:
            return torch.from_numpy(dense)
        matrix = write_features(columns, table, where)
    except ValueError as error:
        raise GraphError(str(error)) from None
    width = sum(column.width for column in columns)
    if matrix.nnz > DENSE * len(table) * width:
        return torch.from_numpy(matrix.toarray())
    return _as_tensor(matrix, width)


def _as_tensor(matrix: sp.csr_matrix, width: int) -> Tensor:
    pointers, columns = (
        torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices)
    )
    return csr_tensor(pointers, columns, torch.from_numpy(matrix.data), (len(pointers) - 1, width))
