"""The class Graph: an immutable set of edges that is sorted for all operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.graph import cache
from gattn.graph.cache import outside_transforms
from gattn.graph.edge_input import as_size, read_edges
from gattn.graph.sorting import lay_out, sort
from gattn.layout import onnx, ranges, stats
from gattn.layout.blocks import Blocks
from gattn.layout.layout import INT32_END, Layout, num_rows


class Graph:
    r"""Edges from m source nodes to n destination nodes. They are sorted once, and all operators
    use this order.

    The edges are stored sorted by (destination, source) and by (source, destination), so that an
    operator reads the neighbourhood of a node as one contiguous range. Per-edge tensors stay in
    the caller's order. ``torch.save`` and ``torch.load``, with and without ``weights_only``, write
    and read a graph once gattn is imported; reading checks and sorts the edges again.

    Args:
        edges: one of: an integer tensor of shape (2, e) with (source, destination) pairs; a
            ``torch_geometric.EdgeIndex``; a ``torch.sparse`` COO, CSR or CSC matrix or a
            ``torch_sparse.SparseTensor`` of shape (n, m), read as PyG reads ``adj_t`` (rows are
            destinations, columns are sources); a SciPy sparse matrix of shape (m, n), read as
            networkx and PyG's ``from_scipy_sparse_matrix`` read it (the entry [j, i] is the edge
            j -> i: rows are sources, columns are destinations); a networkx graph, whose nodes are
            numbered in iteration order, and whose undirected edges give two adjacent edges, one in
            each direction (a self-loop gives one); another ``Graph``. Values stored with the edges
            are not part of a graph: :func:`gattn.graphs.edge_features` reads them.
        size: ``num_nodes``, or ``(num_src, num_dst)`` for a bipartite graph. None takes the size
            of a matrix, an ``EdgeIndex`` or a networkx graph; for pairs it takes one more than the
            largest index, which must be read from the device, so pass the size if you know it.

    Raises:
        TypeError: edges have another type, or indices are not int32 or int64.
        ValueError: edges have a wrong shape, or an index is negative or not below its size.
        RuntimeError: the graph is created under torch.jit.trace.

    Example:
        >>> import torch
        >>> from gattn import Graph
        >>> Graph(torch.tensor([[0, 1, 2], [1, 2, 2]]), 3)
        Graph(num_src=3, num_dst=3, num_edges=3, device='cpu')
    """

    num_src: int
    num_dst: int
    num_edges: int
    device: torch.device
    """Device that stores the graph."""
    kept_edges: Tensor | None
    """Indices in the original graph, int64, of the edges that :meth:`with_self_loops` kept. None
    if it removed no edge, and for all other graphs.
    """
    blocks: Blocks | None
    """Block sizes of a complete or causal graph (see :mod:`gattn.graphs`); None for other graphs.
    """
    derived: dict[Any, Any]
    """Cache of objects that are built from this graph."""
    edge_offset: int = 0
    """Global number of the first edge. It is 0 unless the graph is a part of a larger graph;
    dropout then draws the same mask for both.
    """

    def __init__(self, edges: Any, size: int | tuple[int, int] | None = None) -> None:
        if isinstance(edges, Graph):
            _check_same_size(edges, size)
            self._fill(**edges.__dict__)
            return
        if isinstance(edges, (list, tuple)) and any(isinstance(edge, Graph) for edge in edges):
            raise TypeError(
                f"edges must be one Graph; got a list of {len(edges)}, as PyG's DataLoader "
                "makes of graphs in Data: join them with gattn.graphs.disjoint_union(batch.graph)"
            )
        source, destination, num_src, num_dst = read_edges(edges, size)
        layout = lay_out(source, destination, num_src, num_dst)
        self._set(layout, None)

    @classmethod
    def from_layout(
        cls, layout: Layout, kept_edges: Tensor | None = None, edge_offset: int = 0
    ) -> Graph:
        """Create a graph from a layout without checking its indices. The attributes ``kept_edges``
        and ``edge_offset`` are set to the arguments.
        """
        graph = cls.__new__(cls)
        graph._set(layout, kept_edges)
        if edge_offset:
            graph._fill(edge_offset=edge_offset)
        return graph

    @classmethod
    @outside_transforms
    def from_ranges(cls, first: Tensor, last: Tensor, num_src: int, num_edges: int) -> Graph:
        """Create a graph in which each node i has edges from the consecutive sources first[i] to
        last[i] - 1.

        Args:
            first: [n] int64, ascending.
            last: [n] int64, ascending, ``last >= first``.
            num_src: number of sources, m; an upper bound of ``last``.
            num_edges: sum of ``last - first``, which is passed so that it is not read from a
                device.

        Raises:
            ValueError: bounds do not ascend or do not match the sizes. On a device other than the
                CPU, an asynchronous assertion fails instead.
        """
        _check_ranges(first, last, num_src, num_edges)
        return cls.from_layout(ranges.build(first, last, num_src, num_edges))

    @classmethod
    def from_blocks(cls, blocks: Blocks, device: torch.device) -> Graph:
        """Create a complete or causal graph. Its layout is computed when it is first used."""
        graph = cls.__new__(cls)
        graph._fill(
            num_src=sum(blocks.key_sizes),
            num_dst=sum(blocks.query_sizes),
            num_edges=blocks.num_edges,
            device=device,
            kept_edges=None,
            blocks=blocks,
            derived={},
        )
        return graph

    def _set(self, layout: Layout, kept_edges: Tensor | None) -> None:
        """Set all attributes of a new graph from its layout; the indices are not checked."""
        self._fill(
            _layout=_with_valid_stats(layout),
            num_src=num_rows(layout.colptr),
            num_dst=num_rows(layout.rowptr),
            num_edges=layout.col.numel(),
            device=layout.rowptr.device,
            kept_edges=kept_edges,
            blocks=None,
            derived={},
        )

    def _fill(self, **fields: Any) -> None:
        """Set fields of the immutable object. Each field is set separately, because
        torch.compile cannot trace dict.update.
        """
        for name, value in fields.items():
            self.__dict__[name] = value

    @property
    def layout(self) -> Layout:
        """Edges in two orders: sorted by (destination, source), and by (source, destination)."""
        layout = self.__dict__.get("_layout")
        return self._lay_out() if layout is None else layout

    @outside_transforms
    def _lay_out(self) -> Layout:
        """Compute and store the layout of a complete or causal graph."""
        # A graph without a layout always has blocks.
        assert self.blocks is not None
        layout = self.blocks.layout(self.device)
        if torch.compiler.is_compiling() or not torch_internals.dispatch_mode_active():
            self.__dict__["_layout"] = layout
        return layout

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Graph is immutable; tried to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Graph is immutable; tried to delete {name!r}")

    def __repr__(self) -> str:
        """Return the numbers of nodes and edges and the device as text."""
        return (
            f"Graph(num_src={self.num_src}, num_dst={self.num_dst}, "
            f"num_edges={self.num_edges}, device={str(self.device)!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a pickle stores: the sizes of the blocks of a complete or causal graph,
        otherwise the edges.
        """
        if self.blocks is not None:
            return _restore_blocks, (tuple(self.blocks), torch.empty(0, device=self.device))
        pairs = self.edge_index.to(self.layout.col.dtype)
        return _restore_edges, (pairs, self.size, self.kept_edges, self.edge_offset)

    def __copy__(self) -> Graph:
        return self

    @property
    def size(self) -> tuple[int, int]:
        """Pair (num_src, num_dst), like PyG's ``size`` argument."""
        return self.num_src, self.num_dst

    @property
    def edge_index(self) -> Tensor:
        """Source and destination of each edge, in the caller's order: [2, e] int64."""
        layout = self.layout
        pairs = torch.stack([layout.col.long(), layout.destinations()])
        return torch.empty_like(pairs).index_copy_(1, layout.perm.long(), pairs)

    def fetch_source_rows(self, *rows: Tensor) -> tuple[Graph, tuple[Tensor, ...]]:
        """Return this graph and ``rows`` unchanged.

        In a :class:`gattn.distributed.DistributedGraph`, the method of this name fetches the rows
        of other processes.
        """
        return self, rows

    def in_degree(self) -> Tensor:
        """Return the number of edges into each destination: [n] int64."""
        return self.layout.rowptr.diff().long()

    def out_degree(self) -> Tensor:
        """Return the number of edges that leave each source: [m] int64."""
        return self.layout.colptr.diff().long()

    @outside_transforms
    def transpose(self) -> Graph:
        """Return the graph with every edge reversed. Tensors with one row per edge remain valid."""
        transposed = self.layout.transpose()
        return Graph.from_layout(stats.inherit_stats(self.layout, transposed, transposed=True))

    def incidence(self) -> Graph:
        """Return the bipartite graph that connects each edge, in the caller's order, to the edge's
        destination.

        The result is cached. Sums over its edges have the same bits on every backend and in every
        run.
        """
        return cache.cached(self, "incidence", lambda: Graph.from_layout(self.layout.incidence()))

    def to(self, device: Any, non_blocking: bool = False) -> Graph:
        """Return the graph on a device; return this object if it is already on the device. A copy
        has an empty cache (:attr:`derived`).
        """
        # The device "cuda" is replaced by the current device, for example "cuda:0".
        device = torch.empty(0, device=device).device
        if device == self.device:
            return self
        if self.blocks is not None:
            return Graph.from_blocks(self.blocks, device)
        return self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Graph:
        """Return a copy of the graph in page-locked memory, which is faster to copy to a GPU.
        Raises RuntimeError if torch has no such memory, as without a GPU.
        """
        return self._map(lambda t: t.pin_memory())

    @outside_transforms
    def _map(self, function: Callable[[Tensor], Tensor]) -> Graph:
        """Return the graph whose tensors are the results of a function of each tensor, such as a
        copy to another device. On the CPU, the maximum degrees are measured first and stored in
        both graphs. The cache (:attr:`derived`) is not copied.
        """
        layout = self.layout
        for transposed in (False, True):
            # Maximum degrees are computed before the copy, because the CPU can read them quickly
            # here.
            stats.max_degree(layout, transposed)
        moved = [*map(function, layout[:6]), layout.stats]
        kept_edges = None if self.kept_edges is None else function(self.kept_edges)
        return Graph.from_layout(Layout(*moved), kept_edges, self.edge_offset)

    def by_destination(self) -> Graph:
        """Return the graph with its edges ordered by (destination, source).

        Operators read and write per-edge tensors in the caller's order, which is slow on a large
        graph if that order is random. In the returned graph it is sequential. Reorder per-edge
        tensors with ``t[order]``, ``order = graph.layout.perm.long()``. The result is cached.

        Example:
            >>> import torch
            >>> from gattn import Graph
            >>> graph = Graph(torch.tensor([[2, 0, 1], [1, 1, 0]]), 3)
            >>> graph.by_destination().edge_index
            tensor([[1, 0, 2],
                    [0, 1, 1]])
        """
        if "is by destination" in self.derived:
            return self
        return cache.cached(self, "by destination", self._by_destination)

    def _by_destination(self) -> Graph:
        """Return the graph in which the caller's order of the edges is the order by destination."""
        layout = self.layout
        order = torch.arange(self.num_edges, dtype=layout.perm.dtype, device=self.device)
        layout = layout._replace(perm=order)
        graph = Graph.from_layout(stats.inherit_stats(self.layout, layout), None, self.edge_offset)
        graph.derived["is by destination"] = True
        return graph

    def __or__(self, other: Graph) -> Graph:
        """Return the union of two graphs: the edges of this graph, and those edges of the other
        graph that it lacks.
        """
        return self.union(other)[0] if isinstance(other, Graph) else NotImplemented

    def union(self, other: Graph) -> tuple[Graph, Tensor]:
        """Return the union of two graphs (``self | other``), and the origin of each edge in it.

        Args:
            other: a graph between the same nodes.

        Returns:
            The union with e edges: the edges of this graph in their order, then the edges of the
            other graph that this one does not have; and [e] int64, their positions in the
            concatenation of the edges of both graphs. Edge features of the union are
            ``torch.cat([features, other_features])[positions]``.

        Raises:
            TypeError: other is not a graph.
            ValueError: other has another size.

        Example:
            >>> import torch
            >>> from gattn import Graph
            >>> path = Graph(torch.tensor([[0, 1], [1, 2]]), 3)
            >>> other = Graph(torch.tensor([[1, 2], [2, 2]]), 3)
            >>> union, positions = path.union(other)
            >>> positions
            tensor([0, 1, 3])
        """
        check_graph("other", other)
        _check_same_size(self, other.size)
        pairs, layout = other.edge_index, self.layout
        other_keys = pairs[1] * self.num_src + pairs[0]
        # The keys are in ascending order, as the binary search requires.
        keys = layout.destinations() * self.num_src + layout.col
        index = torch.searchsorted(keys, other_keys).clamp(max=max(self.num_edges - 1, 0))
        if self.num_edges:
            is_new = keys[index] != other_keys
        else:
            is_new = torch.ones_like(other_keys, dtype=torch.bool)
        source, destination = torch.cat([self.edge_index, pairs[:, is_new]], dim=1)
        positions = torch.arange(self.num_edges, device=self.device)
        positions = torch.cat([positions, self.num_edges + is_new.nonzero().squeeze(1)])
        return Graph.from_layout(sort(source, destination, *self.size)), positions

    @outside_transforms
    def with_self_loops(self, first: int = 0) -> Graph:
        """Return the graph without its self-loops and with one new self-loop at each node.

        Edges of the result: the caller's edges without loops, in the caller's order (see
        :attr:`kept_edges`), then (i, i) for i < min(num_src, num_dst). This graph is not changed.

        Args:
            first: index of the source that is the same node as destination 0; self-loops are then
                (first + i, i) for i < min(num_src - first, num_dst).
        """
        if torch.compiler.is_compiling() and not onnx.exporting():
            return _build_traced(self.edge_index, *self.size, first)
        source, destination = self.edge_index
        kept_edges = None
        loops = source == destination + first
        if onnx.exporting() or bool(loops.any()):
            kept_edges = (~loops).nonzero().squeeze(1)
            source, destination = source[kept_edges], destination[kept_edges]
        nodes = torch.arange(min(self.num_src - first, self.num_dst), device=self.device)
        source, destination = torch.cat([source, nodes + first]), torch.cat([destination, nodes])
        layout = sort(source, destination, *self.size)
        layout = stats.inherit_stats(self.layout, layout, extra_edges=1)
        return Graph.from_layout(layout, kept_edges)


