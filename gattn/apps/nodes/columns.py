"""Encoding of attributes as features: standardised numbers, one-hot categories, TF-IDF vectors
of texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from torch import Tensor

from gattn.apps.nodes.attributed import GraphError, Nodes, Where, at_row, attribute_names
from gattn.apps.nodes.fields import sparse_tensor
from gattn.apps.nodes.values import (
    NUMERIC,
    as_numbers,
    as_texts,
    describe_patterns,
    finite_numbers,
    gap_notes,
    is_empty,
    is_missing,
    looks_numeric,
)
from gattn.apps.tables.numbers import read_numbers

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
        nodes: Nodes,
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
            GraphError: an attribute in ``names`` is missing, is repeated or is in ``leave``; an
                attribute that is used cannot be read; or a number is infinite.
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
        columns, notes = learn_columns(table, list(used), nodes.where)
        width = sum(column.width for column in columns)
        return ColumnEncoder(tuple(columns), width, "columns" if columns else "structure"), notes

    def read_columns(self, nodes: Nodes) -> Tensor:
        """Encode nodes as features, [n, width] float32, dense or CSR; without columns, [n, 0]. If
        the source is ``"x"``, the result is the tensor ``x`` of the nodes, and no copy.

        Raises:
            GraphError: the nodes lack an attribute or features ``x`` that the encoder reads, or a
                numeric attribute has a value that is no finite number.
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
        return write_features(self.columns, table, nodes.where)

    def unknown_columns(self, nodes: Nodes) -> list[str]:
        """Return a note for each column with a value or a gap that did not occur in training, so
        that it has no feature; see :meth:`Column.unknown`.
        """
        present = [column for column in self.columns if column.name in nodes.table.columns]
        notes = (column.unknown(nodes.column(column.name)) for column in present)
        return [note for note in notes if note]


def name_words(name: Hashable) -> str:
    """Return the words of a node's name in lower case, of two letters or more, and the first three
    letters of the first one after ``start_``; "" if there are no words.

    >>> name_words("libfoo2-dev"), name_words(17)
    ('libfoo dev start_lib', '')
    """
    words = [word.lower() for word in re.findall(r"[^\W\d_]{2,}", str(name))]
    return " ".join([*words, f"start_{words[0][:3]}"]) if words else ""


def _with_names(graph: Nodes) -> pd.DataFrame:
    """Return the attribute table with an additional column that contains the words of the nodes'
    names.
    """
    texts = pd.Series([name_words(name) for name in graph.names], dtype=object)
    return graph.table.assign(**{NAMES: texts})


def _as_columns(graph: Nodes, names: Sequence[str]) -> list[str]:
    """Return the names with each vector attribute of the graph, such as ``x``, replaced by the
    names of its columns: ``x.0``, ``x.1``, ... Other names are unchanged, even if the graph has no
    such column.
    """
    columns = [str(column) for column in graph.table.columns]
    expanded: list[str] = []
    for name in names:
        parts = [c for c in columns if re.fullmatch(rf"{re.escape(name)}\.\d+", c)]
        expanded += parts if parts and name not in columns else [name]
    return expanded


def write_features(columns: Sequence[Column], table: pd.DataFrame, where: Where = at_row) -> Tensor:
    """Encode columns of n nodes as features, [n, d] float32: dense, or CSR if few are nonzero.

    Args:
        columns: encoders of the columns.
        table: n rows of attributes.
        where: describes the position of a node.

    Raises:
        GraphError: the table lacks a column, or it cannot be read.
    """
    for column in columns:
        if column.name not in table.columns:
            raise GraphError(
                f"the nodes have no attribute {column.name!r}, which the model reads; "
                f"{attribute_names(table)}"
            )
    shape = len(table), sum(column.width for column in columns)
    matrix: Any
    if all(column.kind == "number" for column in columns):
        # A sparse matrix of numbers would need several times the memory.
        matrix = np.empty(shape, np.float32)
        numbers = (column.scaled(table[column.name], where) for column in columns)
        for place, values in enumerate(chain.from_iterable(numbers)):
            matrix[:, place] = values
        stored = np.count_nonzero(matrix)
    else:
        blocks = [column.features(table[column.name], where) for column in columns]
        matrix = sp.csr_matrix(sp.hstack(blocks, format="csr", dtype=np.float32))
        stored = matrix.nnz
    if stored > DENSE * shape[0] * shape[1]:
        return torch.from_numpy(matrix.toarray() if sp.issparse(matrix) else matrix)
    return sparse_tensor(sp.csr_matrix(matrix))


Kind = Literal["number", "category", "text"]
CATEGORIES = 50
"""Maximum number of categories in a column. A column with more different values is encoded as
text.
"""
HASHES = 2**16
"""Number of possible hash values of words. A text column has one feature for each hash value
that occurs in it.
"""
LEAST = 2
"""Minimum number of nodes that must have a word for the word to become a feature."""
LEAVE_OUT = "write numbers there, or leave the column out with --features / features="
LEAVE_EMPTY = "write numbers there, or leave these cells empty"
"""Advice for error messages about cells that are not numbers in a table to predict."""


