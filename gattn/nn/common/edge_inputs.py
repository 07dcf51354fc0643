"""Conversion of a layer's edges, with self-loops, and of attention weights to the format that is
returned.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor  # pyright: ignore[reportAttributeAccessIssue]
from torch_geometric.utils import is_torch_sparse_tensor, scatter, to_edge_index
from torch_geometric.utils.sparse import set_sparse_value

from gattn.compat import torch as torch_internals
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached, cached_last
from gattn.graph.edge_input import check_not_traced, is_networkx, networkx_rows
from gattn.nn.common.checks import check_tensor
from gattn.nn.common.features import as_columns
from gattn.ops.custom_score.chunks import is_small
from gattn.ops.edges import sources_to_edges, sum_incoming, to_edges

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def read_edges(
    edge_index: Any,
    edge_attr: Tensor | None,
    x_src: Tensor,
    x_dst: Tensor | None,
    size: tuple[int | None, int | None] | None = None,
    *,
    self_loops: bool = False,
) -> tuple[Graph, Tensor | None]:
    """Return a graph of the layer's edges, and the edge features, [e, d] or [e]. ``x_src`` and
    ``x_dst`` have one row for each source and destination; if ``x_dst`` is None, ``size`` or the
    edges contain the number of destinations.

    The edges of a sparse adjacency are its entries, of which duplicates are summed; their values
    are the edge features if they are vectors. With ``self_loops`` the graph contains the self-loops
    of :meth:`Graph.with_self_loops`; the returned features still belong to the caller's edges. For
    a networkx graph ``edge_attr`` has one row for each of ``edges()``, which is repeated for both
    directions of an undirected edge. Integer features get the dtype of x. The features are None if
    neither the caller nor the adjacency has any. Raises TypeError or ValueError for edges or
    features that do not fit to x, and RuntimeError under torch.jit.trace.
    """
    check_not_traced()
    if isinstance(edge_index, SparseTensor) or _is_hybrid(edge_index):
        edge_index, edge_attr = _split(edge_index, edge_attr)
    caller_edges, edge_index = edge_index, _coalesced(edge_index)
    if not isinstance(edge_index, (Tensor, Graph)):
        edge_index = as_graph(edge_index)
    size = x_src.shape[0], _count_destinations(edge_index, x_src, x_dst, size)
    check_rows(edge_index, *size)
    graph = as_graph(edge_index, size, self_loops=self_loops)
    if edge_attr is not None:
        edge_attr = edge_rows(caller_edges if is_networkx(caller_edges) else edge_index, edge_attr)
        # PyG's layers also accept integer edge features.
        if edge_attr.dtype in _INTEGERS:
            edge_attr = edge_attr.to(x_src.dtype)
    return graph, edge_attr


def edge_rows(
    edge_index: Any, rows: Tensor, name: str = "edge_attr", width: int | None = None
) -> Tensor:
    """Check that there is one row (or number) for each edge of the caller, and return one row for
    each edge of the graph.

    Args:
        edge_index: the edges, as the caller passed them.
        rows: edge features [e], [e, 1] or [e, d].
        name: name of the argument, for errors.
        width: the required d; None for any.

    Returns:
        The rows; for a networkx graph they are repeated for both directions of an edge.

    Raises:
        TypeError: for anything but a tensor.
        ValueError: for a wrong shape.
    """
    check_tensor(name, rows)
    networkx, edges = is_networkx(edge_index), _count_edges(_coalesced(edge_index))
    fits = rows.dim() in (1, 2) and rows.shape[0] == edges
    if width is not None and rows.dim() == 2:
        fits = fits and rows.shape[1] in (1, width)
    if not fits:
        shapes = {None: f"({edges}, d)", 1: f"({edges},)"}
        expected = (
            f"{name} must have shape {shapes.get(width, f'({edges},) or ({edges}, {width})')}"
        )
        if networkx:
            raise ValueError(
                f"{expected}, a row for each of the networkx graph's edges(); got "
                f"{tuple(rows.shape)}. With features of each direction, pass gattn.Graph(graph) as "
                "the edges"
            )
        raise ValueError(f"{expected}; got {tuple(rows.shape)}")
    return rows[networkx_rows(edge_index).to(rows.device)] if networkx else rows


def check_rows(
    edge_index: Any, sources: int, destinations: int, name: str = "x", *, batch: int = 0
) -> None:
    """Check that the numbers of nodes of the edges equal the numbers of rows of the node features.

    Edges without node counts, such as pairs (2, e), always pass.

    Args:
        edge_index: the edges.
        sources: number of rows of the source features.
        destinations: number of rows of the destination features.
        name: name of the features, for errors.
        batch: length of a dimension before the rows; 0 for none.

    Raises:
        ValueError: if the numbers differ.
    """
    sizes = _size(edge_index)
    if sizes is not None and None not in sizes and sizes != (sources, destinations):
        actual = f"{sources} and {destinations}" if sources != destinations else str(sources)
        hint, sequences = "", batch or (sizes[0] or 0) // max(sources, 1)
        multiple = sizes == (sequences * sources, sequences * destinations)
        if batch or (sequences > 1 and multiple):
            hint = (
                f". If {name} is a padded batch of {sequences} sequences: concatenate their rows "
                "without padding by gattn.graphs.pack(x, lengths)"
            )
        raise ValueError(
            f"{name} must have as many rows as the edges have nodes, {sizes[0]} sources and "
            f"{sizes[1]} destinations; got {actual} rows for {_name(edge_index)}{hint}"
        )


def _name(edge_index: Any) -> str:
    """Return the name of the edges for an error message."""
    if isinstance(edge_index, Graph):
        return repr(edge_index)
    return f"a {type(edge_index).__name__} of that size"


def _size(edge_index: Any) -> tuple[int | None, int | None] | None:
    """Return (num_src, num_dst) if the format of the edges contains these numbers, otherwise None.
    An EdgeIndex may lack each number, which is then None.
    """
    if isinstance(edge_index, Graph):
        return edge_index.size
    if is_torch_sparse_tensor(edge_index):
        return edge_index.shape[1], edge_index.shape[0]
    return edge_index.sparse_size() if isinstance(edge_index, EdgeIndex) else None


def _coalesced(edge_index: Any) -> Any:
    """Return the edges. The duplicate entries of a sparse COO matrix are summed first; the summed
    matrix is cached without its gradient, except in compiled code.
    """
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.sparse_coo:
        return edge_index
    if edge_index.is_coalesced() or torch.compiler.is_compiling():
        return edge_index.coalesce()
    return cached(edge_index, "coalesced", lambda: edge_index.detach().coalesce())


def _is_hybrid(edge_index: Any) -> bool:
    """Return True if ``edge_index`` is a sparse matrix whose values are vectors."""
    return is_torch_sparse_tensor(edge_index) and edge_index.dim() > 2


def _split(adj_t: Any, edge_attr: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the pairs (source, destination) of a sparse adjacency, (2, e), in the order of its
    entries, of which duplicates are summed, and the edge features: those of the caller, else the
    values of the entries if they are vectors, else None.
    """
    rows_cols, values = _entries(adj_t)
    if edge_attr is None and values.dim() > 1:
        edge_attr = values
    return rows_cols.flip(0), edge_attr


