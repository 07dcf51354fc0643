"""Reader of edges in Parquet files. Every node name and every text is stored only once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gattn.apps.nodes.edge_ends import NamedEnds, choose_ends
from gattn.apps.nodes.name_columns import counts_rows, may_count_rows
from gattn.apps.tables.formats import column_names, open_parquet

if TYPE_CHECKING:
    import pyarrow.parquet

__all__ = ["read_ends"]


def read_ends(path: Path, ends: tuple[str, str] = ("", "")) -> NamedEnds:
    """Read a Parquet table of edges.

    The two columns with node names are chosen by
    :func:`gattn.apps.nodes.edge_ends.choose_ends`. Each of them is encoded as int32 indices of its
    different values while it is read, so that a table of many edges needs 8 bytes per edge, and no
    Python object for an edge. Other columns of texts become categories of pandas.

    Args:
        path: the Parquet file.
        ends: names of the columns with the node names; empty texts to choose them.

    Returns:
        The names, and the other columns.

    Raises:
        ValueError: the file is not a Parquet file, or has fewer than two columns.
    """
    with open_parquet(path, memory_map=True) as file:
        columns = column_names(file)
        is_index = [
            may_count_rows(name)
            and counts_rows(name, file.read([name], use_pandas_metadata=False).to_pandas()[name])
            for name in columns
        ]
        choice = choose_ends(columns, is_index, ends)
        pairs = [_read_column(file, columns[i]) for i in (choice.source, choice.destination)]
        attributes = _read_attributes(file, [columns[place] for place in choice.rest])
    values, codes = zip(*pairs)
    return NamedEnds.of(columns, choice, values, attributes, codes)


def _read_attributes(file: pyarrow.parquet.ParquetFile, names: Sequence[str]) -> pd.DataFrame:
    """Read columns, in which equal texts are one object."""
    if not names:
        return pd.DataFrame(index=range(file.metadata.num_rows))
    table = file.read(list(names), use_pandas_metadata=False)
    # The memory of each column is released as soon as it is converted.
    options: dict[str, Any] = {"self_destruct": True, "split_blocks": True}
    return table.to_pandas(strings_to_categorical=True, **options)


def _read_column(
    file: pyarrow.parquet.ParquetFile, name: str
) -> tuple[pd.Series, NDArray[np.int32]]:
    """Return the distinct values of a column, and for each row the index of its value; -1 if it
    is missing.
    """
    import pyarrow

    column: Any = file.read([name], use_pandas_metadata=False).column(0)
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return array.dictionary.to_pandas(), codes.astype(np.int32, copy=False)