@dataclass(frozen=True)
class Column:
    """Encoder of one attribute column.

    Attributes:
        name: name of the column.
        kind: type of its values.
        mean: mean of the numbers.
        std: standard deviation of the numbers, above 0.
        gaps: True if training values are missing; a second feature then marks missing numbers.
        categories: the texts that are one-hot encoded; other texts are encoded as zeros.
        places: hashes of the words that are features, ascending.
        idf: inverse document frequency of each hash in ``places``.
    """

    name: str | int
    kind: Kind
    mean: float = 0.0
    std: float = 1.0
    gaps: bool = False
    categories: tuple[str, ...] = ()
    places: tuple[int, ...] = field(default=(), repr=False)
    idf: tuple[float, ...] = field(default=(), repr=False)

    @property
    def width(self) -> int:
        """Number of features of the column."""
        counts = {"category": len(self.categories), "text": len(self.places)}
        return counts.get(self.kind, 1 + self.gaps)

    def features(self, values: pd.Series, where: Where = at_row) -> sp.csr_matrix:
        """Encode n values of the column as features [n, width]. A category that did not occur in
        training has zeros, and the features of a text have unit length or are zeros. Raises
        GraphError for a value of a numeric column that is no finite number.
        """
        if self.kind == "number":
            return sp.csr_matrix(np.stack(self.scaled(values, where), 1))
        texts = as_texts(values)
        if self.kind == "category":
            place = pd.Index(self.categories).get_indexer(pd.Index(texts))
            rows = np.flatnonzero(place >= 0)
            shape = len(texts), len(self.categories)
            return sp.csr_matrix((np.ones(len(rows)), (rows, place[rows])), shape)
        weighed = _hashed(texts)[:, list(self.places)] @ sp.diags(np.array(self.idf))
        norm = np.sqrt(np.asarray(weighed.multiply(weighed).sum(1)).ravel())
        return sp.csr_matrix(sp.diags(1 / np.where(norm > 0, norm, 1)) @ weighed)

    def scaled(self, values: pd.Series, where: Where = at_row) -> list[NDArray[np.float64]]:
        """Return the features of a numeric column: n scaled numbers, 0 for a missing value, and, if
        training values are missing, n marks that are 1 for a missing value. Raises GraphError for a
        value that is no finite number.
        """
        numbers = _checked_numbers(values, where)
        missing = np.isnan(numbers)
        scaled = np.where(missing, 0.0, (numbers - self.mean) / self.std)
        return [scaled, missing.astype(float)] if self.gaps else [scaled]

    def unknown(self, values: pd.Series, items: str = "nodes") -> str:
        """Return a note if some values are missing and none was missing in training, or if some are
        categories that did not occur in training, so that they have no features; otherwise "".

        Args:
            values: the column of a graph that was not used for training.
            items: noun for the rows in the note.
        """
        is_number = self.kind == "number"
        gone = int((is_missing(values, numbers=True) if is_number else is_empty(values)).sum())
        if gone and not self.gaps:
            effect = "the mean is used" if is_number else "there is no feature"
            return (
                f"Column {self.name!r} is empty for {gone:,} of {len(values):,} {items}, but was "
                f"not empty in training: {effect} for these {items}."
            )
        if self.kind != "category":
            return ""
        categories = {"", *self.categories}
        unknown = [text for text in as_texts(values) if text not in categories]
        if not unknown:
            return ""
        return (
            f"Column {self.name!r} has values that did not occur in training, for example "
            f"{unknown[0][:40]!r}: {len(unknown):,} of {len(values):,} {items} have no feature "
            "for this column."
        )


def learn_columns(
    table: pd.DataFrame, names: Sequence[str], where: Where = at_row
) -> tuple[list[Column], list[str]]:
    """Fit an encoder to each column of a table.

    Numbers are standardised. Texts are categories if there are few different texts that repeat, or
    if they are single words that occur ten times on average. All other texts are encoded by TF-IDF.
    A column of numbers and texts is read as texts, and a note describes the cells that are not
    numbers. A constant or empty column has no features.

    Args:
        table: attributes of all nodes, labelled or not.
        names: the columns to use.
        where: describes the position of a node.

    Returns:
        The encoders of the columns that have features, and notes for the user.

    Raises:
        GraphError: a number is infinite.

    Example:
        >>> table = pd.DataFrame({"age": ["31", "45", None], "kind": ["a", "b", "a"]})
        >>> [(column.name, column.kind, column.width) for column in learn_columns(table, table)[0]]
        [('age', 'number', 2), ('kind', 'category', 2)]
    """
    columns, notes = [], []
    for name in names:
        column, column_notes = _learn(name, table[name], where)
        if column is not None:
            columns.append(column)
        notes += column_notes
    return columns, notes


