"""Conversion of tensors, sparse matrices and networkx graphs to source and destination indices."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.graph.cache import outside_transforms


@outside_transforms
def read_edges(edges: Any, size: int | tuple[int, int] | None) -> tuple[Tensor, Tensor, int, int]:
    """Convert edges in any supported format to (source, destination, num_src, num_dst): two tensors
    [e], int32 or int64, in the order of the edges, and the size. The range of the indices is not
    checked. Raises TypeError or ValueError for edges or a size that it cannot read, and
    RuntimeError under torch.jit.trace.
    """
    check_not_traced()
    check_created_outside("edges", edges, ": create a gattn.Graph beforehand")
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        source, destination, stored_size = _from_torch_sparse(edges)
    elif isinstance(edges, Tensor):
        source, destination, stored_size = _from_pairs(edges)
    elif hasattr(edges, "tocoo"):
        source, destination, stored_size = _from_scipy(edges)
    elif is_networkx(edges):
        source, destination, stored_size = _from_networkx(edges)
    elif hasattr(edges, "coo") and hasattr(edges, "sparse_sizes"):
        # An object with these methods is a SparseTensor of the package torch_sparse.
        (destination, source, _), (rows, cols) = edges.coo(), edges.sparse_sizes()
        stored_size = cols, rows
    else:
        raise TypeError(
            "edges must be a (2, e) integer tensor, an EdgeIndex, a torch or SciPy sparse matrix, "
            f"a SparseTensor, a networkx graph or a Graph; got {type(edges).__name__}"
        )
    num_src, num_dst = _resolve_size(size, stored_size, source, destination)
    return source, destination, num_src, num_dst


def _resolve_size(
    size: int | tuple[int, int] | None,
    stored_size: tuple[int, int] | None,
    source: Tensor,
    destination: Tensor,
) -> tuple[int, int]:
    """Return the numbers of sources and destinations: of the argument ``size``, of the edges'
    format, or 1 + the largest index (0 without edges), which is read from the device. Raises
    ValueError if the argument contradicts the format, or is not a size.
    """
    explicit_size = as_size(size)
    if explicit_size is not None:
        if stored_size is not None and stored_size != explicit_size:
            raise ValueError(
                f"size must be {stored_size}, the size of the edges; got {explicit_size}"
            )
        return explicit_size
    if stored_size is not None:
        return stored_size
    if source.numel() == 0:
        return 0, 0
    largest = max(int(source.max()), int(destination.max())) + 1
    return max(largest, 0), max(largest, 0)


def _from_pairs(edges: Tensor) -> tuple[Tensor, Tensor, tuple[int, int] | None]:
    """Return sources and destinations of edges [2, e], and the size of an EdgeIndex that stores
    one, otherwise None. Raises ValueError for another shape, and TypeError for another dtype.
    """
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise ValueError(f"edge_index must have shape (2, e); got {tuple(edges.shape)}")
    if edges.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"edge_index must be int32 or int64; got {edges.dtype}")
    stored_size = None
    sparse_size: Any = getattr(edges, "sparse_size", None)
    # Only PyG's EdgeIndex has the method sparse_size. It returns the number of sources and the
    # number of destinations.
    if sparse_size is not None:
        rows, cols = sparse_size()
        stored_size = (rows, cols) if rows is not None and cols is not None else None
        edges = edges.as_tensor()  # type: ignore[attr-defined]
    return edges[0], edges[1], stored_size


def _from_torch_sparse(adj_t: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Return sources and destinations of a sparse adjacency [n, m] and its size (m, n); the entries
    of a COO matrix that is not coalesced are kept one by one. Raises ValueError unless it is a
    matrix.
    """
    if adj_t.dim() != 2:
        raise ValueError(f"a sparse adjacency must have 2 dimensions; got {adj_t.dim()}")
    coo = adj_t if adj_t.layout == torch.sparse_coo else adj_t.to_sparse_coo()
    row, col = coo._indices() if not coo.is_coalesced() else coo.indices()
    num_dst, num_src = adj_t.shape
    return col, row, (num_src, num_dst)


