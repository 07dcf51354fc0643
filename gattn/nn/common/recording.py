"""Recording of the attention weights of a model during its forward pass."""

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
    """Attention weights of one layer in one forward pass.

    Attributes:
        module: name of the layer in ``model.named_modules()``; "" for the model itself.
        edge_index: [2, e], the sources and destinations of the edges.
        weights: [e, h] before dropout. For k learned queries, the shape is [e, k * h], one query
            after the other; for b sets of features, it is [e, b * h], one set after the other.
        size: the numbers of sources and of destinations, (m, n).
        edge_type: type of the edges, for a layer with several edge types; else None.

    The edges are in the caller's order. If the layer adds self-loops, the caller's self-loops are
    removed and the added self-loops come last. The edges of a readout connect each row to its set,
    and the edges of attention within sets are the edges of :func:`gattn.graphs.complete`.

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
        """Return the module, the shape of the weights and the size of the graph as text."""
        kind = "" if self.edge_type is None else f", edge_type={self.edge_type}"
        shape = tuple(self.weights.shape)
        return f"AttentionRecord({self.module!r}, weights={shape}, size={self.size}{kind})"


@dataclass(eq=False)
class _Recorder:
    """Records of one ``record_attention`` context, and the names of the layers that are now
    running.
    """

    records: list[AttentionRecord] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)

    @property
    def is_active(self) -> bool:
        return len(self.running) > 0 and self.thread == threading.get_ident()

    def watch(self, module: Module, name: str) -> Callable[[], None]:
        """Add hooks to a module that store its name while it runs; return a function that removes
        them. The name is also removed if the module raises an exception.
        """
        begin = module.register_forward_pre_hook(lambda *_: self.running.append(name))
        end = module.register_forward_hook(lambda *_: self._pop(), always_call=True)

        def remove_hooks() -> None:
            begin.remove()
            end.remove()

        return remove_hooks

    def _pop(self) -> None:
        self.running.pop()


_RECORDERS: list[_Recorder] = []


@contextmanager
def record_attention(model: Module) -> Iterator[list[AttentionRecord]]:
    """Record the attention weights of all gattn layers of a model inside a ``with`` block.

    Recording takes a second pass over the edges, and memory for [e, h] weights per layer. Outputs,
    gradients and random numbers do not change, and gradients flow through the recorded weights.
    In the context, layers with ``checkpoint=True`` run without a checkpoint.

    Args:
        model: a layer, block, readout or model that is or contains layers of :mod:`gattn.nn`,
            including converted layers. Layers inside ``torch.compile`` are not recorded.

    Yields:
        A list, to which each attention that the model computes appends a record.

    Raises:
        TypeError: for anything but a module.
        RuntimeError: if nothing was recorded when the context ends, or if a layer runs edge by
            edge in a way that does not provide its weights.

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
            f"model must be a torch module; got {type(model).__name__} (an estimator has methods "
            "for its weights: explain for molecules, attention for nodes)"
        )
    recorder = _Recorder()
    removers = [recorder.watch(m, name) for name, m in model.named_modules() if _is_ours(m)]
    _RECORDERS.append(recorder)
    try:
        yield recorder.records
    finally:
        _RECORDERS.remove(recorder)
        for remove_hooks in removers:
            remove_hooks()
    if not recorder.records:
        raise RuntimeError(
            f"no attention of this {type(model).__name__} was recorded: "
            + (
                "it was not called, or runs compiled"
                if removers
                else "it contains no layer of gattn.nn (see gattn.convert)"
            )
        )


def is_recording() -> bool:
    """Return True if the attention weights that this thread computes must be recorded."""
    if not _RECORDERS or torch.compiler.is_compiling():
        return False
    return any(recorder.is_active for recorder in _RECORDERS)


def is_recording_anywhere() -> bool:
    """Return True if any thread is recording attention weights.

    In this case layers do not use activation checkpoints, because a forward pass that is repeated
    in backward would be recorded twice.
    """
    return len(_RECORDERS) > 0


def record(weights: Tensor, graph: Graph, edge_type: EdgeType | None = None) -> None:
    """Append the attention weights of a graph's edges to all active recordings.

    Args:
        weights: [e, h] before dropout, in the caller's edge order.
        graph: the edges.
        edge_type: type of the edges, or None.
    """
    for recorder in _RECORDERS:
        if recorder.is_active:
            name = recorder.running[-1]
            entry = AttentionRecord(name, graph.edge_index, weights, graph.size, edge_type)
            recorder.records.append(entry)


def _is_ours(module: Module) -> bool:
    """Return True if the class of a module, or one of its base classes, is defined in gattn.nn."""
    return any(kind.__module__.startswith("gattn.nn.") for kind in type(module).__mro__)