def _learn(name: str, values: pd.Series, where: Where) -> tuple[Column | None, list[str]]:
    """Choose the encoding of a column by its values, and return its encoder and notes; None and a
    note if it is not used. Raises GraphError if a number is infinite.
    """
    missing, numbers = is_missing(values), as_numbers(values)
    if values.dtype.kind in NUMERIC and not np.isnan(numbers[~missing]).any():
        # The numbers are not converted to texts, because that is slow for many nodes.
        present = numbers[~missing]
        if not len(present) or present.min() == present.max():
            reason = "constant" if len(present) else "empty"
            return None, [f"Column {name!r} is not used: it is {reason}."]
        return _learn_numbers(name, values, where)
    texts = as_texts(values)
    counts = Counter(text for text, gone in zip(texts, missing) if not gone)
    if len(counts) < 2:
        reason = "constant" if counts else "empty"
        return None, [f"Column {name!r} is not used: it is {reason}."]
    words = [text for text, number in zip(texts, numbers) if text and np.isnan(number)]
    if not words:
        return _learn_numbers(name, values, where)
    total, notes = counts.total(), []
    written = read_numbers(texts if looks_numeric(texts) else ())
    recognised = sum(pattern.count for pattern in written.recognised())
    if 2 * (total - len(words) + recognised) >= total and recognised:
        patterns = describe_patterns(written.patterns, where, LEAVE_OUT)
        notes.append(f"Column {name!r} is read as texts, not as numbers: {patterns}.")
    elif len(words) < total:
        notes.append(
            f"Column {name!r} has {total - len(words):,} numbers and {len(words):,} texts, "
            f"for example {words[0][:40]!r} {where(texts.index(words[0]))}: all are read as "
            f"texts. If the column should contain numbers, {LEAVE_OUT}."
        )
    notes += gap_notes(values, f"Column {name!r}")
    if _is_category(counts):
        gaps = bool(is_empty(values).any())
        return Column(name, "category", gaps=gaps, categories=tuple(sorted(counts))), notes
    column, more = _learn_text(name, texts)
    if column is not None:
        column = replace(column, gaps=bool(is_empty(values).any()))
    return column, notes + more


def _learn_numbers(name: str, values: pd.Series, where: Where) -> tuple[Column, list[str]]:
    """Return the encoder of a column with at least one number and no texts, and notes. Raises
    GraphError if a number is infinite.
    """
    missing = is_missing(values, numbers=True)
    numbers = _checked_numbers(values, where)[~missing]
    # If all numbers are equal, rounding can make their standard deviation positive, so it is set to
    # 1.
    std = float(numbers.std()) if numbers.min() < numbers.max() else 1.0
    column = Column(name, "number", float(numbers.mean()), std, bool(missing.any()))
    return column, gap_notes(values, f"Column {name!r}")


def _is_category(counts: Counter[str]) -> bool:
    """Return True if the values of a text column repeat so often that it looks categorical.
    ``counts`` are the numbers of nodes of each text, without missing values.
    """
    different, total = len(counts), counts.total()
    # If at least half of the distinct texts have several words, the column may contain free text.
    # Such a column counts as categorical only if its values repeat more often than in other
    # columns.
    if sum(len(text.split()) > 1 for text in counts) >= 0.5 * different:
        return different <= min(CATEGORIES, total / 2)
    return different < total and different <= max(CATEGORIES, total / 10)


def _learn_text(name: str, texts: list[str]) -> tuple[Column | None, list[str]]:
    """Return a column of word frequencies; None and a note if too few nodes share a word.
    ``texts`` has a text for each node, "" where the value is missing.
    """
    counts = _hashed(texts)
    nodes = np.bincount(counts.indices, minlength=HASHES)
    places = np.flatnonzero(nodes >= LEAST)
    if not len(places):
        return None, [f"Column {name!r} is not used: no word occurs twice."]
    idf = TfidfTransformer().fit(counts[:, places]).idf_
    return Column(name, "text", places=tuple(places.tolist()), idf=tuple(idf.tolist())), []


def _hashed(texts: Sequence[str]) -> sp.csr_matrix:
    """Count the words of each text by their hash values: sparse [n, HASHES]."""
    options: dict[str, Any] = {"norm": None, "alternate_sign": False}
    return sp.csr_matrix(HashingVectorizer(n_features=HASHES, **options).transform(texts))


def _checked_numbers(values: pd.Series, where: Where) -> NDArray[np.float64]:
    """Convert a column to numbers. Raises GraphError for a value that is no finite number."""
    title, requirement = f"attribute {values.name!r}", "have numbers, as in training"
    return finite_numbers(values, title, requirement, where, LEAVE_EMPTY)
