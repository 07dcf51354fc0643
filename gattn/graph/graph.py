"""Graph: the frozen layout of a set of edges, laid out once for each tensor of them."""

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
from gattn.layout import ranges, stats
from gattn.layout.blocks import Blocks
from gattn.layout.layout import Layout, num_rows


class Graph:
    r"""Edges from m source nodes to n destination nodes, laid out once for every operator.

    The edges are kept sorted by (destination, source) and by (source, destination), so that an
    operator reads the neighbourhood of any node as one contiguous run. Per-edge tensors stay in
    the caller's order on the outside. A graph is written by ``torch.save`` and read by
    ``torch.load``, ``weights_only`` or not, once gattn is imported: it is laid out and checked
    again as it is read.

    Args:
        edges: any of: an integer tensor of shape (2, e) holding (source, destination) pairs; a
            ``torch_geometric.EdgeIndex``; a ``torch.sparse`` COO, CSR or CSC matrix or a
            ``torch_sparse.SparseTensor`` of shape (n, m), read as PyG reads ``adj_t`` (rows are
            destinations, columns are sources); a SciPy sparse matrix of shape (m, n), read as
            networkx and PyG's ``from_scipy_sparse_matrix`` read it (the entry [j, i] is the edge
            j -> i: rows are sources, columns are destinations); a networkx graph (see
            :func:`gattn.graphs.from_networkx`); another ``Graph``. Numbers stored with the edges
            are not part of a graph: :func:`gattn.graphs.edge_features` reads them.
        size: ``num_nodes``, or ``(num_src, num_dst)`` for a bipartite graph. Without it the sizes
            are taken from a matrix, an ``EdgeIndex`` or a networkx graph; from plain pairs, one
            more than the largest index, which has to be read from the device: pass it if known.

    Raises:
        TypeError: for edges of another type or indices that are not int32 or int64.
        ValueError: for a wrong shape, or an index that is negative or not below its size.

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
    """Where the layout lives."""
    kept: Tensor | None
    """In a graph made by :meth:`with_self_loops`: the positions, in the parent's edge order, of
    the edges that stand before the loops, or None where every edge was kept."""
    blocks: Blocks | None
    """The sizes that a complete or causal graph was made of (see :mod:`gattn.graphs`)."""
    derived: dict[Any, Any]
    """What was built from this graph and is kept with it."""
    edge_offset: int = 0
    """The canonical number of the first edge: not 0 in a part of a larger graph, the dropout of
    which the part then draws."""

    def __init__(self, edges: Any, size: int | tuple[int, int] | None = None) -> None:
        if isinstance(edges, Graph):
            _check_same_size(edges, size)
            self._fill(**edges.__dict__)
            return
        if isinstance(edges, (list, tuple)) and any(isinstance(edge, Graph) for edge in edges):
            raise TypeError(
                f"edges must be one Graph; got a list of {len(edges)}, such as PyG's DataLoader "
                "makes of a Graph in Data: join it, gattn.graphs.disjoint_union(batch.graph)"
            )
        source, destination, num_src, num_dst = read_edges(edges, size)
        layout = lay_out(source, destination, num_src, num_dst)
        self._set(layout, None)

    @classmethod
    def from_layout(cls, layout: Layout, kept: Tensor | None = None, edge_offset: int = 0) -> Graph:
        """The graph of edges that are laid out already, and within range."""
        graph = cls.__new__(cls)
        graph._set(layout, kept)
        if edge_offset:
            graph._fill(edge_offset=edge_offset)
        return graph

    @classmethod
    @outside_transforms
    def from_ranges(cls, first: Tensor, last: Tensor, num_src: int, num_edges: int) -> Graph:
        """The edges j -> i for first[i] <= j < last[i].

        Args:
            first: [n] int64, ascending.
            last: [n] int64, ascending, nowhere below ``first``.
            num_src: m; ``last`` ends at or below it.
            num_edges: the sum of ``last - first``, so that it is not read from a device.

        Raises:
            ValueError: bounds that do not ascend or do not fit; on another device than a CPU it
                is the device that fails.
        """
        _check_runs(first, last, num_src, num_edges)
        return cls.from_layout(ranges.build(first, last, num_src, num_edges))

    @classmethod
    def from_blocks(cls, blocks: Blocks, device: torch.device) -> Graph:
        """A complete or causal graph, whose edges are laid out when first asked for."""
        graph = cls.__new__(cls)
        graph._fill(
            num_src=sum(blocks.key_sizes),
            num_dst=sum(blocks.query_sizes),
            num_edges=blocks.num_edges,
            device=device,
            kept=None,
            blocks=blocks,
            derived={},
        )
        return graph

    def _set(self, layout: Layout, kept: Tensor | None) -> None:
        self._fill(
            _layout=_with_own_facts(layout),
            num_src=num_rows(layout.colptr),
            num_dst=num_rows(layout.rowptr),
            num_edges=layout.col.numel(),
            device=layout.rowptr.device,
            kept=kept,
            blocks=None,
            derived={},
        )

    def _fill(self, **fields: Any) -> None:
        """Set what a frozen object is made of, one by one: torch.compile reads no dict.update."""
        for name, value in fields.items():
            self.__dict__[name] = value

    @property
    def layout(self) -> Layout:
        """The edges sorted by (destination, source) and by (source, destination)."""
        layout = self.__dict__.get("_layout")
        return self._lay_out() if layout is None else layout

    @outside_transforms
    def _lay_out(self) -> Layout:
        """Lay out the edges of blocks, once."""
        assert self.blocks is not None  # any other graph is made with its layout
        layout = self.blocks.layout(self.device)
        if torch.compiler.is_compiling() or not torch_internals.dispatch_mode_active():
            self.__dict__["_layout"] = layout
        return layout

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Graph is frozen; tried to set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Graph is frozen; tried to delete {name!r}")

    def __repr__(self) -> str:
        return (
            f"Graph(num_src={self.num_src}, num_dst={self.num_dst}, "
            f"num_edges={self.num_edges}, device={str(self.device)!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.blocks is not None:
            return _restore_blocks, (tuple(self.blocks), torch.empty(0, device=self.device))
        pairs = self.edge_index.to(self.layout.col.dtype)
        return _restore_edges, (pairs, self.size, self.kept)

    def __copy__(self) -> Graph:
        return self

    @property
    def size(self) -> tuple[int, int]:
        """(num_src, num_dst), as PyG's ``size`` argument."""
        return self.num_src, self.num_dst

    @property
    def edge_index(self) -> Tensor:
        """The (source, destination) pairs in the caller's order: int64 of shape (2, e)."""
        layout = self.layout
        pairs = torch.stack([layout.col.long(), layout.destinations()])
        return torch.empty_like(pairs).index_copy_(1, layout.perm.long(), pairs)

    def fetch_source_rows(self, *rows: Tensor) -> tuple[Graph, tuple[Tensor, ...]]:
        """What operators read: rows of all sources, and the graph from these to the destinations.

        Here they are the given rows and this graph. A graph whose sources lie in several processes
        (:mod:`gattn.distributed`) fetches the rows of those that lie elsewhere.
        """
        return self, rows

    def in_degree(self) -> Tensor:
        """Number of edges into each destination: [n] int64."""
        return self.layout.rowptr.diff().long()

    def out_degree(self) -> Tensor:
        """Number of edges out of each source: [m] int64."""
        return self.layout.colptr.diff().long()

    @outside_transforms
    def transpose(self) -> Graph:
        """The graph with every edge reversed; per-edge tensors keep their order."""
        turned = self.layout.transpose()._replace(graph_ptr=self.layout.graph_ptr)
        return Graph.from_layout(stats.as_told_by(self.layout, turned, transposed=True))

    def incidence(self) -> Graph:
        """The graph from the edges themselves, in the caller's order, to their destinations.

        It is kept with this graph. Sums over it are the same on every backend and in every run.
        """
        return cache.cached(self, "incidence", lambda: Graph.from_layout(self.layout.incidence()))

    def to(self, device: Any, non_blocking: bool = False) -> Graph:
        """The same graph on another device (itself where it is there already)."""
        device = torch.empty(0, device=device).device  # "cuda" with its number
        if device == self.device:
            return self
        if self.blocks is not None:
            return Graph.from_blocks(self.blocks, device)
        return self._map(lambda t: t.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Graph:
        """The same graph in page-locked memory."""
        return self._map(lambda t: t.pin_memory())

    @outside_transforms
    def _map(self, function: Callable[[Tensor], Tensor]) -> Graph:
        layout = self.layout
        for transposed in (False, True):  # what a CPU measures at any time, a device does not
            stats.max_degree(layout, transposed)
        moved = [*map(function, layout[:6]), layout.facts, function(layout.graph_ptr)]
        return Graph.from_layout(Layout(*moved), None if self.kept is None else function(self.kept))

    def by_destination(self) -> Graph:
        """The same edges, numbered in the order of their (destination, source).

        Operators read and write what belongs to edges in the caller's order, which is slow on a
        large graph where that order is random. On this graph it is their own: per-edge tensors are
        ``t[order]`` with ``order = graph.layout.perm.long()``. It is kept with the graph.

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
        layout = self.layout
        order = torch.arange(self.num_edges, dtype=layout.perm.dtype, device=self.device)
        layout = layout._replace(perm=order)
        graph = Graph.from_layout(stats.as_told_by(self.layout, layout), None, self.edge_offset)
        graph.derived["is by destination"] = True
        return graph

    def __or__(self, other: Graph) -> Graph:
        """Union: these edges, in their order, then those of the other graph that are not here."""
        return self.union(other)[0] if isinstance(other, Graph) else NotImplemented

    def union(self, other: Graph) -> tuple[Graph, Tensor]:
        """The graph ``self | other``, and which edges of the two it holds.

        Args:
            other: a graph between the same nodes.

        Returns:
            The union of e edges: these, in their order, then those of the other graph that are not
            here; and [e] int64, their positions among the edges of this graph followed by those of
            the other. Features of the two go along by ``torch.cat([mine, others])[positions]``.

        Raises:
            TypeError: for other than a graph.
            ValueError: for a graph of another size.

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
        sought = pairs[1] * self.num_src + pairs[0]
        held = layout.destinations() * self.num_src + layout.col  # ascending
        place = torch.searchsorted(held, sought).clamp(max=max(self.num_edges - 1, 0))
        new = held[place] != sought if self.num_edges else torch.ones_like(sought, dtype=torch.bool)
        source, destination = torch.cat([self.edge_index, pairs[:, new]], dim=1)
        positions = torch.arange(self.num_edges, device=self.device)
        positions = torch.cat([positions, self.num_edges + new.nonzero().squeeze(1)])
        return Graph.from_layout(sort(source, destination, *self.size)), positions

    @outside_transforms
    def with_self_loops(self, first: int = 0) -> Graph:
        """Drop every self-loop, then append one per node after the edges that remain.

        Edges of the result: the caller's edges without loops, in the caller's order (see
        :attr:`kept`), then (i, i) for i < min(num_src, num_dst).

        Args:
            first: the source that is the same node as the first destination; loops are then
                (first + i, i), for i < min(num_src - first, num_dst).
        """
        source, destination = self.edge_index
        kept = None
        loops = source == destination + first
        if torch.compiler.is_compiling() or bool(loops.any()):
            kept = (~loops).nonzero().squeeze(1)
            source, destination = source[kept], destination[kept]
        nodes = torch.arange(min(self.num_src - first, self.num_dst), device=self.device)
        source, destination = torch.cat([source, nodes + first]), torch.cat([destination, nodes])
        layout = sort(source, destination, *self.size)
        layout = layout._replace(graph_ptr=self.layout.graph_ptr)
        return Graph.from_layout(stats.as_told_by(self.layout, layout, more=1), kept)


@outside_transforms
def _with_own_facts(layout: Layout) -> Layout:
    """The layout with facts that are filled in as they are measured."""
    return layout if stats.are_own(layout.facts) else stats.with_facts(layout)


def _restore_edges(pairs: Tensor, size: tuple[int, int], kept: Tensor | None) -> Graph:
    """The graph that was pickled: its edges are checked like any others."""
    graph = Graph(pairs, size)
    if kept is not None and not (isinstance(kept, Tensor) and kept.dtype == torch.int64):
        raise TypeError(f"a pickled Graph must hold int64 positions of edges; got {kept!r}")
    if kept is not None:
        count = graph.num_edges - min(graph.size)  # without the loops
        if kept.shape != (count,) or (kept < 0).any() or (kept.diff() <= 0).any():
            raise ValueError(
                f"a pickled Graph must hold {count} ascending positions, of the edges that stand "
                f"before its loops; got shape {(*kept.shape,)}"
            )
    graph.__dict__["kept"] = kept
    return graph


def _check_runs(first: Tensor, last: Tensor, num_src: int, num_edges: int) -> None:
    if first.shape != last.shape or first.dim() != 1:
        raise ValueError(
            f"first and last must be two tensors [n]; got {(*first.shape,)} and {(*last.shape,)}"
        )
    steps = torch.stack([first.diff(), last.diff()])
    fit = (steps >= 0).all() & (first <= last).all() & ((last - first).sum() == num_edges)
    if first.numel():
        fit &= (first[0] >= 0) & (last[-1] <= num_src)
    if not first.is_cpu:
        torch._assert_async(fit, _RUNS)
    elif not fit:
        raise ValueError(_RUNS)


_RUNS = "first and last must ascend within [0, num_src], first <= last, and count num_edges edges"


def _restore_blocks(blocks: tuple[Any, ...], where: Tensor) -> Graph:
    """The complete or causal graph that was pickled, on the device of a tensor."""
    blocks = Blocks(*blocks)
    queries, keys = blocks.query_sizes, blocks.key_sizes
    fit = queries == keys if blocks.causal else len(queries) == len(keys)
    if not fit or not all(isinstance(s, int) and s >= 0 for s in (*queries, *keys)):
        raise ValueError(f"a pickled Graph must hold the sizes of blocks; got {blocks}")
    return Graph.from_blocks(blocks, where.device)


torch.serialization.add_safe_globals([_restore_edges, _restore_blocks])


def as_graph(
    edges: Any, size: int | tuple[int, int] | None = None, *, self_loops: bool = False
) -> Graph:
    """The :class:`Graph` of these edges, laid out once per tensor and remembered.

    A tensor, dense or sparse, is remembered weakly, by identity and content: modifying it in any
    way or dropping it forgets its graphs (see :mod:`gattn.graph.cache`).

    With ``self_loops`` the result is :meth:`Graph.with_self_loops` of them, remembered too.
    """
    if isinstance(edges, Graph):
        _check_same_size(edges, size)
        if self_loops and "loops" not in edges.derived:  # compiled code finds what others kept
            edges.derived["loops"] = edges.with_self_loops()
        return edges.derived["loops"] if self_loops else edges

    def build() -> Graph:
        return as_graph(edges, size).with_self_loops() if self_loops else Graph(edges, size)

    if not isinstance(edges, Tensor):
        return build()
    return cache.cached(edges, (as_size(size), self_loops), build)


def check_graph(name: str, graph: Any) -> None:
    """Raise unless given a Graph."""
    if not isinstance(graph, Graph):
        raise TypeError(f"{name} must be a gattn.Graph; got {type(graph).__name__}")


def _check_same_size(graph: Graph, size: int | tuple[int, int] | None) -> None:
    if size is not None and as_size(size) != graph.size:
        raise ValueError(f"size must be {graph.size}, that of the given {graph!r}; got {size}")
