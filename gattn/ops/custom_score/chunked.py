"""A user's function of the edges, chunk by chunk: nothing of size edges x channels is stored.

Edges are taken in the layout's order. Of each chunk the rows of both ends are gathered and the
function is called, compiled. Backward calls it again and differentiates it, in the order of
destinations: on a CPU a kernel adds what belongs to sources to theirs, in the order of edges.
Elsewhere what belongs to sources is computed once more, in the order of sources. So every sum over
edges is taken in one order, the same in every run.

Few edges are taken at once, as autograd records them (``eager.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gattn.compat import torch as torch_internals
from gattn.graph import Graph
from gattn.kernels.gather import empty
from gattn.kernels.precision import acc_dtype
from gattn.ops.custom_score.chunks import (
    CHUNK,
    FEW,
    WORTH,
    Chunk,
    Reader,
    Writer,
    chunks,
    edges_at_once,
    has_kernel,
    is_small,
)
from gattn.ops.custom_score.eager import EdgeIndexing, captures_other_tensors
from gattn.ops.custom_score.edge_function import (
    EdgeFunction,
    Tensors,
    compile_obstacle,
    compiled,
    flat_tensors,
    parameter_lock,
)
from gattn.ops.registration import path_trace
from gattn.ops.registration.derivatives import reference_gradients
from gattn.ops.registration.operator import is_transformed

HELD = (
    "a function of edges must not hold a tensor that wants a gradient, which it would not get: "
    "make the function a torch.nn.Module, or a method of one, that has the tensor as a parameter, "
    "or hand it in as features of nodes or edges"
)
RANDOM = (
    "a function of edges must not draw random numbers, as backward would draw others: use the "
    "argument dropout, or draw them beforehand as features of edges"
)
End: TypeAlias = tuple[str, Tensors]
"""Where the rows of an argument belong, and the argument."""


def edgewise(
    function: Callable[..., Tensor],
    graph: Graph,
    *ends: End,
    into: str = "edge",
    weight: End | None = None,
) -> Tensor:
    """Call a function of edges; keep what it gives, or its weighted sum for each destination.

    Args:
        function: of a batch of edges, with as many arguments as there are ``ends``; each row of
            its result depends on that edge alone.
        graph: the edges.
        ends: each argument: where its rows belong ("destination", "source", "edge" in the caller's
            order, "position" in the layout's), and it.
        into: where the rows of the result belong: "edge" or "position".
        weight: for a sum: [e, h], and whether they stand by "edge" or by "position".

    Returns:
        [e, ...]; with weights [n, h, ...].

    Raises:
        ValueError: for a function that gives other than a row for each edge, draws random numbers,
            or holds a tensor that wants a gradient.
    """
    with parameter_lock(function):
        if weight is None:
            return _run(function, graph, ends, (), into)
        return _run(function, graph, ends, (weight,), "destination")


def _run(
    function: Callable[..., Tensor], graph: Graph, ends: Sequence[End], weight: Sequence[End],
    into: str,
) -> Tensor:  # fmt: skip
    call = EdgeFunction.of(function, [argument for _, argument in ends], has_weight=len(weight) > 0)
    ends = (*weight, *ends)
    places = tuple(place for place, argument in ends for _ in flat_tensors(argument))
    tensors = [tensor for _, argument in ends for tensor in flat_tensors(argument)]
    tensors += call.parameters()
    is_real = not any(tensor.is_complex() for tensor in tensors)
    plan = _Plan(call, places, into, graph, torch.is_grad_enabled(), is_real)
    if torch.compiler.is_compiling() or is_transformed():
        return plan.plain(*tensors)
    if path_trace.listeners and path_trace.is_dry_run():
        plan.report_path()
        return plan.plain(*tensors)
    if is_small(graph.layout) and graph.num_edges:
        return _of_few(plan, tensors)
    return cast(Tensor, _Edgewise.apply(plan, *tensors))


class _Plan(NamedTuple):
    """What is called, of which rows, and what becomes of the result."""

    call: EdgeFunction
    places: tuple[str, ...]
    """Of the tensors of its arguments; its parameters follow them."""
    into: str
    """The place of the result, which is summed where it is "destination"."""
    graph: Graph
    learns: bool
    """Whether gradients may be asked for."""
    is_real: bool
    """Whether no tensor is complex, of which torch compiles little."""

    def places_of(self, tensors: Sequence[Tensor]) -> list[str]:
        """Of all tensors: the parameters are the "function"'s."""
        return [*self.places, *["function"] * (len(tensors) - len(self.places))]

    def plain(self, *tensors: Tensor) -> Tensor:
        """The specification: all edges at once."""
        layout = self.graph.layout
        edge, destination = layout.perm.long(), layout.destinations()
        rows = {"source": layout.col.long(), "destination": destination, "edge": edge}
        ends = zip(self.places, tensors)
        rows_of_edges = [t[rows[place]] if place in rows else t.clone() for place, t in ends]
        output = self.call(*rows_of_edges, *tensors[len(self.places) :])
        if self.into == "position":
            return output
        if self.into == "edge":
            return torch.zeros_like(output).index_copy(0, edge, output)
        wide = output.to(acc_dtype(output.dtype))
        out = wide.new_zeros(self.graph.num_dst, *output.shape[1:]).index_add(0, destination, wide)
        return out.to(output.dtype)

    def allocate_result(self, output: Tensor) -> Tensor:
        """For the result, of which this is a part: zeros for sums."""
        if self.into == "destination":
            dtype = acc_dtype(output.dtype)
            return empty(output, self.graph.num_dst, *output.shape[1:], dtype=dtype).zero_()
        return empty(output, self.graph.num_edges, *output.shape[1:])

    def report_path(self) -> None:
        """Tell :func:`gattn.explain_path` how the function would be called, and why."""
        edges, obstacle = self.graph.num_edges, ""
        calls = f"runs in plain PyTorch on {CHUNK:,} edges at a time"
        if is_small(self.graph.layout):
            path, calls = "all edges at once", f"runs in plain PyTorch on all {edges:,} edges"
            obstacle = f"up to {FEW * CHUNK:,} edges, autograd stores what it computes of each"
        elif edges < WORTH * CHUNK:
            path = "chunked and uncompiled"
            obstacle = f"torch compiles it from {WORTH * CHUNK:,} edges on, there are {edges:,}"
        elif obstacle := self._compile_obstacle():
            path = "chunked and uncompiled"
        else:
            path = "chunked and compiled"
        reason = f"{self.call.name} {calls}" + (f": {obstacle}" if obstacle else "")
        if not self.call.is_builtin:
            reason += "; a built-in score would run on the kernels"
        path_trace.report("attention", "torch", f"custom score, {path}", reason)

    def _compile_obstacle(self) -> str:
        if not self.is_real:
            return "torch compiles no complex tensors"
        return compile_obstacle(self.call, self.graph.device)

    def step(self, function: Callable[..., Any], chunk: Chunk) -> Callable[..., Any]:
        """The chunk function, compiled unless a dispatch mode is active or there are few chunks."""
        if chunk.is_repeated and self.is_real and not torch_internals.dispatch_mode_active():
            return compiled(function, self.call, chunk.most, self.graph.device)
        return function


class _Edgewise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> Tensor:
        ctx.plan, ctx.autocast = plan, _Autocast.now(plan.graph.device)
        ctx.save_for_backward(*tensors)
        out = _forward(plan, [tensor.detach() for tensor in tensors])
        ctx.versions = plan.call.versions()
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        plan: _Plan = ctx.plan
        tensors = ctx.saved_tensors
        with ctx.autocast.again(), parameter_lock(plan.call.function):
            if torch.is_grad_enabled():
                return None, *reference_gradients(plan.plain, tensors, (grad,))
            plan.call.check_unwritten(ctx.versions)
            return None, *_backward(plan, tensors, grad, ctx.needs_input_grad[1:])


class _Autocast(NamedTuple):
    """Whether autocast is on, and its dtype."""

    device: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def now(cls, device: torch.device) -> _Autocast:
        kind = device.type
        return cls(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))

    def again(self) -> torch.autocast:
        return torch.autocast(self.device, self.dtype, enabled=self.enabled)


