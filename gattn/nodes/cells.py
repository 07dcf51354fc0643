"""Attributes that hold several values for a node, as columns of one value each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.nodes.attributed import GraphError
from gattn.nodes.values import is_missing

__all__ = ["LISTS", "flat_table", "shape_fault"]

LISTS = (list, tuple, set, np.ndarray)


def shape_fault(name: str, shape: tuple[int, ...], nodes: int) -> str:
    """Say why an array has not one value a node; empty where it is [n] or [n, 1].

    >>> shape_fault("train_mask", (3, 1), 5)
    'train_mask must have one value for each of 5 nodes; it is (3, 1)'
    """
    if shape in ((nodes,), (nodes, 1)):
        return ""
    told = f"{name} must have one value for each of {nodes:,} nodes; it is {shape}"
    if len(shape) == 2 and shape[0] == nodes:
        one_hot = ", or y.argmax(1) where it is one-hot" if name == "y" else ""
        return f"{told}: choose one of its columns, as {name}[:, 0]{one_hot}"
    if name.endswith("mask") and len(shape) == 1 and shape[0] < nodes:
        return f"{told}: of positions make a mask that is true there"
    return told


def flat_table(
    table: pd.DataFrame, names: Sequence[Hashable] | None = None
) -> tuple[pd.DataFrame, list[str], dict[Hashable, str]]:
    """Give every column one value a node.

    Lists of as many numbers for every node become as many columns, ``x.0``, ``x.1``, ... Lists of
    texts become one text each. Tables within cells, as the positions and colours of a GEXF file,
    are left out.

    Args:
        table: n rows of attributes.
        names: of the n nodes; None to number them from 0.

    Returns:
        The table; what was decided, in a sentence each; and the attributes that cannot be read,
        with the reason: two columns of one name, lists of other things or of several lengths.

    Example:
        >>> table = pd.DataFrame({"at": [[0, 1], None], "tags": [["old", "red"], []]})
        >>> flat_table(table)[0].columns.tolist()
        ['at.0', 'at.1', 'tags']
    """
    twice = table.columns.duplicated(keep=False)
    unreadable = {name: _several(name) for name in table.columns[twice]}
    table = table.loc[:, ~twice]
    parts: list[pd.DataFrame] = []
    notes: list[str] = []
    for name in table.columns:
        values = table[name]
        kinds = {type(value) for value in values} if values.dtype == object else set()
        if dict in kinds:
            notes.append(f"Attribute {name!r} holds tables: it is not read.")
        elif not any(issubclass(kind, LISTS) for kind in kinds):
            parts.append(values.to_frame())
        elif _is_texts(values):
            parts.append(_joined(values).to_frame())
            notes.append(f"Attribute {name!r} holds lists of texts: each is read as one text.")
        else:
            try:
                parts.append(_numbers(values, range(len(table)) if names is None else names))
            except GraphError as error:
                unreadable[name] = str(error)
    flat = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=table.index)
    again = flat.columns.duplicated(keep=False)  # "x.0" beside a list "x"
    unreadable |= {name: _several(name) for name in flat.columns[again]}
    return flat.loc[:, ~again], notes, unreadable


def _several(name: Hashable) -> str:
    return f"attributes must have different names; several are called {name!r}"


def _is_texts(values: pd.Series) -> bool:
    lists = (value for value in values if isinstance(value, LISTS))
    return any(isinstance(each, str) for held in lists for each in held)


def _joined(values: pd.Series) -> pd.Series:
    """Each list as a text of its words; what is no list stays."""
    texts = [" ".join(map(str, value)) if isinstance(value, LISTS) else value for value in values]
    return pd.Series(texts, values.index, dtype=object, name=values.name)


def _numbers(values: pd.Series, names: Sequence[Hashable]) -> pd.DataFrame:
    """Each place of the lists as a column; NaN where a node has no list."""
    lists = [
        None if gone else _list_of_numbers(value, values.name)
        for value, gone in zip(values, is_missing(values))
    ]
    first, width = next((row, len(one)) for row, one in enumerate(lists) if one is not None)
    rows = np.full((len(lists), width), np.nan)
    for row, one in enumerate(lists):
        if one is None:
            continue
        if len(one) != width:
            raise GraphError(
                f"attribute {values.name!r} must hold as many numbers for every node; that of "
                f"node {names[first]!r} has {width}, that of node {names[row]!r} has {len(one)}"
            )
        rows[row] = one
    return pd.DataFrame(rows, values.index).add_prefix(f"{values.name}.")


def _list_of_numbers(value: object, name: Hashable) -> NDArray[np.float64]:
    if not isinstance(value, LISTS):
        raise GraphError(f"attribute {name!r} must hold lists only; got {value!r}")
    if any(np.iscomplexobj(each) for each in value):
        raise GraphError(f"attribute {name!r} must hold real numbers; got {value!r}")
    try:
        return np.asarray(list(value), np.float64).ravel()
    except (TypeError, ValueError):
        raise GraphError(
            f"attribute {name!r} must hold lists of numbers or of texts; got {value!r}"
        ) from None
