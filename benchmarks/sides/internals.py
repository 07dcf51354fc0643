"""Private names of gattn that the benchmarks use; each function imports them when it is called.

The rest of the benchmarks names only :mod:`gattn`, ``gattn.nn``, ``gattn.functional``,
``gattn.graphs`` and ``gattn.data``, so that their cases also run on another commit's gattn.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import gattn


def _module(name: str, earlier: str) -> Any:
    """Import a module of gattn by its name, or by the name that earlier commits use."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(error.name or "gattn"):
            raise  # The missing module is another one, which the imported module needs.
        return importlib.import_module(earlier)


def public(module_name: str, name: str, earlier: str) -> Any:
    """Return a public function of gattn by its name, or by the name that earlier commits use."""
    return _either(importlib.import_module(module_name), name, earlier)


def functional(name: str) -> Any:
    """Return a function of gattn.functional, which earlier commits may name after its score."""
    earlier = {"gat_attention": "additive_attention", "gatv2_attention": "mlp_attention"}
    return public("gattn.functional", name, earlier.get(name, name))


def keyword(function: Any, name: str, earlier: str) -> str:
    """Return the name of an argument of gattn, or the name that earlier commits use."""
    return earlier if earlier in inspect.signature(function).parameters else name


def _either(owner: Any, name: str, earlier: str) -> Any:
    return getattr(owner, name if hasattr(owner, name) else earlier)


def _layout() -> Any:
    return _module("gattn.layout.layout", "gattn.kernels.layout")


def _stats() -> Any:
    return _module("gattn.layout.stats", "gattn.kernels.facts")


def _operator() -> Any:
    return _module("gattn.ops.registration.operator", "gattn.ops.library")


def _sdpa() -> Any:
    return _module("gattn.ops.attention.sdpa", "gattn.ops.sdpa")


def sorted_layout(edge_index: Tensor, num_nodes: int) -> dict[str, Tensor]:
    """Compute the six index tensors of a graph's layout by torch's stable sorts, by name."""
    layout = _layout().build(edge_index[0], edge_index[1], num_nodes, num_nodes)
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
    stats = _stats()
    set_stat = _either(stats, "set_stat", "put")
    set_stat(_either(graph.layout, "stats", "facts"), stats.BAND_AREA, 0)
    return graph


def as_on_card(graph: gattn.Graph) -> gattn.Graph:
    """Return the graph with its largest degrees, as if it had been sorted on a GPU."""
    stats = _stats()
    for transposed in (False, True):
        stats.max_degree(graph.layout, transposed)
    return graph


def launchers() -> ModuleType:
    """Return the module with the launchers of the Triton kernels."""
    import gattn.kernels.triton

    return gattn.kernels.triton


def operators() -> dict[str, Any]:
    """Return all declared operators by name."""
    import gattn.functional  # noqa: F401  # declares the operators

    return _operator().OPERATORS


def tiles() -> ModuleType:
    """Return the module that chooses the tile of a kernel: ``override``, ``tuned``, ``seen``."""
    from gattn.kernels.triton import tiles

    return tiles


def layout_of(
    tensors: list[Tensor], *, is_runs: bool = False, graph_ptr: Tensor | None = None
) -> list[Tensor]:
    """Return the arguments of a launcher for a layout with these six index tensors.

    Args:
        tensors: the index tensors of a layout.
        is_runs: whether the sources of each destination are consecutive nodes.
        graph_ptr: node offsets of the small graphs of a batch; None if the graph is not such a
            batch.
    """
    stats = _stats()
    layout = _either(_layout(), "without_stats", "bare")(*tensors)
    if graph_ptr is not None:
        layout = layout._replace(graph_ptr=graph_ptr)
    with_stats = _either(stats, "with_stats", "with_facts")
    return list(with_stats(layout, band_area=tensors[1].numel() if is_runs else 0))


def value_sum(out: Tensor, out_acc: Tensor) -> Tensor:
    """Return the sum of the values that backward reads, from the results of forward."""
    return _operator().value_sum(out, out_acc)


@contextlib.contextmanager
def triton_on_cpu() -> Iterator[None]:
    """Run the operators on CPU tensors with the Triton launchers during the block."""
    backend = _module("gattn.ops.registration.backend", "gattn.ops.backend")

    def everywhere() -> bool:  # A plain function is faster to call than a Mock.
        return True

    with mock.patch.object(backend, "interpreted", everywhere):
        yield


def dense_plan(blocks: Any, every: dict[str, int] | None = None) -> Any:
    """Select the blocks for torch's dense attention: by the rule, or all of the given kinds."""
    sdpa = _sdpa()
    return sdpa.cut(blocks) if every is None else sdpa.cut(blocks, every, 1)


def attend_densely(*arguments: Any) -> Tensor:
    """Compute attention with a plan for dense blocks."""
    return _either(_sdpa(), "attend_blocks", "attend")(*arguments)
