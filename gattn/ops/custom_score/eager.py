"""Calls of a user's function on all edges at once. They are recorded by autograd and used for
graphs with few edges.

Examples are batches of molecules. Backward does not call the function again. This is faster, and
few edges need little memory. The edges are in CSR order, so that the result has the same bits for
every order of the caller's edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.graph import Node

from gattn.graph import Graph
from gattn.graph.cache import cached
from gattn.kernels.precision import acc_dtype
from gattn.layout.layout import Layout, without_stats
from gattn.ops.edges import sum_laid_out


@dataclass(frozen=True, eq=False)
class EdgeIndexing:
    """Indices that reorder edges between the caller's order and CSR order."""

    edge: Tensor
    """For each edge in CSR order, its index in the caller's order, [e]."""
    position: Tensor
    """For each edge in the caller's order, its position in CSR order, [e]."""
    by_source: Layout
    """Layout that connects the edges, in CSR order, to their source nodes."""
    by_destination: Layout
    """Layout that connects the edges, in CSR order, to their destination nodes."""

    @classmethod
    def of(cls, graph: Graph) -> EdgeIndexing:
        """Return the edge indexing of a graph, which is cached with the graph."""
        return cached(graph, "all edges", lambda: cls._of(graph.layout))

    @classmethod
    def _of(cls, layout: Layout) -> EdgeIndexing:
        """Return the indices for gathering and adding rows of a layout's edges, in the dtype of its
        indices.
        """
        edge = layout.perm
        numbers = torch.arange(edge.shape[0] + 1, dtype=edge.dtype, device=edge.device)
        csr_edge, destination = numbers[:-1], layout.destinations().to(edge.dtype)
        position = torch.empty_like(edge).index_copy(0, edge.long(), csr_edge)
        by_source = without_stats(
            layout.colptr, layout.csr2csc, csr_edge, numbers, layout.col, csr_edge
        )
        by_destination = without_stats(
            layout.rowptr, csr_edge, csr_edge, numbers, destination, csr_edge
        )
        return cls(edge, position, by_source, by_destination)

    def read(self, values: Tensor, row_kind: str) -> Tensor:
        """Gather the row of each edge in CSR order, [e, ...], from a tensor with a row for each
        node or edge.

        ``row_kind`` is "source", "destination", "edge" (the caller's order) or "position" (CSR).
        """
        if row_kind == "position":
            # The values are copied, because the user's function might modify its argument in place.
            return values.clone(memory_format=torch.contiguous_format)
        if row_kind == "edge":
            return cast(Tensor, _Permuted.apply(values, self.edge, self.position))
        layout = self.by_source if row_kind == "source" else self.by_destination
        return cast(Tensor, _Rows.apply(values, layout))

    def put(self, output: Tensor, row_kind: str) -> Tensor:
        """Reorder rows [e, ...] from CSR order to the order of ``row_kind``, or sum them for each
        destination.

        ``row_kind`` is "position" (CSR order), "edge" (the caller's order) or "destination" (sums
        for each node).
        """
        if row_kind == "position":
            # The output is copied, because the user's function might store its result.
            return output.clone(memory_format=torch.contiguous_format)
        if row_kind == "edge":
            return cast(Tensor, _Permuted.apply(output, self.position, self.edge))
        return sum_laid_out(output.to(acc_dtype(output.dtype)), self.by_destination).to(
            output.dtype
        )


class _Rows(torch.autograd.Function):
    """Autograd function that gathers node rows for the edges. Its derivative sums over the edges.

    The layout has the edges as sources and the nodes as destinations.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        return table.index_select(0, layout.row)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return sum_laid_out(grad.to(acc_dtype(grad.dtype)), ctx.layout).to(grad.dtype), None


class _Permuted(torch.autograd.Function):
    """Autograd function that permutes rows. Its derivative is the inverse permutation."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.index, ctx.inverse = index, inverse
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Permuted.apply(grad, ctx.inverse, ctx.index), None, None


def captures_other_tensors(
    output: Tensor, inputs: Sequence[Tensor], input_nodes: Sequence[Node | None]
) -> bool:
    """Return True if an output depends on tensors other than the inputs of the function.

    ``input_nodes`` are the ``grad_fn`` of the inputs before the call, since the function may write
    to them. A tensor that was computed from the inputs before the call counts as an input. There
    must be an input.
    """
    input_ids = {id(tensor) for tensor in inputs}
    seen = {node for node in input_nodes if node is not None}
    waiting: list[Node | None] = [output.grad_fn] if output.requires_grad else []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if id(getattr(node, "variable", inputs[0])) not in input_ids:
            return True
        waiting += [before for before, _ in node.next_functions]
    return False