@outside_transforms
def _with_valid_stats(layout: Layout) -> Layout:
    """Return the layout with statistics that are ordinary tensors, so that they can be written
    in place.
    """
    return layout if stats.are_valid(layout.stats) else stats.with_stats(layout)


def _restore_edges(
    pairs: Tensor, size: tuple[int, int], kept_edges: Tensor | None, edge_offset: int
) -> Graph:
    """Restore a graph from a pickle of its edges, (2, e), its size, and its attributes
    ``kept_edges`` and ``edge_offset``. The edges are checked like those of a new graph. Raises the
    errors of :class:`Graph`, and TypeError or ValueError for other attributes.
    """
    if not isinstance(edge_offset, int) or edge_offset < 0:
        raise ValueError(f"a pickled Graph must contain an offset from 0; got {edge_offset!r}")
    graph = Graph(pairs, size)
    if kept_edges is not None:
        if not isinstance(kept_edges, Tensor) or kept_edges.dtype != torch.int64:
            raise TypeError(
                f"a pickled Graph must contain int64 edge positions; got {kept_edges!r}"
            )
        # Number of edges that are not self-loops.
        count = graph.num_edges - min(graph.size)
        ascending = (kept_edges >= 0).all() and (kept_edges.diff() > 0).all()
        if kept_edges.shape != (count,) or not ascending:
            raise ValueError(
                f"a pickled Graph must contain {count} ascending positions of the edges "
                f"before its self-loops; got shape {(*kept_edges.shape,)}"
            )
    graph._fill(kept_edges=kept_edges, edge_offset=edge_offset)
    return graph


