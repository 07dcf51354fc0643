"""The weights of every attention that a model computes, recorded while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import Module

from gattn.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.typing import EdgeType

__all__ = [
    "AttentionRecord",
    "is_recording",
    "is_recording_anywhere",
    "record",
    "record_attention",
]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionRecord:
    """The weights of one attention in a forward.

    Attributes:
        module: the layer, by its name in ``model.named_modules()``; "" for the model itself.
        edge_index: [2, e], the sources and destinations of the edges that were attended along.
        weights: [e, h] before dropout. For k learned queries [e, k * h], query by query; for b
            sets of features [e, b * h], set by set.
        size: the numbers of sources and of destinations, (m, n).
        edge_type: of a layer on several types of edges, which these are; else None.

    The edges stand in the caller's order, and behind them the self-loops that the layer adds, in
    the place of the caller's. Those of a readout lead from each row to its set; those of attention
    within sets are of :func:`gattn.graphs.complete`.

    Example:
        >>> import torch
        >>> from gattn.nn import LearnedQueryReadout, record_attention
        >>> readout = LearnedQueryReadout(16, 8, num_queries=3, heads=2)
        >>> with record_attention(readout) as recorded:
        ...     out = readout(torch.randn(4, 16), torch.tensor([0, 0, 0, 1]))
        >>> recorded[0]
        AttentionRecord('', weights=(4, 6), size=(4, 2))
        >>> recorded[0].edge_index
        tensor([[0, 1, 2, 3],
                [0, 0, 0, 1]])
    """

    module: str
    edge_index: Tensor
    weights: Tensor
    size: tuple[int, int]
    edge_type: EdgeType | None = None

    def __repr__(self) -> str:
        kind = "" if self.edge_type is None else f", edge_type={self.edge_type}"
        shape = tuple(self.weights.shape)
        return f"AttentionRecord({self.module!r}, weights={shape}, size={self.size}{kind})"


@dataclass(eq=False)
class _Recorder:
    """What one ``record_attention`` has seen, and the layers that are running now."""

    records: list[AttentionRecord] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)

    @property
    def is_active(self) -> bool:
        return len(self.running) > 0 and self.thread == threading.get_ident()

    def watch(self, module: Module, name: str) -> Callable[[], None]:
        """Know that the module runs while it does; gives what ends this."""
        begins = module.register_forward_pre_hook(lambda *_: self.running.append(name))
        ends = module.register_forward_hook(lambda *_: self._end(), always_call=True)

        def stop() -> None:
            begins.remove()
            ends.remove()

        return stop

    def _end(self) -> None:
        self.running.pop()


_RECORDERS: list[_Recorder] = []


@contextmanager
def record_attention(model: Module) -> Iterator[list[AttentionRecord]]:
    """Record the weights of every attention of gattn that a model computes.

    They cost a second pass over the edges, and the memory of [e, h] a layer; outputs, gradients and
    random numbers stay as they are, and gradients flow through the weights. Layers with
    ``checkpoint=True`` keep what they make meanwhile.

    Args:
        model: a layer, block, readout or model that is or holds layers of :mod:`gattn.nn`,
            converted ones too. Layers inside ``torch.compile`` are not seen.

    Yields:
        A list that grows with each attention that the model computes, in that order.

    Raises:
        TypeError: for anything but a module.
        RuntimeError: when the context ends and nothing was recorded; in a layer that runs edge by
            edge and forms no weights that can be told.

    Example:
        >>> import torch
        >>> from gattn.models import GAT
        >>> from gattn.nn import record_attention
        >>> model = GAT(16, 8, num_layers=2, heads=2)
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> with record_attention(model) as recorded:
        ...     out = model(torch.randn(3, 16), edge_index)
        >>> recorded
        [AttentionRecord('convs.0', weights=(6, 2), size=(3, 3)), \
AttentionRecord('convs.1', weights=(6, 2), size=(3, 3))]
    """
    if not isinstance(model, Module):
        raise TypeError(
            f"model must be a torch module; got {type(model).__name__} (an estimator tells its "
            "weights itself: those of molecules by explain, those of nodes by attention)"
        )
    recorder = _Recorder()
    stops = [recorder.watch(m, name) for name, m in model.named_modules() if _is_ours(m)]
    _RECORDERS.append(recorder)
    try:
        yield recorder.records
    finally:
        _RECORDERS.remove(recorder)
        for stop in stops:
            stop()
    if not recorder.records:
        raise RuntimeError(
            f"no attention was recorded of this {type(model).__name__}: "
            + (
                "it was not called, or runs compiled"
                if stops
                else "it holds no layer of gattn.nn (gattn.convert)"
            )
        )


def is_recording() -> bool:
    """Whether the weights of an attention that is computed now are asked for."""
    if not _RECORDERS or torch.compiler.is_compiling():
        return False
    return any(recorder.is_active for recorder in _RECORDERS)


def is_recording_anywhere() -> bool:
    """Whether weights of any layer are asked for: one that ran twice would tell them twice."""
    return len(_RECORDERS) > 0


def record(weights: Tensor, graph: Graph, edge_type: EdgeType | None = None) -> None:
    """Tell those who record of the weights [e, h] of a graph's edges, in the caller's order."""
    for recorder in _RECORDERS:
        if recorder.is_active:
            module = recorder.running[-1]
            result = AttentionRecord(module, graph.edge_index, weights, graph.size, edge_type)
            recorder.records.append(result)


def _is_ours(module: Module) -> bool:
    """Whether a module is a layer of gattn.nn or made from one."""
    return any(kind.__module__.startswith("gattn.nn.") for kind in type(module).__mro__)