def _gather(tensors: Sequence[Tensor], rows: Sequence[Tensor | None]) -> list[Tensor]:
    """Rows of the first tensors, except where None; the others, as parameters are, as they are."""
    gathered = [
        tensor if index is None else tensor.index_select(0, index)
        for tensor, index in zip(tensors, rows)
    ]
    return gathered + list(tensors[len(rows) :])


def _call_chunk(call: EdgeFunction, tensors: list[Tensor], rows: Sequence[Tensor | None]) -> Tensor:
    return call(*_gather(tensors, rows))


def _differentiate_chunk(
    call: EdgeFunction,
    tensors: list[Tensor],
    rows: Sequence[Tensor | None],
    requested: tuple[int, ...],
    grad: Tensor,
) -> tuple[Tensor, ...]:
    """Gradients of the gathered rows, or of the parameters, at these positions."""
    inputs = _gather(tensors, rows)

    def function(*chosen: Tensor) -> Tensor:
        arguments = list(inputs)
        for position, tensor in zip(requested, chosen):
            arguments[position] = tensor
        return call(*arguments)

    values = torch.func.vjp(function, *(inputs[position] for position in requested))
    output, pull = values[0], values[1]
    return pull(grad.to(output.dtype))


def _forward(plan: _Plan, tensors: list[Tensor]) -> Tensor:
    output = writer = None
    reader = Reader(plan.graph, tensors, plan.places)
    for chunk in chunks(plan.graph, "destination"):
        step, (inputs, rows) = plan.step(_call_chunk, chunk), reader.read(chunk, fuses=True)
        # Nothing that is given wants a gradient: what is held would show.
        with torch.set_grad_enabled(plan.learns):
            output = _checked(
                lambda: step(plan.call, inputs, rows),  # noqa: B023
                lambda: _call_chunk(plan.call, tensors, chunk.rows(plan.places)),  # noqa: B023
                plan.graph,
                chunk.position.shape[0],
            )
        if output.requires_grad:
            raise ValueError(HELD)
        if writer is None:
            writer = Writer(plan.graph, plan.into, plan.allocate_result(output))
        if output.shape[1:] != writer.to.shape[1:]:
            raise ValueError(
                f"the function must give rows of one shape, however many edges it is given; it "
                f"gave {tuple(output.shape)} after rows of {tuple(writer.to.shape[1:])} ([b, 1] "
                "and [b] make [b, b])"
            )
        writer.write(chunk, output)
    if writer is None or output is None:  # without an edge
        inputs = [tensor[:0] for tensor in tensors[: len(plan.places)]]
        output = plan.call(*inputs, *tensors[len(plan.places) :])
        _check_rows(output, 0)
        return plan.allocate_result(output).to(output.dtype)
    return writer.to.to(output.dtype)