def _from_scipy(matrix: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Return sources and destinations, int64, of the entries of a SciPy matrix [m, n], and its
    size: its rows are sources and its columns are destinations. Raises ValueError unless it has two
    dimensions.
    """
    if len(matrix.shape) != 2:
        raise ValueError(f"a SciPy matrix of edges must have 2 dimensions; got {matrix.shape}")
    coo = matrix.tocoo()
    num_src, num_dst = coo.shape
    source = torch.from_numpy(coo.row.astype("int64"))
    return source, torch.from_numpy(coo.col.astype("int64")), (num_src, num_dst)


def is_networkx(edges: Any) -> bool:
    """Return True if ``edges`` is a networkx graph."""
    return hasattr(edges, "is_directed") and hasattr(edges, "nodes")


def _from_networkx(graph: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Return sources and destinations, int64, of the edges of a networkx graph, whose nodes are
    numbered in their order, and its size (n, n). Each undirected edge gives one edge in each
    direction, and a self-loop gives one.
    """
    index = {node: position for position, node in enumerate(graph.nodes)}
    pairs = [(index[a], index[b]) for a, b in graph.edges()]
    rows = networkx_rows(graph)
    ends = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)[rows]
    is_reverse = torch.zeros_like(rows, dtype=torch.bool)
    # The edge list contains an undirected edge twice; the second copy is reversed.
    is_reverse[1:] = rows[1:] == rows[:-1]
    source, destination = torch.where(is_reverse[:, None], ends.flip(1), ends).t().contiguous()
    return source, destination, (len(index), len(index))


def networkx_rows(graph: Any) -> Tensor:
    """Return the index in ``graph.edges()`` of every directed edge that is made from a networkx
    graph.

    An undirected edge gives two adjacent entries, one for each direction; a self-loop gives one.
    """
    counts = [1 if graph.is_directed() or a == b else 2 for a, b in graph.edges()]
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts, dtype=torch.int64))


def as_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """Convert a ``size`` argument to (num_src, num_dst). Returns None for None. Raises ValueError
    for anything but one or two counts.
    """
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(pair) != 2 or not all(_is_count(s) and s >= 0 for s in pair):
        raise ValueError(f"size must be num_nodes or (num_src, num_dst), >= 0; got {size!r}")
    return _as_int(pair[0]), _as_int(pair[1])


def _is_count(value: Any) -> bool:
    """Return True if the value is an integer of Python, NumPy or torch.compile."""
    if isinstance(value, (int, torch.SymInt)):
        return not isinstance(value, bool)
    return hasattr(value, "__index__") and not isinstance(value, Tensor)


def _as_int(value: Any) -> Any:
    """Convert a value to a Python int. A symbolic integer of torch.compile is returned
    unchanged.
    """
    return value if isinstance(value, (int, torch.SymInt)) else operator.index(value)


def check_count(name: str, value: Any, least: int = 0) -> None:
    """Raise TypeError unless the value is an integer, and ValueError unless it is at least
    ``least``.
    """
    if isinstance(value, (bool, Tensor)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}; got {value}")


def check_created_outside(name: str, edges: Any, hint: str = "") -> None:
    """Raise ValueError if edges were created or batched inside a transform of torch.func; compiled
    code does not check this.
    """
    if (
        not torch.compiler.is_compiling()
        and isinstance(edges, Tensor)
        and torch_internals.is_wrapped(edges)
    ):
        raise ValueError(
            f"{name} must be created outside of the transforms of torch.func{hint}; got edges that "
            "were created or batched inside one"
        )


def check_not_traced() -> None:
    """Raise RuntimeError inside torch.jit.trace, which would store the edges of the example as
    constants.
    """
    if torch.jit.is_tracing():
        raise RuntimeError(
            "gattn does not run under torch.jit.trace, which would store the example's edges "
            "as constants: use torch.compile, torch.export.export or "
            "torch.onnx.export(dynamo=True)"
        )
