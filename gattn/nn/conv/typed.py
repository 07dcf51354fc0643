"""Graphs with types: several edge sets as one, and nodes taken apart by the type of their edges."""

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
    """The edges between pairs of a node and a type: pair number i * types + t."""

    from_pairs: Graph
    """Each edge from the pair of its source and its type, to its destination."""
    between_pairs: Graph
    """Each edge from the pair of its source and its type, to that of its destination."""


def typed_graph(graph: Graph, edge_type: Tensor, types: int) -> TypedGraph:
    """Take nodes apart by the type of their edges, in the caller's edge order.

    The last result is kept with the graph, for the very tensor of types.
    """
    check_tensor("edge_type", edge_type)

    def build() -> TypedGraph:
        kind = checked_types("edge_type", edge_type, graph.num_edges, types)
        source, destination = graph.edge_index
        pairs, m, n = source * types + kind, graph.num_src * types, graph.num_dst * types
        return TypedGraph(
            lay_out(pairs, destination, (m, graph.num_dst)),
            lay_out(pairs, destination * types + kind, (m, n)),
        )

    return cached_last(graph, "typed", (edge_type, types), build)


def join_graphs(graphs: list[Graph], first: list[int], num_dst: int, like: Tensor) -> Graph:
    """One graph of all edges: the sources one graph after the other, destinations from ``first``.

    The result is kept with the first graph, for the very same others.
    """

    def build() -> Graph:
        none = torch.empty(2, 0, dtype=torch.int64, device=like.device)
        pairs, num_src = [none], 0
        for graph, start in zip(graphs, first):
            source, destination = graph.edge_index
            pairs.append(torch.stack([source + num_src, destination + start]))
            num_src += graph.num_src
        source, destination = torch.cat(pairs, dim=1)
        return lay_out(source, destination, (num_src, num_dst))

    if not graphs:
        return build()
    return cached_last(graphs[0], "joined", (*graphs[1:], *first, num_dst), build)


def map_by_type(linear: HeteroLinear, x: Tensor, kind: Tensor) -> Tensor:
    """Each row by the map of its type; traced, where nothing may be read back, by those of all."""
    is_readable = type(linear) is HeteroLinear and is_untouched(linear)
    if not (torch.compiler.is_compiling() and is_readable):
        return linear(x, kind)
    mapped = torch.einsum("nd,tdc->ntc", x, linear.weight)
    mapped = mapped if linear.bias is None else mapped + linear.bias
    return mapped[torch.arange(x.shape[0], device=x.device), kind]


def checked_types(name: str, kind: Any, rows: int, types: int | None) -> Tensor:
    """The type of each row as int64 [rows], in [0, types), or not negative for types None.

    The range is read once for the very tensor of types; compiled code asserts it.

    Raises:
        TypeError: for anything but a tensor of integers.
        ValueError: for a wrong shape, or a type out of range.
    """
    check_tensor(name, kind)
    if kind.is_floating_point() or kind.is_complex():
        raise TypeError(f"{name} must hold integers; got {kind.dtype}")
    if kind.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},); got {tuple(kind.shape)}")
    if torch.compiler.is_compiling():
        inside = (kind >= 0).all() if types is None else ((kind >= 0) & (kind < types)).all()
        torch._assert_async(inside, f"{name} must be {_range(types)}")
    elif rows > 0 and not kind.is_meta:
        low, high = cached(kind, "range", lambda: tuple(int(end) for end in kind.aminmax()))
        if low < 0 or (types is not None and high >= types):
            raise ValueError(f"{name} must be {_range(types)}; got {low} to {high}")
    return kind.long()


def _range(types: int | None) -> str:
    return ">= 0" if types is None else f"in [0, {types})"
