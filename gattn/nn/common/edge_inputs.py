"""Edges as the layers take and return them: any kind in, self-loops, weights out."""

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
from gattn.ops.edges import sum_incoming, to_edges
from gattn.ops.projection import stack

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
    """The graph between the given nodes, and the caller's edge features, [e, d] or [e].

    A sparse adjacency with vectors for values brings its own edge features. With ``self_loops``
    the graph has those of :meth:`Graph.with_self_loops`; the features are those of before. For a
    networkx graph there is one row of features for each of ``edges()``, which an undirected edge
    has in both directions.
    """
    check_not_traced()
    if isinstance(edge_index, SparseTensor) or _is_hybrid(edge_index):
        edge_index, edge_attr = _split(edge_index, edge_attr)
    supplied, edge_index = edge_index, _coalesced(edge_index)
    if not isinstance(edge_index, (Tensor, Graph)):
        edge_index = as_graph(edge_index)
    size = x_src.shape[0], _count_destinations(edge_index, x_src, x_dst, size)
    check_rows(edge_index, *size)
    graph = as_graph(edge_index, size, self_loops=self_loops)
    if edge_attr is not None:
        edge_attr = edge_rows(supplied if is_networkx(supplied) else edge_index, edge_attr)
        if edge_attr.dtype in _INTEGERS:  # as PyG's layers come to take them
            edge_attr = edge_attr.to(x_src.dtype)
    return graph, edge_attr


