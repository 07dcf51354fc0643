"""Functions for graphs with node types or edge types."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.dense import HeteroLinear

from gattn.graph import Graph
from gattn.graph.cache import cached, cached_last
from gattn.nn.common.checks import check_tensor
from gattn.nn.common.features import is_untouched
from gattn.nn.common.segments import lay_out
from gattn.ops.edges import sum_sources

MIN_SPARSITY = 2
"""All pairs of nodes and edge types are projected unless they are more than this number of times
as many as the pairs that occur in the edges.
"""
FEW_PAIRS = 4
"""With at most this number of ends of edges for each type, sources and destinations have the same
pairs, because a product by the matrix of a type then takes less time than reading the matrix.
"""
MAX_PADDED = 64
"""The pairs of a type are padded to a power of two up to this number, so that types with similar
numbers of pairs are projected by one batched product. A type with more pairs has its own product.
"""


class Pairs(NamedTuple):
    """Rows of the pairs (node, type) that occur in the edges. The rows of a type are adjacent, and
    may end with rows of no pair.
    """

    nodes: Graph
    """Graph with one edge from each node to the row of each of its pairs."""
    types: Tensor
    """Types in the order of their rows: [t] int64."""
    groups: list[list[int]]
    """Number of types, and number of rows of each of them, for each group of adjacent types."""


class TypedGraph(NamedTuple):
    """Graphs whose nodes are pairs (i, t) of a node i and an edge type t.

    The pairs are those that occur in the edges. If most pairs occur, all pairs are used instead,
    numbered i * types + t, because one large matrix product then projects the nodes faster than one
    product for each type. In this case ``sources`` or ``destinations`` is None. Sources and
    destinations are nodes of one graph.
    """

    sources: Pairs | None
    destinations: Pairs | None
    from_pairs: Graph
    """Graph with edges from pairs (source, edge type) to destinations."""
    between_pairs: Graph
    """Graph with edges from pairs (source, edge type) to pairs (destination, edge type)."""


def typed_graph(graph: Graph, edge_type: Tensor, types: int) -> TypedGraph:
    """Return graphs of the pairs of nodes and edge types, given the type of each edge, [e], and the
    number of types. Edges are in the caller's order.

    The result for the last tensor of edge types is cached with the graph. Raises TypeError for edge
    types that are no integers, and ValueError for a wrong shape or a type out of range.
    """
    check_tensor("edge_type", edge_type)

    def build() -> TypedGraph:
        """Return the graphs of the pairs that occur or, if most occur or the code is compiled, of
        all pairs. Raises TypeError or ValueError for invalid types.
        """
        type_index = checked_types("edge_type", edge_type, graph.num_edges, types)
        source, destination = graph.edge_index
        # Compiled code cannot compare sizes of graphs, and uses all pairs.
        if not torch.compiler.is_compiling() and 2 * graph.num_edges <= FEW_PAIRS * types:
            ends = torch.cat([source, destination])
            sources, places, m = _number_pairs(ends, type_index.repeat(2), graph.num_src, types)
            source_pair, destination_pair = places.chunk(2)
            destinations, n = sources, m
        else:
            sources, source_pair, m = _number_pairs(source, type_index, graph.num_src, types)
            destinations, destination_pair, n = _number_pairs(
                destination, type_index, graph.num_dst, types
            )
        return TypedGraph(
            sources,
            destinations,
            lay_out(source_pair, destination, (m, graph.num_dst)),
            lay_out(source_pair, destination_pair, (m, n)),
        )

    return cached_last(graph, "typed", (edge_type, types), build)


def _number_pairs(
    node: Tensor, type_index: Tensor, nodes: int, types: int
) -> tuple[Pairs | None, Tensor, int]:
    """Return the pairs of the nodes [e] and the types [e] of edges, the row of each edge's pair,
    [e] int64, and the number of rows.

    Compiled code cannot read the number of pairs that occur, so it uses all pairs, with a row
    node * types + type for each. The pairs are then None, which also holds if most pairs occur.
    """
    if not (torch.compiler.is_compiling() or node.is_meta):
        unique, number = torch.unique(type_index * nodes + node, return_inverse=True)
        if MIN_SPARSITY * unique.shape[0] < nodes * types:
            pairs, rows, total = _lay_out_pairs(unique, nodes)
            return pairs, rows[number], total
    return None, node * types + type_index, nodes * types


def _lay_out_pairs(unique: Tensor, nodes: int) -> tuple[Pairs, Tensor, int]:
    """Return the rows of the pairs, the row of each pair, [p] int64, and the number of rows.

    The p pairs are the numbers type * nodes + node in ascending order. A type with at most
    MAX_PADDED pairs gets a power of two of rows; the rows after its pairs belong to no pair, so
    that the number of rows may exceed p. Types are ordered by their number of rows.
    """
    present, type_of_pair, counts = torch.unique_consecutive(
        unique // nodes, return_inverse=True, return_counts=True
    )
    padded = 2 ** counts.double().log2().ceil().long()
    sizes, order = torch.where(counts > MAX_PADDED, counts, padded).sort(stable=True)
    first = torch.empty_like(sizes)
    first[order] = sizes.cumsum(0) - sizes
    first -= counts.cumsum(0) - counts
    rows = torch.arange(unique.shape[0], device=unique.device) + first[type_of_pair]
    total = int(sizes.sum())
    groups = torch.stack(sizes.unique_consecutive(return_counts=True)[::-1], dim=1)
    of_nodes = lay_out(unique % nodes, rows, (nodes, total))
    return Pairs(of_nodes, present[order], groups.tolist()), rows, total


def project_pairs(x: Tensor, weight: Tensor, pairs: Pairs | None) -> Tensor:
    """Project the rows x_i of all pairs (i, t) by the block-diagonal matrices W_t.

    Args:
        x: features of the nodes, [n, b * d].
        weight: b blocks of each W_t, [types, b, d, c].
        pairs: the pairs; None for all pairs (i, t), ordered by i.

    Returns:
        One row for each pair and each row of no pair, [p, b * c].

    Raises:
        TypeError: for features that are not floating.
    """
    blocks = weight.shape[1]
    if pairs is not None and not pairs.groups:
        x, pairs = x[:0], None
    if pairs is None:
        product = torch.einsum("nbd,tbdc->ntbc", x.unflatten(1, (blocks, -1)), weight)
        return product.flatten(2).flatten(0, 1)
    rows = sum_sources(x, pairs.nodes).unflatten(1, (blocks, -1)).transpose(0, 1)
    counts, sizes = zip(*pairs.groups)
    rows = rows.split([count * size for count, size in pairs.groups], dim=1)
    matrices = weight.index_select(0, pairs.types).transpose(0, 1).split(counts, dim=1)
    products = [
        (group.unflatten(1, (-1, size)) @ matrix).flatten(1, 2)
        for group, matrix, size in zip(rows, matrices, sizes)
    ]
    return torch.cat(products, dim=1).transpose(0, 1).flatten(1)


def join_graphs(graphs: list[Graph], offsets: list[int], num_dst: int, like: Tensor) -> Graph:
    """Combine several graphs into one graph that contains the edges of all, one graph after the
    other.

    The sources of the graphs are numbered consecutively. Destination i of graph k becomes
    ``offsets[k] + i``, so that graphs may share destinations. The result, on the device of
    ``like``, is cached with the first graph.
    """

    def build() -> Graph:
        """Return one graph in which the sources of each graph follow those of the graph before it,
        and the destinations are shifted by its offset.
        """
        empty = torch.empty(2, 0, dtype=torch.int64, device=like.device)
        pairs, num_src = [empty], 0
        for graph, offset in zip(graphs, offsets):
            source, destination = graph.edge_index
            pairs.append(torch.stack([source + num_src, destination + offset]))
            num_src += graph.num_src
        source, destination = torch.cat(pairs, dim=1)
        return lay_out(source, destination, (num_src, num_dst))

    if not graphs:
        return build()
    return cached_last(graphs[0], "joined", (*graphs[1:], *offsets, num_dst), build)


def map_by_type(linear: HeteroLinear, x: Tensor, row_type: Tensor) -> Tensor:
    """Apply to each row x [n, d] the linear layer of the row's type, ``row_type`` [n] int64: [n,
    c].

    Under torch.compile the number of rows of each type cannot be read back, so all linear layers
    are applied to every row, and the result for the row's type is selected.
    """
    is_readable = type(linear) is HeteroLinear and is_untouched(linear)
    if not (torch.compiler.is_compiling() and is_readable):
        return linear(x, row_type)
    mapped = torch.einsum("nd,tdc->ntc", x, linear.weight)
    mapped = mapped if linear.bias is None else mapped + linear.bias
    return mapped[torch.arange(x.shape[0], device=x.device), row_type]


def checked_types(name: str, type_index: Any, rows: int, types: int | None) -> Tensor:
    """Check the type of each row; return the types as [rows] int64.

    Types must be in [0, types), or just non-negative if ``types`` is None. The range is read from
    the device once per tensor and cached; compiled code asserts it.

    Raises:
        TypeError: for anything but a tensor of integers.
        ValueError: for a wrong shape, or a type out of range.
    """
    check_tensor(name, type_index)
    if type_index.is_floating_point() or type_index.is_complex():
        raise TypeError(f"{name} must contain integers; got {type_index.dtype}")
    if type_index.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},); got {tuple(type_index.shape)}")
    if torch.compiler.is_compiling():
        is_valid = type_index >= 0
        is_valid = is_valid if types is None else is_valid & (type_index < types)
        torch._assert_async(is_valid.all(), f"{name} must be {_range(types)}")
    elif rows > 0 and not type_index.is_meta:
        low, high = cached(
            type_index, "range", lambda: tuple(int(bound) for bound in type_index.aminmax())
        )
        if low < 0 or (types is not None and high >= types):
            raise ValueError(f"{name} must be {_range(types)}; got {low} to {high}")
    return type_index.long()


def _range(types: int | None) -> str:
    return ">= 0" if types is None else f"in [0, {types})"