def _check_ranges(first: Tensor, last: Tensor, num_src: int, num_edges: int) -> None:
    """Raise ValueError unless the ranges [first, last) of sources are ascending, within
    [0, num_src], and contain ``num_edges`` edges. Ranges on another device are compared there, so
    that an error appears later (``torch._assert_async``).
    """
    if first.shape != last.shape or first.dim() != 1:
        raise ValueError(
            f"first and last must be two tensors [n]; got {(*first.shape,)} and {(*last.shape,)}"
        )
    steps = torch.stack([first.diff(), last.diff()])
    is_valid = (steps >= 0).all() & (first <= last).all() & ((last - first).sum() == num_edges)
    if first.numel():
        is_valid &= (first[0] >= 0) & (last[-1] <= num_src)
    if not first.is_cpu:
        torch._assert_async(is_valid, _RANGES_ERROR)
    elif not is_valid:
        raise ValueError(_RANGES_ERROR)


_RANGES_ERROR = (
    "first and last must ascend within [0, num_src], first <= last, and count num_edges edges"
)


def _restore_blocks(blocks: tuple[Any, ...], like: Tensor) -> Graph:
    """Restore a complete or causal graph from a pickle, on the device of ``like``. Raises
    ValueError if the sizes do not describe such a graph, and TypeError unless ``blocks`` has the
    three fields of :class:`Blocks`.
    """
    blocks = Blocks(*blocks)
    queries, keys = blocks.query_sizes, blocks.key_sizes
    is_matching = queries == keys if blocks.causal else len(queries) == len(keys)
    if not is_matching or not all(isinstance(s, int) and s >= 0 for s in (*queries, *keys)):
        raise ValueError(f"a pickled Graph must contain the sizes of blocks; got {blocks}")
    return Graph.from_blocks(blocks, like.device)