def _of_few(plan: _Plan, tensors: list[Tensor]) -> Tensor:
    """All edges at once."""
    edges = EdgeIndexing.of(plan.graph)

    def read() -> list[Tensor]:
        rows = [edges.read(tensor, place) for tensor, place in zip(tensors, plan.places)]
        return rows + tensors[len(plan.places) :]

    inputs = read()
    begins = [tensor.grad_fn for tensor in inputs]
    call = plan.call.call_in_place
    output = _checked(
        lambda: call(*inputs), lambda: call(*read()), plan.graph, plan.graph.num_edges
    )
    if captures_other_tensors(output, inputs, begins):
        raise ValueError(HELD)
    return edges.put(output, plan.into)


def _checked(
    run: Callable[[], Tensor], again: Callable[[], Tensor], graph: Graph, edges: int
) -> Tensor:
    """Call the function of so many edges; raise where it is not one of each edge alone."""
    state = _random_state(graph.device)
    output = run()
    _check_rows(output, edges)
    if not torch.equal(state, _random_state(graph.device)):  # or another thread drew
        with _no_draws():
            again()
    return output


def _check_rows(output: Any, count: int) -> None:
    if not isinstance(output, Tensor) or output.dim() < 1 or output.shape[0] != count:
        actual = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(f"the function must give a row for each of {count} edges; got {actual}")


