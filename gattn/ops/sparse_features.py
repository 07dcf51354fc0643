"""Features in a sparse matrix, and their dropout.

A sparse matrix of features is a graph, too: each entry an edge from a feature to a node. So its
product is one more weighted sum over edges, laid out once for forward and backward and for every
step, and in the same order whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from gattn.graph import as_graph, cache
from gattn.ops.dropout import dropout
from gattn.ops.edges import aggregate
from gattn.ops.registration import checks
from gattn.ops.registration.backend import select
from gattn.ops.registration.operator import is_transformed

_F = TypeVar("_F", bound=Callable[..., Any])
_SPARSE = (torch.sparse_coo, torch.sparse_csr)


def is_sum_over_edges(x: Tensor, weight: Tensor) -> bool:
    """Whether :func:`sparse_linear` takes these: torch's own product serves the rest."""
    return (
        x.layout in _SPARSE
        and x.dim() == weight.dim() == 2
        and x.dense_dim() == 0
        and not x.requires_grad
        and (x.layout == torch.sparse_csr or x.is_coalesced())
        and x.dtype == weight.dtype
        and x.dtype in checks.FLOATS
        and x.device == weight.device
        and not torch.compiler.is_compiling()
        and not is_transformed()
        and select(None, x.device) != "reference"
    )


def _in_eager(function: _F) -> _F:
    """Keep torch.compile out: it cannot take the values of a sparse tensor."""
    return torch.compiler.disable(function)  # pyright: ignore[reportReturnType]


@_in_eager
def sparse_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""A linear map of sparse features.

    .. math:: y_i = \sum_{j : x_{ij} \text{ stored}} x_{ij} W_{\cdot j} + b

    Args:
        x: [n, d], ``torch.sparse`` CSR or coalesced COO.
        weight: W, [c, d].
        bias: b, [c].

    Returns:
        [n, c], dense.
    """
    words = weight.t().unsqueeze(1)
    out = aggregate(x.values().unsqueeze(1), words, as_graph(x)).squeeze(1)
    return out if bias is None else out + bias


@_in_eager
def sparse_dropout(x: Tensor, p: float) -> Tensor:
    """Dropout of the entries of a COO, CSR or CSC matrix, whose graph stays the same."""
    x = x.coalesce() if x.layout == torch.sparse_coo else x
    output = _with_values(x, dropout(x.values(), p))
    cache.share(x, output)
    return output


def _with_values(x: Tensor, values: Tensor) -> Tensor:
    """A sparse matrix of the same entries with other values."""
    options = {"size": x.shape, "check_invariants": False}
    if x.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(x.indices(), values, is_coalesced=True, **options)
    rows = x.layout == torch.sparse_csr
    return torch.sparse_compressed_tensor(
        x.crow_indices() if rows else x.ccol_indices(),
        x.col_indices() if rows else x.row_indices(),
        values,
        layout=x.layout,
        **options,
    )