torch.serialization.add_safe_globals([_restore_edges, _restore_blocks])


def as_graph(
    edges: Any, size: int | tuple[int, int] | None = None, *, self_loops: bool = False
) -> Graph:
    """Return a :class:`Graph` of the given edges. If the edges are a tensor, the graph is cached.

    The cache refers to a tensor weakly, by identity and content: modifying or deleting the tensor
    removes its graphs (see :mod:`gattn.graph.cache`).

    With ``self_loops`` the result is :meth:`Graph.with_self_loops`, which is cached, too. Raises
    the errors of :class:`Graph`, and ValueError if the size differs from that of a graph.
    """
    if isinstance(edges, Graph):
        _check_same_size(edges, size)
        if self_loops and "loops" not in edges.derived:
            # Code that torch.compile traced reads this cache entry.
            edges.derived["loops"] = edges.with_self_loops()
        return edges.derived["loops"] if self_loops else edges

    def build() -> Graph:
        return as_graph(edges, size).with_self_loops() if self_loops else Graph(edges, size)

    if not isinstance(edges, Tensor):
        return build()
    is_dense = type(edges) is Tensor and edges.layout == torch.strided
    if is_dense and torch.compiler.is_compiling() and not onnx.exporting():
        _, _, num_src, num_dst = read_edges(edges, size)
        return _build_traced(edges, num_src, num_dst, 0 if self_loops else None)
    return cache.cached(edges, (as_size(size), self_loops), build)


