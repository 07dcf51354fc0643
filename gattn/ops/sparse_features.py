"""Linear layer and dropout for features that are stored in a sparse matrix.

A sparse matrix of features is also a graph: each entry is an edge from a feature to a node. Its
product with a dense matrix is a weighted sum over these edges. The graph's layout is computed once
for all steps of a training, and the sum has the same order for any number of threads.
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
from gattn.ops.registration.backend import is_transformed, select

_F = TypeVar("_F", bound=Callable[..., Any])
_SPARSE = (torch.sparse_coo, torch.sparse_csr)


def is_sum_over_edges(x: Tensor, weight: Tensor) -> bool:
    """Return True if :func:`sparse_linear` supports x. Otherwise, torch's sparse product is used.
    Raises the errors of :func:`select`.
    """
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
    """Exclude a function from torch.compile, which cannot read the values of a sparse tensor."""
    return torch.compiler.disable(function)  # pyright: ignore[reportReturnType]


@_in_eager
def sparse_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""Apply a linear layer to sparse features.

    .. math:: y_i = \sum_{j : x_{ij} \text{ stored}} x_{ij} W_{\cdot j} + b

    Args:
        x: [n, d], ``torch.sparse`` CSR or coalesced COO, for which :func:`is_sum_over_edges` is
            true. Its graph is cached as long as x exists.
        weight: W, [c, d].
        bias: b, [c].

    Returns:
        [n, c], dense.

    Raises:
        TypeError, ValueError: for x that is not of this kind, or a weight of another shape.
        RuntimeError: the backend that ``GATTN_BACKEND`` selects cannot run.
    """
    rows = weight.t().unsqueeze(1)
    out = aggregate(x.values().unsqueeze(1), rows, as_graph(x)).squeeze(1)
    return out if bias is None else out + bias


@_in_eager
def sparse_dropout(x: Tensor, p: float) -> Tensor:
    """Apply dropout to the entries of a COO, CSR or CSC matrix [n, d].

    Dropped entries are stored as zeros, so that the result has the same graph, which both share in
    the cache. Raises the errors of :func:`dropout`.
    """
    x = x.coalesce() if x.layout == torch.sparse_coo else x
    output = _with_values(x, dropout(x.values(), p))
    cache.share(x, output)
    return output


def _with_values(x: Tensor, values: Tensor) -> Tensor:
    """Return a sparse matrix that has the sparsity pattern of x, but other values, one for each of
    its entries in their order.
    """
    options = {"size": x.shape, "check_invariants": False}
    if x.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(x.indices(), values, is_coalesced=True, **options)
    is_csr = x.layout == torch.sparse_csr
    return torch.sparse_compressed_tensor(
        x.crow_indices() if is_csr else x.ccol_indices(),
        x.col_indices() if is_csr else x.row_indices(),
        values,
        layout=x.layout,
        **options,
    )