def _entries(adj_t: Any) -> tuple[Tensor, Tensor]:
    """Return the rows and columns, [2, e], and the values of a sparse matrix; duplicates are summed
    first.

    A COO matrix is coalesced first, because PyG's function would mark the caller's matrix as
    coalesced.
    """
    is_coo = isinstance(adj_t, Tensor) and adj_t.layout == torch.sparse_coo
    return to_edge_index(adj_t.coalesce() if is_coo else adj_t)


def _count_edges(edge_index: Any) -> int:
    """Return the number of edges in the caller's format; an undirected edge of networkx counts
    once. Raises the errors of :func:`as_graph` for other types.
    """
    if is_networkx(edge_index):
        return edge_index.number_of_edges()
    if isinstance(edge_index, Tensor):
        return edge_index._nnz() if is_torch_sparse_tensor(edge_index) else edge_index.shape[1]
    return (edge_index if isinstance(edge_index, Graph) else as_graph(edge_index)).num_edges


def _count_destinations(
    edge_index: Any,
    x_src: Tensor,
    x_dst: Tensor | None,
    size: tuple[int | None, int | None] | None,
) -> int:
    """Return the number of destination nodes.

    This is the number of rows of x_dst. If x_dst is None, it is read from ``size`` or, if that is
    None, from the edges. If the edges do not contain it, it is the number of sources. Raises
    ValueError if ``size`` differs from the numbers of rows of x.
    """
    num_src, num_dst = (None, None) if size is None else tuple(size)
    if num_src not in (None, x_src.shape[0]):
        raise ValueError(f"size[0] must be {x_src.shape[0]}, the rows of x; got {num_src}")
    if x_dst is not None:
        if num_dst not in (None, x_dst.shape[0]):
            raise ValueError(f"size[1] must be {x_dst.shape[0]}, the rows of x; got {num_dst}")
        return x_dst.shape[0]
    sizes = _size(edge_index) or (None, None)
    return next(n for n in (num_dst, sizes[1], x_src.shape[0]) if n is not None)


