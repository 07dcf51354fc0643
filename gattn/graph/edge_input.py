"""Edges as users have them: anything that holds edges to pairs of a source and a destination."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.graph.cache import outside_transforms


@outside_transforms
def read_edges(edges: Any, size: int | tuple[int, int] | None) -> tuple[Tensor, Tensor, int, int]:
    """(source, destination, num_src, num_dst) of anything that holds edges."""
    check_not_traced()
    check_made_outside("edges", edges, ": lay out a gattn.Graph beforehand")
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        source, destination, own = _from_torch_sparse(edges)
    elif isinstance(edges, Tensor):
        source, destination, own = _from_pairs(edges)
    elif hasattr(edges, "tocoo"):
        source, destination, own = _from_scipy(edges)
    elif is_networkx(edges):
        source, destination, own = _from_networkx(edges)
    elif hasattr(edges, "coo") and hasattr(edges, "sparse_sizes"):  # a torch_sparse.SparseTensor
        (destination, source, _), (rows, cols) = edges.coo(), edges.sparse_sizes()
        own = cols, rows
    else:
        raise TypeError(
            "edges must be a (2, e) integer tensor, an EdgeIndex, a torch or SciPy sparse matrix, "
            f"a SparseTensor, a networkx graph or a Graph; got {type(edges).__name__}"
        )
    num_src, num_dst = _resolve_size(size, own, source, destination)
    return source, destination, num_src, num_dst


def _resolve_size(
    size: int | tuple[int, int] | None,
    own: tuple[int, int] | None,
    source: Tensor,
    destination: Tensor,
) -> tuple[int, int]:
    asked = as_size(size)
    if asked is not None:
        if own is not None and own != asked:
            raise ValueError(f"size must be {own}, that of the given edges; got {asked}")
        return asked
    if own is not None:
        return own
    if source.numel() == 0:
        return 0, 0
    largest = max(int(source.max()), int(destination.max())) + 1
    return max(largest, 0), max(largest, 0)


def _from_pairs(edges: Tensor) -> tuple[Tensor, Tensor, tuple[int, int] | None]:
    if edges.dim() != 2 or edges.shape[0] != 2:
        raise ValueError(f"edge_index must have shape (2, e); got {tuple(edges.shape)}")
    if edges.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"edge_index must be int32 or int64; got {edges.dtype}")
    own = None
    sparse_size: Any = getattr(edges, "sparse_size", None)
    if sparse_size is not None:  # an EdgeIndex: rows are sources
        rows, cols = sparse_size()
        own = (rows, cols) if rows is not None and cols is not None else None
        edges = edges.as_tensor()  # type: ignore[attr-defined]
    return edges[0], edges[1], own


def _from_torch_sparse(adj_t: Tensor) -> tuple[Tensor, Tensor, tuple[int, int]]:
    if adj_t.dim() != 2:
        raise ValueError(f"a sparse adjacency must have 2 dimensions; got {adj_t.dim()}")
    coo = adj_t if adj_t.layout == torch.sparse_coo else adj_t.to_sparse_coo()
    row, col = coo._indices() if not coo.is_coalesced() else coo.indices()
    num_dst, num_src = adj_t.shape
    return col, row, (num_src, num_dst)


def _from_scipy(matrix: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Rows are sources and columns destinations, as networkx and PyG's converter have them."""
    if len(matrix.shape) != 2:
        raise ValueError(f"a SciPy matrix of edges must have 2 dimensions; got {matrix.shape}")
    coo = matrix.tocoo()
    num_src, num_dst = coo.shape
    source = torch.from_numpy(coo.row.astype("int64"))
    return source, torch.from_numpy(coo.col.astype("int64")), (num_src, num_dst)


def is_networkx(edges: Any) -> bool:
    """Whether this is a networkx graph."""
    return hasattr(edges, "is_directed") and hasattr(edges, "nodes")


def _from_networkx(graph: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Nodes numbered in iteration order; an undirected edge stands for both directions."""
    number = {node: position for position, node in enumerate(graph.nodes)}
    pairs = [(number[a], number[b]) for a, b in graph.edges()]
    rows = networkx_rows(graph)
    ends = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)[rows]
    is_back = torch.zeros_like(rows, dtype=torch.bool)
    is_back[1:] = rows[1:] == rows[:-1]  # the second of two for one edge
    source, destination = torch.where(is_back[:, None], ends.flip(1), ends).t().contiguous()
    return source, destination, (len(number), len(number))


def networkx_rows(graph: Any) -> Tensor:
    """For each edge that is laid out, the position in ``graph.edges()`` of the one it stands for.

    An undirected edge has two beside each other, one for each direction; a loop has one.
    """
    ways = [1 if graph.is_directed() or a == b else 2 for a, b in graph.edges()]
    return torch.arange(len(ways)).repeat_interleave(torch.tensor(ways, dtype=torch.int64))


def as_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """(num_src, num_dst) of what stands for it."""
    if size is None:
        return None
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(pair) != 2 or not all(_is_count(s) and s >= 0 for s in pair):
        raise ValueError(f"size must be num_nodes or (num_src, num_dst), >= 0; got {size!r}")
    return _as_int(pair[0]), _as_int(pair[1])


def _is_count(value: Any) -> bool:
    """Whether this stands for a whole number, Python's or NumPy's."""
    if isinstance(value, (int, torch.SymInt)):
        return not isinstance(value, bool)
    return hasattr(value, "__index__") and not isinstance(value, Tensor)


def _as_int(value: Any) -> Any:
    """A number as Python has it; one that compiled code leaves open stays open."""
    return value if isinstance(value, (int, torch.SymInt)) else operator.index(value)


def check_count(name: str, value: Any, least: int = 0) -> None:
    """Raise unless given an int that is not below the least."""
    if isinstance(value, (bool, Tensor)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an int; got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}; got {value}")


def check_made_outside(name: str, edges: Any, instead: str = "") -> None:
    """Raise where edges were made or mapped over within a transform of torch.func."""
    if (
        not torch.compiler.is_compiling()
        and isinstance(edges, Tensor)
        and torch_internals.is_wrapped(edges)
    ):
        raise ValueError(
            f"{name} must be made outside of the transforms of torch.func{instead}; got edges that "
            "were made or mapped over within one"
        )


def check_not_traced() -> None:
    """Raise under torch.jit.trace, which would write the edges of its example into the program."""
    if torch.jit.is_tracing():
        raise RuntimeError(
            "gattn does not run under torch.jit.trace, which would fix the edges of its "
            "example: use torch.compile, torch.export.export or torch.onnx.export(dynamo=True)"
        )
