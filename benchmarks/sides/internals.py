"""Private names of gattn that the benchmarks use; each function imports them when it is called."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

import gattn


def sorted_layout(edge_index: Tensor, num_nodes: int) -> dict[str, Tensor]:
    """Compute the six index tensors of a graph's layout by torch's stable sorts, by name."""
    from gattn.layout.layout import build

    layout = build(edge_index[0], edge_index[1], num_nodes, num_nodes)
    return dict(zip(layout._fields[:6], layout))


def row_gather(graph: gattn.Graph, table: Tensor) -> Callable[[], Tensor] | None:
    """Return the C++ function that gathers and sums the source rows of all edges, if it is
    available.
    """
    from gattn.kernels import cpu

    # This kernel serves benchmarks only, so a build may omit it.
    kernel = getattr(cpu, "row_gather", None)
    if kernel is None or not cpu.serves(table.device):
        return None
    return lambda: torch.tensor(kernel(table, list(graph.layout)))


def as_any_graph(graph: gattn.Graph) -> gattn.Graph:
    """Return the graph without statistics, so that the general kernels process it."""
    from gattn.layout import stats

    stats.set_stat(graph.layout.stats, stats.BAND_AREA, 0)
    return graph


def tiles() -> ModuleType:
    """Return the module that chooses the tile of a kernel: ``override``, ``tuned``, ``seen``."""
    from gattn.kernels.triton import tiles

    return tiles