def _build_traced(edges: Tensor, num_src: int, num_dst: int, first: int | None) -> Graph:
    """Return the graph of edges [2, e], which an operator of the compiled code builds. It has the
    self-loops of :meth:`Graph.with_self_loops`, and those of the edges if ``first`` is None.
    """
    *layout, kept_edges = _build_layout(edges, num_src, num_dst, first)
    return Graph.from_layout(Layout(*layout), None if first is None else kept_edges)


@torch.library.custom_op(
    "gattn::build_layout",
    mutates_args=(),
    schema="(Tensor edges, SymInt num_src, SymInt num_dst, SymInt? first) -> Tensor[]",
)
def _build_layout(edges: Tensor, num_src: int, num_dst: int, first: int | None) -> list[Tensor]:
    """Return the seven tensors of a :class:`Layout`, with empty statistics, and the kept edges of a
    graph, in a custom operator. Raises ValueError if an index is out of range, or if there are so
    many nodes or edges that the indices need int64.
    """
    # On a CPU, the graph is cached, so that compiled code sorts edges once. A CUDA graph replays
    # the operator for other edges, so that it must not read the cache.
    size = num_src, num_dst
    if edges.is_cpu and not first:
        graph = as_graph(edges, size, self_loops=first is not None)
    else:
        graph = Graph(edges, size)
        graph = graph if first is None else graph.with_self_loops(first)
    if graph.layout.col.dtype != torch.int32:
        raise ValueError(
            f"compiled code must get fewer than {INT32_END} nodes and edges; got "
            f"{edges.shape[1]} edges, size ({num_src}, {num_dst}): create a Graph outside it"
        )
    kept_edges = graph.kept_edges
    if kept_edges is None:
        kept_edges = torch.arange(edges.shape[1], device=edges.device)
    # Compiled code may write to the results of an operator, so they are copies. It has no
    # statistics, whose tensor is empty.
    tensors = *graph.layout[:6], edges.new_empty(0, dtype=torch.int64), kept_edges
    return [tensor.clone() for tensor in tensors]


@_build_layout.register_fake
def _(edges: Tensor, num_src: int, num_dst: int, first: int | None) -> list[Tensor]:
    """Return tensors with the shapes of the layout and the kept edges, for torch.compile."""
    # Without self-loops, all edges are kept.
    rows = edges.shape[1] if first is None else torch_internals.dynamic_size()
    count = rows if first is None else rows + min(num_src - first, num_dst)
    sizes = num_dst + 1, count, count, num_src + 1, count, count
    indices = (edges.new_empty(size, dtype=torch.int32) for size in sizes)
    return [*indices, *(edges.new_empty(size, dtype=torch.int64) for size in (0, rows))]


def check_graph(name: str, graph: Any) -> None:
    """Raise TypeError unless the value is a :class:`Graph`."""
    if not isinstance(graph, Graph):
        raise TypeError(f"{name} must be a gattn.Graph; got {type(graph).__name__}")


def _check_same_size(graph: Graph, size: int | tuple[int, int] | None) -> None:
    if size is not None and as_size(size) != graph.size:
        raise ValueError(f"size must be {graph.size}, the size of {graph!r}; got {size}")
