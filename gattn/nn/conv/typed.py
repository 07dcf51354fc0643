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


class TypedGraph(NamedTuple):
    """Two graphs whose nodes are pairs (i, t) of a node i and an edge type t. A pair has the
    number i * types + t.
    """

    from_pairs: Graph
    """Graph with edges from pairs (source, edge type) to destinations."""
    between_pairs: Graph
    """Graph with edges from pairs (source, edge type) to pairs (destination, edge type)."""


def typed_graph(graph: Graph, edge_type: Tensor, types: int) -> TypedGraph:
    """Return graphs that contain one copy of each node for every edge type. Edges are in the
    caller's order.

    The result for the last tensor of edge types is cached with the graph.
    """
    check_tensor("edge_type", edge_type)

    def build() -> TypedGraph:
        type_index = checked_types("edge_type", edge_type, graph.num_edges, types)
        source, destination = graph.edge_index
        pairs, m, n = source * types + type_index, graph.num_src * types, graph.num_dst * types
        return TypedGraph(
            lay_out(pairs, destination, (m, graph.num_dst)),
            lay_out(pairs, destination * types + type_index, (m, n)),
        )

    return cached_last(graph, "typed", (edge_type, types), build)


def join_graphs(graphs: list[Graph], offsets: list[int], num_dst: int, like: Tensor) -> Graph:
    """Combine several graphs into one graph that contains the edges of all, one graph after the
    other.

    The sources of the graphs are numbered consecutively. Destination i of graph k becomes
    ``offsets[k] + i``, so that graphs may share destinations. The result is cached with the first
    graph.
    """

    def build() -> Graph:
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
    """Apply to each row the linear layer of the row's type: [n, c].

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
    the device once per tensor; compiled code asserts it.

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