def edge_rows(
    edge_index: Any, rows: Tensor, name: str = "edge_attr", width: int | None = None
) -> Tensor:
    """A row [d] or number for each edge that is laid out, from those of the caller's edges.

    Args:
        edge_index: the edges, as the caller gave them.
        rows: [e], [e, 1] or [e, d].
        name: of the rows, for errors.
        width: d; None for any.

    Returns:
        The rows; those of a networkx graph for both directions of an edge.

    Raises:
        TypeError: for anything but a tensor.
        ValueError: for another shape.
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
    """Raise unless edges that know their nodes join as many as the input of a name has rows.

    Args:
        edge_index: the edges.
        sources: rows of the input at their beginning.
        destinations: rows of the input at their end.
        name: of the input, for errors.
        batch: the length of a dimension before the rows, 0 for none.
    """
    sizes = _own_size(edge_index)
    if sizes is not None and None not in sizes and sizes != (sources, destinations):
        actual = f"{sources} and {destinations}" if sources != destinations else str(sources)
        hint, sequences = "", batch or (sizes[0] or 0) // max(sources, 1)
        multiple = sizes == (sequences * sources, sequences * destinations)
        if batch or (sequences > 1 and multiple):
            hint = (
                f". If {name} is a padded batch of {sequences} sequences: its rows must lie one "
                "after the other, as gattn.graphs.pack(x, lengths) makes them"
            )
        raise ValueError(
            f"{name} must have as many rows as the edges have nodes, {sizes[0]} sources and "
            f"{sizes[1]} destinations; got {actual} rows for {_name(edge_index)}{hint}"
        )


def _name(edge_index: Any) -> str:
    if isinstance(edge_index, Graph):
        return repr(edge_index)
    return f"a {type(edge_index).__name__} of that size"


def _own_size(edge_index: Any) -> tuple[int | None, int | None] | None:
    """(num_src, num_dst) as the edges themselves tell; None for plain pairs."""
    if isinstance(edge_index, Graph):
        return edge_index.size
    if is_torch_sparse_tensor(edge_index):
        return edge_index.shape[1], edge_index.shape[0]
    return edge_index.sparse_size() if isinstance(edge_index, EdgeIndex) else None


def _coalesced(edge_index: Any) -> Any:
    """The same edges, a COO matrix without duplicates: once per matrix, as its graph is."""
    if not isinstance(edge_index, Tensor) or edge_index.layout != torch.sparse_coo:
        return edge_index
    if edge_index.is_coalesced() or torch.compiler.is_compiling():
        return edge_index.coalesce()
    return cached(edge_index, "coalesced", lambda: edge_index.detach().coalesce())


def _is_hybrid(edge_index: Any) -> bool:
    """Whether this is a sparse matrix with a vector in each entry."""
    return is_torch_sparse_tensor(edge_index) and edge_index.dim() > 2


def _split(adj_t: Any, edge_attr: Tensor | None) -> tuple[Tensor, Tensor | None]:
    rows_cols, values = _entries(adj_t)
    if edge_attr is None and values.dim() > 1:
        edge_attr = values
    return rows_cols.flip(0), edge_attr


def _entries(adj_t: Any) -> tuple[Tensor, Tensor]:
    """Rows and columns, and values, with duplicates summed in a copy.

    PyG's function marks the very matrix that it is given as free of duplicates.
    """
    is_coo = isinstance(adj_t, Tensor) and adj_t.layout == torch.sparse_coo
    return to_edge_index(adj_t.coalesce() if is_coo else adj_t)


def _count_edges(edge_index: Any) -> int:
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
    """Rows of x_dst; without it, what size or the edges themselves say, else as many as sources."""
    stated = (None, None) if size is None else tuple(size)
    if stated[0] not in (None, x_src.shape[0]):
        raise ValueError(f"size[0] must be {x_src.shape[0]}, the rows of x; got {stated[0]}")
    if x_dst is not None:
        if stated[1] not in (None, x_dst.shape[0]):
            raise ValueError(f"size[1] must be {x_dst.shape[0]}, the rows of x; got {stated[1]}")
        return x_dst.shape[0]
    sizes = _own_size(edge_index) or (None, None)
    return next(n for n in (stated[1], sizes[1], x_src.shape[0]) if n is not None)


def with_loop_features(
    edge_attr: Tensor, graph: Graph, fill_value: float | Tensor | str | None
) -> Tensor:
    """Edge features of a graph with self-loops, [e, d] or [e]: the kept edges', then the loops'.

    ``fill_value`` is a number or vector, or how to reduce the features of a node's incoming
    edges (other than loops): ``"mean"``, ``"add"``, ``"min"``, ``"max"`` or ``"mul"``; a node
    without any gets zeros, with ``"mul"`` ones. These are formed once for all the layers of a
    model where :func:`keeps_loop_features`.
    """
    if not isinstance(fill_value, str) or not keeps_loop_features(edge_attr, graph):
        return _with_loops(edge_attr, graph, fill_value)
    name = f"loop features, {fill_value}"

    def build() -> tuple[Tensor, int]:
        output = _with_loops(edge_attr, graph, fill_value)
        return output, output._version

    output, version = cached_last(graph, name, (edge_attr,), build)
    if output._version == version:
        return output
    graph.derived.pop(name, None)  # a layer's own code wrote to them
    return cached_last(graph, name, (edge_attr,), build)[0]


def keeps_loop_features(edge_attr: Tensor, graph: Graph) -> bool:
    """Whether the features of loops are kept with the graph until those of edges change.

    So it is of few edges, as of a batch of molecules, where a layer's time goes into its calls; on
    a CPU, where a checksum of real memory tells a change; without a gradient of theirs, which each
    layer takes; of a whole graph, since processes that share one must do alike.
    """
    if torch.compiler.is_compiling() or type(edge_attr) is not Tensor or type(graph) is not Graph:
        return False
    if torch_internals.is_wrapped(edge_attr):
        return False
    return edge_attr.is_cpu and not edge_attr.requires_grad and is_small(graph.layout)


def _with_loops(edge_attr: Tensor, graph: Graph, fill_value: float | Tensor | str | None) -> Tensor:
    rows = as_columns(edge_attr)
    if isinstance(fill_value, str):
        retained = rows if graph.kept_edges is None else rows[graph.kept_edges]
        filled = torch.cat([retained, _reduced(retained, graph, fill_value)])
    else:
        filled = stack(rows, graph.kept_edges, _constant(rows, min(graph.size), fill_value))
    return filled if edge_attr.dim() == 2 else filled.squeeze(1)


def _constant(like: Tensor, loops: int, fill_value: float | Tensor | None) -> Tensor:
    if isinstance(fill_value, Tensor):
        return fill_value.to(like).reshape(1, -1).expand(loops, like.shape[1])
    return like.new_full((loops, like.shape[1]), 1.0 if fill_value is None else fill_value)


def _reduced(retained: Tensor, graph: Graph, fill_value: str) -> Tensor:
    loops = min(graph.size)
    if not is_linear(fill_value):
        destination = graph.incidence().edge_index[1, : retained.shape[0]]
        return scatter(retained, destination, 0, graph.num_dst, fill_value)[:loops]
    total = sum_incoming(torch.nn.functional.pad(retained, (0, 0, 0, loops)), graph)[:loops]
    if fill_value == "mean":
        degree = graph.in_degree()[:loops, None] - 1
        total = total / degree.clamp(min=1).to(total.dtype)
    return total


def is_linear(fill_value: float | Tensor | str | None) -> bool:
    """Whether the features of a loop are a linear function of the others'."""
    return isinstance(fill_value, str) and fill_value in ("add", "sum", "mean")


