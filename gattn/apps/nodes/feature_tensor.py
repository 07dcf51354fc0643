"""Features of the nodes of one type as a dense or sparse tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import GraphError, Where, at_row
from gattn.apps.nodes.columns import Column, write_features, write_numbers
from gattn.apps.nodes.fields import csr_tensor

__all__ = ["compact_features"]

DENSE = 0.25
"""Features are stored as a sparse matrix if at most this fraction of them is nonzero."""


def compact_features(
    columns: Sequence[Column], table: pd.DataFrame, where: Where = at_row
) -> Tensor:
    """Encode columns of n nodes as features, [n, d] float32: dense, or CSR if few are nonzero.

    Args:
        columns: encoders of the columns.
        table: n rows of attributes.
        where: describes the position of a node.

    Raises:
        GraphError: the table lacks a column, or it cannot be read.

    Example:
        >>> table = pd.DataFrame({"age": [1.0, 3.0]})
        >>> compact_features([Column("age", "number", mean=2.0)], table).tolist()
        [[-1.0], [1.0]]
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
