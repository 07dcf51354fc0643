"""Conversion of SMILES and labels from lists, arrays, Series and data frames to lists and
arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gattn.apps.fitting.tasks import MOST_CLASSES
from gattn.apps.tables.csv_table import LARGEST
from gattn.apps.tables.numbers import NumberFormat, read_numbers

SIMPLE = {float, int, bool, type(None), np.float64, np.float32, np.int64, np.int32, np.bool_}
"""Types of labels that are always numbers or missing values, so that they need no check."""
NO_NUMBERS = (bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)
"""Types that are not accepted as labels, although NumPy can convert them to numbers."""


def is_missing(values: np.ndarray) -> np.ndarray:
    """Return a mask of the elements of an array that are None, NaN or missing values of pandas.

    Pandas is imported only for types of other libraries, because its import takes a second.

    >>> is_missing(np.array([1.5, None, "C", float("nan")], dtype=object)).tolist()
    [False, True, False, True]
    """
    flat = values.ravel().tolist()
    if set(map(type, flat)) <= SIMPLE | {str}:
        missing = [value is None or value != value for value in flat]
        return np.array(missing, dtype=bool).reshape(values.shape)
    from pandas import isna

    return isna(values)


def as_texts(smiles: Iterable[object], *, ordered: bool = False) -> list[str]:
    """Convert SMILES in a list, a tuple, a Series, or an array [n] or [n, 1] to a list of strings.

    Molecules of RDKit are converted to their SMILES. Other values that are no texts stay in the
    list unchanged, and become invalid rows when they are parsed.

    Args:
        smiles: the SMILES.
        ordered: whether other data have the order of the atoms in the SMILES.

    Raises:
        ValueError: the argument is a single string, or an array with more than one column, or it
            contains molecules of RDKit, whose SMILES have another order, and ``ordered`` is set.

    >>> as_texts(np.array([["CCO"], ["C"]]))
    ['CCO', 'C']
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of strings; got a single string {smiles!r}")
    shape = getattr(smiles, "shape", None)
    if shape is not None:
        if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
            raise ValueError(
                f"smiles must be an array of n strings; got an array of shape {list(shape)}"
            )
        smiles = np.asarray(smiles, dtype=object).ravel()
    smiles = list(smiles)
    if ordered and any(as_smiles(each) is not each for each in smiles):
        raise ValueError("pass SMILES instead of molecules: their order of the atoms is needed")
    # Other values become bad rows.
    return [as_smiles(each) for each in smiles]  # pyright: ignore[reportReturnType]


def as_smiles(value: object) -> object:
    """Return the SMILES of a molecule of RDKit; every other value is returned unchanged."""
    if isinstance(value, str) or not hasattr(value, "GetAtoms"):
        return value
    from rdkit.Chem import MolToSmiles

    return MolToSmiles(value)  # pyright: ignore[reportArgumentType]


def as_table(y: Any, rows: int) -> np.ndarray:
    """Convert labels [n] or [n, t] to an array [n, t] of objects, with None for missing labels.

    Raises:
        ValueError: there are no labels, their number n is not ``rows``, the number of molecules,
            or the shape is wrong.
    """
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    table = np.asarray(y, dtype=object)
    if isinstance(y, np.ma.MaskedArray):  # a masked entry of the array is a missing label
        table = table.copy()
        table[np.ma.getmaskarray(y)] = None
    if getattr(getattr(y, "dtype", None), "kind", "") in ("M", "m"):
        raise ValueError(
            f"y must contain numbers or classes; it contains dates or times ({y.dtype})"
        )
    if table.ndim == 1 and any(isinstance(row, (list, tuple, np.ndarray)) for row in table):
        raise ValueError("y must be [n] or [n, t]; its rows have different numbers of labels")
    if table.ndim not in (1, 2) or (table.ndim == 2 and table.shape[1] == 0):
        raise ValueError(f"y must be [n] or [n, t]; got an array of shape {list(table.shape)}")
    if len(table) != rows:
        raise ValueError(f"y must have {rows} rows, one for each molecule; got {len(table)}")
    table = (table if table.ndim == 2 else table[:, None]).copy()
    table[is_missing(table)] = None  # pandas.NA cannot be compared with a class, so it becomes None
    return table