def with_loop_features(
    edge_attr: Tensor, graph: Graph, fill_value: float | Tensor | str | None
) -> Tensor:
    """Return the edge features of a graph with self-loops, [e, d] or [e]. They include those of the
    self-loops.

    The features of the caller's edges other than self-loops come first, then the features of the
    added self-loops.

    Args:
        edge_attr: features of the caller's edges, [e, d] or [e].
        graph: the graph with self-loops.
        fill_value: a number, None for 1, a vector [d], or the reduction of the features of a
            node's other incoming edges: ``"mean"``, ``"add"``, ``"min"``, ``"max"`` or ``"mul"``.
            A node without such edges gets zeros, and ones with ``"mul"``. The results of reductions
            are cached for all layers of a model if :func:`caches_loop_features`.

    Raises:
        ValueError: for an unknown reduction.
    """
    if not isinstance(fill_value, str) or not caches_loop_features(edge_attr, graph):
        return _with_loops(edge_attr, graph, fill_value)
    name = f"loop features, {fill_value}"

    def build() -> tuple[Tensor, int]:
        output = _with_loops(edge_attr, graph, fill_value)
        return output, output._version

    output, version = cached_last(graph, name, (edge_attr,), build)
    if output._version == version:
        return output
    # A caller has modified the cached edge features in place, so they are computed again.
    graph.derived.pop(name, None)
    return cached_last(graph, name, (edge_attr,), build)[0]


def caches_loop_features(edge_attr: Tensor, graph: Graph) -> bool:
    """Return True if the features of the self-loops are cached in the graph until edge_attr
    changes.

    They are cached under four conditions, but not in compiled code, inside transforms of
    torch.func, or for a subclass of Tensor. The graph is small, such as a batch of molecules, where
    the overhead of calls dominates. The features are on the CPU, where a checksum detects changes.
    They require no gradient, which each layer would need. The graph is not distributed, because all
    processes must run the same operations.
    """
    if torch.compiler.is_compiling() or type(edge_attr) is not Tensor or type(graph) is not Graph:
        return False
    if torch_internals.is_wrapped(edge_attr):
        return False
    return edge_attr.is_cpu and not edge_attr.requires_grad and is_small(graph.layout)


def _with_loops(edge_attr: Tensor, graph: Graph, fill_value: float | Tensor | str | None) -> Tensor:
    """Return the features [e', d] or [e'] of the graph's edges: those of the caller's edges that
    the graph contains, then those of each self-loop. They are ``fill_value`` (ones for None), or,
    if it is the name of a reduction such as ``"mean"``, the reduced features of the incoming edges.
    """
    rows = as_columns(edge_attr)
    rows = rows if graph.kept_edges is None else rows[graph.kept_edges]
    if isinstance(fill_value, str):
        loops = _reduced(rows, graph, fill_value)
    else:
        loops = _constant(rows, min(graph.size), fill_value)
    result = torch.cat([rows, loops])
    return result if edge_attr.dim() == 2 else result.squeeze(1)


def _constant(like: Tensor, loops: int, fill_value: float | Tensor | None) -> Tensor:
    """Return the features of the self-loops, [loops, d] like those of edges, [e, d], if they do not
    depend on other edges: ``fill_value`` in each row, or ones if it is None.
    """
    if isinstance(fill_value, Tensor):
        return fill_value.to(like).reshape(1, -1).expand(loops, like.shape[1])
    return like.new_full((loops, like.shape[1]), 1.0 if fill_value is None else fill_value)


def _reduced(rows: Tensor, graph: Graph, fill_value: str) -> Tensor:
    """Return the features of the self-loops, [loops, d], given those of the other edges, ``rows``,
    which come first in the graph. They are the reduction ``fill_value`` over the other edges into
    the same node; without such edges 0, or 1 for "mul". Raises ValueError for an unknown reduction,
    and TypeError for features that are not floating.
    """
    loops = min(graph.size)
    if not is_linear(fill_value):
        destination = graph.incidence().edge_index[1, : rows.shape[0]]
        return scatter(rows, destination, 0, graph.num_dst, fill_value)[:loops]
    total = sum_incoming(torch.nn.functional.pad(rows, (0, 0, 0, loops)), graph)[:loops]
    if fill_value == "mean":
        degree = graph.in_degree()[:loops, None] - 1
        total = total / degree.clamp(min=1).to(total.dtype)
    return total


def is_linear(fill_value: float | Tensor | str | None) -> bool:
    """Return True if the features of self-loops depend linearly on the features of other edges."""
    return isinstance(fill_value, str) and fill_value in ("add", "sum", "mean")


