"""A user's function of few edges, as of a batch of molecules: all at once, as autograd records it.

Backward calls nothing again: what is kept is bounded by their number, and time is what counts.
Edges are in the layout's order: what is computed of them has the same bits in any of the caller's.
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
    """Gather and scatter indices between the caller's edge order and the layout's."""

    edge: Tensor
    """[e]: caller's index of each edge in the layout's order."""
    position: Tensor
    """[e]: position in the layout's order of each of the caller's edges."""
    by_source: Layout
    """From the edges to their sources."""
    by_destination: Layout

    @classmethod
    def of(cls, graph: Graph) -> EdgeIndexing:
        """Those of a graph, with which they are kept."""
        return cached(graph, "all edges", lambda: cls._of(graph.layout))

    @classmethod
    def _of(cls, layout: Layout) -> EdgeIndexing:
        edge = layout.perm
        number = torch.arange(edge.shape[0] + 1, dtype=edge.dtype, device=edge.device)
        each, destination = number[:-1], layout.destinations().to(edge.dtype)
        position = torch.empty_like(edge).index_copy(0, edge.long(), each)
        far = without_stats(layout.colptr, layout.csr2csc, each, number, layout.col, each)
        near = without_stats(layout.rowptr, each, each, number, destination, each)
        return cls(edge, position, far, near)

    def read(self, values: Tensor, place: str) -> Tensor:
        """The row of each edge, [e, ...], of what belongs to nodes or edges."""
        if place == "position":  # the caller's, to whom no function may write
            return values.clone(memory_format=torch.contiguous_format)
        if place == "edge":
            return cast(Tensor, _Permuted.apply(values, self.edge, self.position))
        layout = self.by_source if place == "source" else self.by_destination
        return cast(Tensor, _Rows.apply(values, layout))

    def put(self, output: Tensor, place: str) -> Tensor:
        """[e, ...] where it belongs: "edge", "position", or its sums at each "destination"."""
        if place == "position":  # no tensor of the function's own, which others may write to
            return output.clone(memory_format=torch.contiguous_format)
        if place == "edge":
            return cast(Tensor, _Permuted.apply(output, self.position, self.edge))
        return sum_laid_out(output.to(acc_dtype(output.dtype)), self.by_destination).to(
            output.dtype
        )


class _Rows(torch.autograd.Function):
    """The rows of the nodes that a layout leads to from the edges, along which gradients come."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        return table.index_select(0, layout.row)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return sum_laid_out(grad.to(acc_dtype(grad.dtype)), ctx.layout).to(grad.dtype), None


class _Permuted(torch.autograd.Function):
    """Rows in another order, in which each stands once."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.index, ctx.inverse = index, inverse
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Permuted.apply(grad, ctx.inverse, ctx.index), None, None


def captures_other_tensors(
    output: Tensor, inputs: Sequence[Tensor], begins: Sequence[Node | None]
) -> bool:
    """Return True if the output of a function has gradients for tensors other than its inputs.

    ``begins`` are the ``grad_fn`` of the inputs before the call, since the function may write to
    them. A tensor that was computed from the inputs before the call counts as an input.
    """
    input_ids = {id(tensor) for tensor in inputs}
    seen = {node for node in begins if node is not None}
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