def as_numbers(table: np.ndarray, title: str = "y") -> np.ndarray:
    """Convert numbers [n, t] to float64, with NaN for missing ones. Strings are parsed like cells
    of a CSV file.

    Args:
        table: the numbers, as objects.
        title: name of the argument for errors.

    Raises:
        ValueError: a value is not a number, or is too large for float32.
    """
    numbers = np.full(table.shape, np.nan)
    for column, values in enumerate(table.T):
        if set(map(type, values)) <= SIMPLE:
            numbers[:, column] = np.where(is_missing(values), np.nan, values).astype(np.float64)
            continue
        is_text = np.array([isinstance(value, str) for value in values], bool)
        for row in np.flatnonzero(~is_missing(values) & ~is_text).tolist():
            if isinstance(values[row], NO_NUMBERS) or not hasattr(values[row], "__float__"):
                _refuse(title, row, column, repr(values[row]))
            numbers[row, column] = float(values[row])
        texts = np.flatnonzero(is_text)
        read = read_numbers(values[texts].tolist())
        numbers[texts, column] = read.values
        for pattern in read.patterns:
            row = int(texts[pattern.place])
            words = pattern.sentence(f"in row {row}".format, "value")
            _refuse(title, row, column, f"{pattern.example!r}: {words}")
    beyond = np.abs(numbers) > LARGEST
    if beyond.any():
        row, column = np.argwhere(beyond)[0].tolist()
        _refuse(title, row, column, f"{numbers[row, column]:g}")
    return numbers


def _refuse(title: str, row: int, column: int, value: str) -> None:
    """Raise ValueError that names the value and its place."""
    raise ValueError(
        f"{title} must contain numbers in the range of float32, and NaN for missing ones; row "
        f"{row}, column {column} is {value}"
    )


def find_bounds(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read limits such as ``">10"`` and ``"<0.5"`` among the labels [n, t].

    Returns:
        The table with None in place of each limit, and the lower and upper end of every label,
        [n, t, 2] float64: equal for a number, NaN where nothing was measured.

    Raises:
        ValueError: see :func:`as_numbers`.

    >>> find_bounds(np.array([[">10"], [3.0]], dtype=object))[1].tolist()
    [[[10.0, inf]], [[3.0, 3.0]]]
    """
    style, exact = NumberFormat(censored="limit"), table.copy()
    bounds = np.full((*table.shape, 2), np.nan)
    for place, value in np.ndenumerate(table):
        if isinstance(value, str) and np.isinf(ends := style.limits(value)).any():
            bounds[place], exact[place] = ends, None
    numbers = as_numbers(exact)
    measured = np.isfinite(numbers)
    bounds[measured] = numbers[measured, None]
    return exact, bounds


def find_classes(table: np.ndarray, names: Sequence[str]) -> list[np.ndarray]:
    """Return the sorted classes of each column of labels [n, t]; missing labels are no class.
    ``names`` are those of the columns, for errors.

    Raises:
        ValueError: a column has fewer than two classes or more than :data:`MOST_CLASSES`, or its
            classes have different types.
    """
    classes = []
    for name, column in zip(names, table.T):
        kinds = set(column[~is_missing(column)].tolist())
        if not 2 <= len(kinds) <= MOST_CLASSES:
            shown = ", ".join(map(repr, list(kinds)[:5])) + ", ..." * (len(kinds) > 5)
            raise ValueError(
                f"{name} must have two classes or more, at most {MOST_CLASSES}; it has "
                f"{len(kinds)}: {shown}"
            )
        try:
            classes.append(np.array(sorted(kinds)))
        except TypeError:
            raise ValueError(f"{name} must have classes of one type; it has {kinds}") from None
    return classes


def as_classes(
    table: np.ndarray, classes: Sequence[np.ndarray], names: Sequence[str]
) -> np.ndarray:
    """Convert labels [n, t] to float64: 0 for the first class, 1 for the second and so on, and NaN
    for a missing label. ``names`` are those of the columns, for errors.

    Raises:
        ValueError: a label is not one of the classes.
    """
    y = np.full(table.shape, np.nan)
    for i, kinds in enumerate(kinds.tolist() for kinds in classes):
        for number, kind in enumerate(kinds):
            y[table[:, i] == kind, i] = number
        strange = np.isnan(y[:, i]) & ~is_missing(table[:, i])
        if strange.any():
            label = table[strange, i][0]
            listed = f"{', '.join(map(repr, kinds[:-1]))} or {kinds[-1]!r}"
            raise ValueError(f"{names[i]} must be {listed}; it is {label!r}")
    return y


def target_names(y: Any) -> list[str]:
    """Return the names of the targets: a data frame's columns, a Series' name, ``y`` for labels
    [n], or ``y0, y1, ...`` for labels [n, t].

    >>> target_names([0.5, 1.5]), target_names([[0, 1], [1, 0]])
    (['y'], ['y0', 'y1'])
    """
    columns = getattr(y, "columns", None)
    if columns is not None:
        return [str(name) for name in columns]
    if getattr(y, "name", None) is not None:
        return [str(y.name)]
    shape = np.asarray(y, dtype=object).shape
    return ["y"] if len(shape) < 2 else [f"y{i}" for i in range(shape[1])]
