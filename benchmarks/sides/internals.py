"""Private names of gattn that the benchmarks use; each function imports them when it is called."""

from __future__ import annotations

from types import ModuleType

from torch import Tensor

import gattn


def sorted_layout(edge_index: Tensor, num_nodes: int) -> dict[str, Tensor]:
    """Compute the six index tensors of a graph's layout by torch's stable sorts, by name."""
    from gattn.layout.layout import build

    layout = build(edge_index[0], edge_index[1], num_nodes, num_nodes)
    return dict(zip(layout._fields[:6], layout))


def as_any_graph(graph: gattn.Graph) -> gattn.Graph:
    """Return the graph without statistics, so that the general kernels process it."""
    from gattn.layout import stats

    stats.set_stat(graph.layout.stats, stats.BAND_AREA, 0)
    return graph


def tiles() -> ModuleType:
    """Return the module that chooses the tile of a kernel, with ``override``."""
    from gattn.kernels.triton import tiles

    return tiles