def with_weights(
    edge_index: Any, graph: Graph, alpha: Tensor, x: Tensor, *, self_loops: bool = False
) -> Any:
    """Return the edges and their attention weights in the format of PyG's layers.

    Args:
        edge_index: the edges, as the caller passed them.
        graph: the graph of these edges, with self-loops if the layer added them.
        alpha: weights [e, h] of the edges of ``graph``; [e, b * h] if x has a batch dimension.
        x: node features, [n, d] or [n, b, d].
        self_loops: whether the layer added self-loops.

    Returns:
        For pairs, ``(edge_index, alpha)`` in the caller's order, followed by the self-loops. For a
        sparse matrix of torch, ``(adj_t, alpha)`` in the order of its entries, whose values are
        the weights; for a SparseTensor, only that matrix. If x has a batch dimension, the weights
        of pairs are [b, e, h].
    """
    if isinstance(edge_index, SparseTensor) or is_torch_sparse_tensor(edge_index):
        return _sparse_weights(edge_index, graph, alpha, self_loops)
    alpha = batch_first(alpha, x)
    if not self_loops:
        return input_edges(edge_index, graph), alpha
    pairs = graph.edge_index
    if isinstance(edge_index, EdgeIndex):
        pairs = EdgeIndex(pairs, sparse_size=graph.size)  # pyright: ignore[reportCallIssue]
    return pairs, alpha


def batch_first(alpha: Tensor, x: Tensor) -> Tensor:
    """Convert weights [e, b * h] to [b, e, h] if x has a batch dimension; otherwise return them
    unchanged.
    """
    return alpha if x.dim() == 2 else alpha.unflatten(1, (x.shape[1], -1)).transpose(0, 1)


def sparse_values(edge_index: Any, dtype: torch.dtype) -> Tensor | None:
    """Return the values of a sparse adjacency, [e], of which duplicates are summed; None for edges
    in another format.
    """
    if isinstance(edge_index, SparseTensor) or is_torch_sparse_tensor(edge_index):
        return _entries(edge_index)[1].to(dtype)
    return None


def input_edges_with_weights(edge_index: Any, graph: Graph, alpha: Tensor, x: Tensor) -> Any:
    """Return the pair of the edges in the caller's format and their attention weights, [e, h], or
    [b, e, h] if x has a batch dimension.

    For a SparseTensor, return a SparseTensor whose values are the weights, as PyG's layers do.
    """
    if isinstance(edge_index, SparseTensor):
        return _sparse_weights(edge_index, graph, alpha, self_loops=False)
    return input_edges(edge_index, graph), batch_first(alpha, x)


def input_edges(edge_index: Any, graph: Graph) -> Any:
    """Return the edges in the caller's format. A COO matrix is coalesced, and a Graph is
    converted to pairs of nodes.
    """
    return graph.edge_index if isinstance(edge_index, Graph) else _coalesced(edge_index)


def _sparse_weights(adj_t: Any, graph: Graph, alpha: Tensor, self_loops: bool) -> Any:
    """Return the adjacency in the caller's format with the weights alpha [e, ...] as values. For a
    sparse tensor of torch, return a pair of it and the weights in the order of its entries.
    """
    if is_torch_sparse_tensor(adj_t) and not _is_hybrid(adj_t) and not self_loops:
        return set_sparse_value(_coalesced(adj_t), alpha), alpha
    layout = graph.layout
    alpha = alpha[layout.perm.long()]
    shape = (graph.num_dst, graph.num_src, *alpha.shape[1:])
    if isinstance(adj_t, SparseTensor):
        source, destination = layout.col.long(), layout.destinations()
        return SparseTensor(
            row=destination, col=source, value=alpha, sparse_sizes=shape[:2], is_sorted=True
        )
    if adj_t.layout == torch.sparse_csr:
        rows, cols = layout.rowptr.long(), layout.col.long()
        return torch.sparse_csr_tensor(rows, cols, alpha, shape, check_invariants=False), alpha
    if adj_t.layout == torch.sparse_csc:
        alpha = alpha[layout.csr2csc.long()]
        cols, rows = layout.colptr.long(), layout.row.long()
        return torch.sparse_csc_tensor(cols, rows, alpha, shape, check_invariants=False), alpha
    entries = torch.stack([layout.destinations(), layout.col.long()])
    adj_t = torch.sparse_coo_tensor(
        entries, alpha, shape, is_coalesced=True, check_invariants=False
    )
    return adj_t, alpha


def edge_sum(query_score: Tensor, key_score: Tensor, graph: Graph) -> Tensor:
    """Return the sum a_i + b_j for every edge j -> i, [e, h], given a [n, h] and b [m, h]."""
    graph, (key_score,) = graph.fetch_source_rows(key_score)
    return to_edges(query_score, graph) + sources_to_edges(key_score, graph)
