"""Report on how each attention layer of a model is executed, and why some layers are slow."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data.data import BaseData

from gattn.compat import torch as torch_internals
from gattn.conversion import conversion_report
from gattn.ops.registration import path_trace
from gattn.ops.registration.operator import OPERATORS
from gattn.ops.registration.path_trace import PathEvent

FUSED = "fused"
DENSE = "dense"
NOT_CALLED = "not called"
_PACKAGES = (
    "gattn.nn.",
    "gattn.models.",
    "gattn.apps.molecules.network",
)
"""Prefixes of the names of modules that define attention layers."""
_SMALL = 1 << 16
"""Maximum size of a floating-point tensor that gets memory in the dry run."""
_FASTEST_FIRST = (DENSE, FUSED)


@dataclass(frozen=True)
class PathRecord:
    """Record of how one layer was executed in one forward pass.

    Args:
        module: name of the layer in ``model.named_modules()``; "" for the model itself.
        layer: class name of the layer.
        operator: names of the operators that the layer calls, in order; "" if it calls none.
        backend: backend of the operators: ``"cpu"``, ``"triton"``, ``"reference"`` or ``"torch"``.
        path: ``"fused"``, ``"dense"`` (torch's dense attention), ``"edge by edge"``,
            ``"reference"``, ``"custom score, ..."``, ``"layer by layer"`` (a network that has one
            kernel for all layers but does not use it), ``"PyG"`` or ``"not called"``.
        reason: why the path is slow or what it copies, and what to change; "" if it is fast.

    Example:
        >>> from gattn import PathRecord
        >>> PathRecord("conv", "GATConv", "gat_attention", "cpu", "fused", "").path
        'fused'
    """

    module: str
    layer: str
    operator: str
    backend: str
    path: str
    reason: str


@dataclass(frozen=True)
class PathReport:
    """Report on how all attention layers of a model are executed; it prints as a table.

    Args:
        records: one record for each layer, in the order of ``model.named_modules()``.

    Example:
        >>> from gattn import PathRecord, PathReport
        >>> PathReport((PathRecord("conv", "GATConv", "gat_attention", "cpu", "fused", ""),))
        module  layer    operator       backend  path   reason
        conv    GATConv  gat_attention  cpu      fused  -
    """

    records: tuple[PathRecord, ...]

    @property
    def slow(self) -> tuple[PathRecord, ...]:
        """Records of the layers that could be faster after a change; each has a reason."""
        return tuple(record for record in self.records if record.reason)

    def __str__(self) -> str:
        """Return the records as a table of text: a line with the names of the columns, and one line
        for each layer, in which "-" is an empty cell. Without records, return a sentence.
        """
        if not self.records:
            return "no attention layer of gattn or PyG in this model"
        head = ("module", "layer", "operator", "backend", "path", "reason")
        rows: list[tuple[str, ...]] = [head]
        for record in self.records:
            cells = (getattr(record, name) for name in head)
            rows.append(tuple(cell or "-" for cell in cells))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


def explain_path(model: Module, *inputs: Any, **kwargs: Any) -> PathReport:
    """Report how each attention layer of a model is executed for some inputs, and why some are
    slow.

    The forward pass runs on tensors without memory: floating-point numbers are not computed, and no
    tensor of size [e, c] is allocated. Integer and boolean tensors, such as ``edge_index`` and
    ``batch``, are read, and edges are sorted as in an ordinary forward. The model, its buffers and
    the random state stay as they are.

    Args:
        model: any module, in the mode (training or not) in which it is to run.
        *inputs: positional arguments of ``model``.
        **kwargs: keyword arguments of ``model``.

    Returns:
        A :class:`PathReport`, which prints as a table; without records if the model has no
        attention layer.

    Raises:
        TypeError: if ``model`` is not a ``torch.nn.Module``.
        ValueError: if the model has lazy parameters, whose shape is set by the first forward.
        RuntimeError: if the forward reads values of floating-point tensors, because these are not
            computed here.
        NotImplementedError: if this version of torch has no tensors without memory.
        Exception: any other error of the forward pass.

    Example:
        >>> import torch, gattn
        >>> model = gattn.nn.GATConv(16, 8, heads=2, aggr="max")
        >>> x, edge_index = torch.randn(3, 16), torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> report = gattn.explain_path(model, x, edge_index)
        >>> report.records[0].path
        'edge by edge'
        >>> report.records[0].reason
        'it aggregates by MaxAggregation(), not by the plain sum'
    """
    if not isinstance(model, Module):
        raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}")
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(parameter):
            raise ValueError(f"{name} has no shape yet: call the model once, then explain its path")
    layers = {name: module for name, module in model.named_modules() if _is_layer(module)}
    # The reasons are read before hooks are registered, because a hook is itself a reason for the
    # slow path.
    settings = {name: getattr(layer, "slow_path_reason", "") for name, layer in layers.items()}
    calls = _dry_run(model, layers, inputs, kwargs)
    records = {}
    for name, layer in layers.items():
        kind = type(layer).__name__
        if name in calls and (calls[name] or settings[name]):
            records[name] = _summarize(name, kind, calls[name], settings[name])
        elif name not in calls and _attends(layer):
            reason = "the forward pass did not call the layer, or called it through torch.compile"
            records[name] = PathRecord(name, kind, "", "", NOT_CALLED, reason)
    conversion = conversion_report(model)
    for name, kind in conversion.convertible.items():
        reason = "PyG's layer: gattn.convert(model) replaces it"
        records[name] = PathRecord(name, kind, "", "torch", "PyG", reason)
    for name, reason in conversion.left.items():
        if name not in records:
            kind = type(model.get_submodule(name)).__name__
            records[name] = PathRecord(
                name, kind, "", "torch", "PyG", f"gattn.convert leaves it: {reason}"
            )
    order = [name for name, _ in model.named_modules() if name in records]
    return PathReport(tuple(records[name] for name in order))


def _is_layer(module: Module) -> bool:
    """Return True if a module is a layer of gattn, or an instance of a subclass of one."""
    return any(kind.__module__.startswith(_PACKAGES) for kind in type(module).__mro__)


def _attends(module: Module) -> bool:
    return hasattr(type(module), "slow_path_reason")


def _summarize(name: str, kind: str, events: list[PathEvent], slow_path_reason: str) -> PathRecord:
    """Combine the events of a layer into one record; its path is the slowest path of these events,
    which is "edge by edge" if there is a ``slow_path_reason`` and no custom score. There must be an
    event or a reason.
    """
    events = [event._replace(operator=_public_name(event.operator)) for event in events]
    unique = list(dict.fromkeys(events))
    is_custom = any(event.path.startswith("custom") for event in unique)
    if slow_path_reason and not is_custom:
        unique = [event._replace(path="edge by edge") for event in unique]
        unique.append(PathEvent("", "torch", "edge by edge", slow_path_reason))
    if any(event.reason and event.operator for event in unique) or slow_path_reason:
        # The size of the graph is the reason only if there is no other.
        unique = [event for event in unique if event.operator or event.backend]
    slowest = max(unique, key=lambda event: _rank(event.path))

    def join(field: str) -> str:
        values = (getattr(event, field) for event in unique)
        return ", ".join(dict.fromkeys(value for value in values if value))

    reasons = "; ".join(dict.fromkeys(event.reason for event in unique if event.reason))
    return PathRecord(name, kind, join("operator"), join("backend"), slowest.path, reasons)


def _rank(path: str) -> int:
    return _FASTEST_FIRST.index(path) if path in _FASTEST_FIRST else len(_FASTEST_FIRST)


def _dry_run(
    model: Module, layers: dict[str, Module], inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, list[PathEvent]]:
    """Run the forward pass on tensors without memory; return the events of each layer of ``layers``
    that was called, by the name of the layer. The state of the model and of the random generators
    is restored. Raises RuntimeError if the model reads a number from a tensor, which has no values
    here, and NotImplementedError if torch has no such tensors.
    """
    calls: dict[str, list[PathEvent]] = {}
    running: list[str] = []
    mode = _DryMode(torch_internals.fake_mode())
    with (
        torch.no_grad(),
        torch.random.fork_rng(range(torch.cuda.device_count())),
        _unchanged(model),
        path_trace.listen() as events,
        _hooked(layers, running, calls, events),
    ):
        args, options = _pytree.tree_map(mode.without_memory, (inputs, kwargs))
        try:
            with mode:
                model(*args, **options)
        except torch_internals.data_dependent_errors() as error:
            inside = f" in {running[-1]!r}" if running and running[-1] else ""
            raise RuntimeError(
                f"explain_path cannot run this forward pass{inside}, because it reads the "
                f"value of a floating-point tensor, which is not computed ({error})"
            ) from error
    return calls


@contextlib.contextmanager
def _hooked(
    layers: dict[str, Module],
    running: list[str],
    calls: dict[str, list[PathEvent]],
    events: list[PathEvent],
) -> Iterator[None]:
    """Register hooks that move each event from ``events`` to the list of the innermost running
    layer in ``calls``, and remove the hooks at the end of the ``with`` block. ``running`` has the
    names of the layers that run.
    """

    def flush() -> None:
        """Add the recorded events to the calls of the running layer, and clear them."""
        if running:
            calls[running[-1]].extend(events)
        events.clear()

    def begin(name: str) -> Callable[..., None]:
        """Return a hook that stores the layer's name before its forward pass."""

        def hook(*_: Any) -> None:
            """Store the name of the layer that begins."""
            flush()
            running.append(name)
            calls.setdefault(name, [])

        return hook

    def end(module: Module, inputs: Any, output: Any) -> None:
        """Add the events of the layer that ends to its calls."""
        flush()
        # If there is no output, the layer has raised an exception, and the error message needs the
        # layer's name.
        if output is not None:
            running.pop()

    handles = []
    for name, layer in layers.items():
        handles.append(layer.register_forward_pre_hook(begin(name)))
        handles.append(layer.register_forward_hook(end, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _unchanged(model: Module) -> Iterator[None]:
    """Restore the attributes of all modules and the integers in their buffers at the end of the
    ``with`` block.
    """
    attributes = {module: dict(vars(module)) for module in model.modules()}
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (table, dict(table))
        for module in attributes
        for table in (vars(module)["_buffers"], vars(module)["_parameters"])
    ]
    integers = [
        (buffer, buffer.clone()) for buffer in model.buffers() if not buffer.is_floating_point()
    ]
    try:
        yield
    finally:
        for module, before in attributes.items():
            vars(module).clear()
            vars(module).update(before)
        for table, entries in tables:
            table.clear()
            table.update(entries)
        for buffer, before in integers:
            buffer.copy_(before)


class _DryMode(TorchDispatchMode):
    """Dispatch mode that computes integers and booleans, but only the shapes of floating-point
    tensors.
    """

    def __init__(self, fake_mode: Any) -> None:
        super().__init__()
        self.fake_mode = fake_mode

    def without_memory(self, leaf: Any) -> Any:
        """Replace the floating-point tensors in an input by tensors without memory. An object of
        PyG with data is copied; any other input is returned unchanged.
        """
        if isinstance(leaf, BaseData):
            return copy.copy(leaf).apply(self.without_memory)
        if not isinstance(leaf, Tensor) or not _is_dense_float(leaf):
            return leaf
        return self.fake_mode.from_tensor(leaf)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run a function, with memory only for integers, booleans and small new tensors.

        The results of other functions are tensors without memory. As a side effect, the
        backend of each gattn operator that reads floating-point tensors is recorded for the report.
        """
        kwargs = kwargs or {}
        leaves = _pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if not any(isinstance(tensor, torch_internals.FakeTensor) for tensor in tensors):
            if not tensors and self._is_small(func, args, kwargs):
                return func(*args, **kwargs)
            reads = func is torch.ops.aten._local_scalar_dense.default
            if tensors and (reads or not any(map(_is_dense_float, tensors))):
                return func(*args, **kwargs)
        if func.namespace == "gattn":
            _report_operator(func._schema.name.partition("::")[2], args)
        with self.fake_mode:
            return func(*args, **kwargs)

    def _is_small(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Return True if a function creates no large floating-point tensor."""
        with self.fake_mode:
            shape = func(*args, **kwargs)
        return not isinstance(shape, Tensor) or not (
            _is_dense_float(shape) and shape.numel() > _SMALL
        )


def _is_dense_float(tensor: Tensor) -> bool:
    """Return True if a tensor is dense and contains floating-point or complex numbers."""
    is_float = tensor.is_floating_point() or tensor.is_complex()
    return is_float and tensor.layout == torch.strided


def _report_operator(name: str, args: tuple[Any, ...]) -> None:
    """Record that an operator of gattn runs on a compiled backend, with a reason if its GPU kernel
    first copies inputs that are not contiguous. Other operators are ignored. ``args`` are in the
    order of the schema, the backend last.
    """
    if name not in OPERATORS:
        return
    backend, reason = args[-1], ""
    if backend == "triton":
        inputs = zip(OPERATORS[name].inputs, args)
        strided = [
            f"{label} {list(tensor.shape)}"
            for label, tensor in inputs
            if isinstance(tensor, Tensor) and tensor.dim() > 1 and not tensor.is_contiguous()
        ]
        if strided:
            reason = (
                f"{_public_name(name)} copies {' and '.join(strided)}, whose rows are strided, "
                "before its GPU kernel: pass contiguous tensors"
            )
    path_trace.report(name, backend, FUSED, reason)


def _public_name(operator: str) -> str:
    """Return the name of the public function that calls an operator; if there is none, return
    the operator's name.
    """
    stem = operator.removesuffix("_forward")
    return operator if stem == operator else f"{stem}_attention"