def with_weights(
    edge_index: Any, graph: Graph, alpha: Tensor, x: Tensor, *, self_loops: bool = False
) -> Any:
    """The edges and their weights as PyG returns them, from weights in the caller's edge order.

    For pairs, ``(edge_index, alpha)`` in the caller's order, with the self-loops that the layer
    added; for a sparse adjacency, ``(adj_t, alpha)`` in the order of its entries. With a batch
    dimension in x the weights are [b, e, h].
    """
    if isinstance(edge_index, SparseTensor) or is_torch_sparse_tensor(edge_index):
        return _sparse_weights(edge_index, graph, alpha, self_loops)
    alpha = batch_first(alpha, x)
    if not self_loops:
        return given_edges(edge_index, graph), alpha
    pairs = graph.edge_index
    if isinstance(edge_index, EdgeIndex):
        pairs = EdgeIndex(pairs, sparse_size=graph.size)  # pyright: ignore[reportCallIssue]
    return pairs, alpha


def batch_first(alpha: Tensor, x: Tensor) -> Tensor:
    """Weights [e, b * h] as [b, e, h] where x has a batch dimension."""
    return alpha if x.dim() == 2 else alpha.unflatten(1, (x.shape[1], -1)).transpose(0, 1)


def sparse_values(edge_index: Any, dtype: torch.dtype) -> Tensor | None:
    """The numbers in a sparse adjacency, [e]; None for edges of another kind."""
    if isinstance(edge_index, SparseTensor) or is_torch_sparse_tensor(edge_index):
        return _entries(edge_index)[1].to(dtype)
    return None


def given_weights(edge_index: Any, graph: Graph, alpha: Tensor, x: Tensor) -> Any:
    """The caller's edges, as given, and their weights; a SparseTensor holds its own, as PyG's."""
    if isinstance(edge_index, SparseTensor):
        return _sparse_weights(edge_index, graph, alpha, self_loops=False)
    return given_edges(edge_index, graph), batch_first(alpha, x)


def given_edges(edge_index: Any, graph: Graph) -> Any:
    """The edges as the caller gave them, duplicates summed; the pairs of a :class:`Graph`."""
    return graph.edge_index if isinstance(edge_index, Graph) else _coalesced(edge_index)


def _sparse_weights(adj_t: Any, graph: Graph, alpha: Tensor, self_loops: bool) -> Any:
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
    """a_i + b_j for every edge, [e, h], from a [n, h] and b [m, h]."""
    graph, (key_score,) = graph.fetch_source_rows(key_score)
    back = cached(graph, "back", graph.transpose)
    return to_edges(query_score, graph) + to_edges(key_score, back)