class _Draws(TorchDispatchMode):
    """Sees whether an operator draws random numbers in this thread."""

    drawn = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.drawn |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _no_draws() -> Iterator[None]:
    """A context after which it is an error that this thread drew random numbers in it."""
    with _Draws() as draws:
        yield
    if draws.drawn:
        raise ValueError(RANDOM)


def _random_state(device: torch.device) -> Tensor:
    if device.type == "cpu":
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state(device)


def _backward(
    plan: _Plan, tensors: Sequence[Tensor], grad: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """One pass by destination, and without a kernel that adds at random places one by source."""
    inputs = [tensor.detach() for tensor in tensors]
    needed = _used(plan, inputs, needed)
    values = [
        empty(t, *t.shape, dtype=acc_dtype(t.dtype)).zero_() if need else None
        for t, need in zip(tensors, needed)
    ]
    places = plan.places_of(tensors)
    passes = {"destination": ["destination", "edge", "position", "function"], "source": []}
    passes["destination" if has_kernel(plan.graph.device) else "source"].append("source")
    for by, ends in passes.items():
        requested = tuple(i for i, place in enumerate(places) if place in ends and needed[i])
        if requested:
            _add_gradients(plan, inputs, grad, by, requested, values)
    return [None if value is None else value.to(t.dtype) for value, t in zip(values, tensors)]


def _used(plan: _Plan, tensors: list[Tensor], needed: Sequence[bool]) -> list[bool]:
    """Which of the needed gradients there are: of a tensor that the function does not use for an
    edge or two there is none, as autograd has it.

    Raises:
        ValueError: the function draws random numbers, by whatever generator of torch's.
    """
    chunk = next(chunks(plan.graph, "destination"), None)
    if chunk is None:
        return list(needed)
    rows = [index[:2] for index in chunk.rows(plan.places)]  # one may lose its dimension
    inputs = [
        tensor.detach().requires_grad_(need) for tensor, need in zip(_gather(tensors, rows), needed)
    ]
    with torch.enable_grad(), _no_draws():
        output = plan.call(*inputs)
    if not output.requires_grad:
        return [False] * len(inputs)
    requested = [tensor for tensor in inputs if tensor.requires_grad]
    gradients = iter(
        torch.autograd.grad(output, requested, torch.ones_like(output), allow_unused=True)
    )
    return [tensor.requires_grad and next(gradients) is not None for tensor in inputs]


def _add_gradients(
    plan: _Plan, tensors: list[Tensor], grad: Tensor, by: str, requested: tuple[int, ...],
    values: list[Tensor | None],
) -> None:  # fmt: skip
    """Add those of the tensors at these positions, chunk after chunk."""
    # Without a kernel, sums over all edges are slow where torch fuses them with the gathering.
    fuses, reader = requested[-1] < len(plan.places), Reader(plan.graph, tensors, plan.places)
    most = edges_at_once(tensors[: len(plan.places)]) if has_kernel(plan.graph.device) else None
    places = plan.places_of(tensors)
    totals = [(places[position], cast(Tensor, values[position])) for position in requested]
    writers = [Writer(plan.graph, place, total) for place, total in totals]
    for chunk in chunks(plan.graph, by, most):
        step, (inputs, rows) = plan.step(_differentiate_chunk, chunk), reader.read(chunk, fuses)
        output = step(plan.call, inputs, rows, requested, chunk.take(grad, plan.into))
        for writer, gradient in zip(writers, output):
            writer.write(chunk, gradient)
