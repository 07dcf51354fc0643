"""Calls of a user's function on chunks of edges, so that no tensor of size edges x channels is
stored.

Forward visits the edges in CSR order by destination. For each chunk, it gathers the rows of both
ends and calls the function, which torch compiles. Backward visits the chunks in the same order,
gathers the rows again, and calls and differentiates the function. On a CPU, a kernel adds the
gradients of source rows in the order of the edges. On other devices, a second pass in the order of
sources computes them. Every sum over edges therefore has a fixed order, and all runs give the same
bits.

Graphs with few edges are processed in one call, which autograd records (``eager.py``).
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
    MAX_CHUNKS_AT_ONCE,
    MIN_COMPILED_CHUNKS,
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
from gattn.ops.registration.backend import is_transformed
from gattn.ops.registration.derivatives import reference_gradients

CAPTURED_TENSOR = (
    "a function of edges must not capture a tensor that requires a gradient, because this tensor "
    "would get none: make the function a torch.nn.Module, or a method of one, with the tensor as a "
    "parameter, or pass the tensor as features of nodes or edges"
)
RANDOM_NUMBERS = (
    "a function of edges must not draw random numbers, because backward would draw different "
    "numbers: use the argument dropout, or draw the numbers before the call and pass them as "
    "features of edges"
)
Argument: TypeAlias = tuple[str, Tensors]
"""Type of a pair of an argument and the kind of its rows (see
:mod:`gattn.ops.custom_score.chunks`).
"""


def edgewise(
    function: Callable[..., Tensor],
    graph: Graph,
    *arguments: Argument,
    into: str = "edge",
    weight: Argument | None = None,
) -> Tensor:
    """Call a function on all edges; return its results, or the weighted sum of the results for each
    destination.

    Args:
        function: takes the rows of b edges of each argument, and returns one row for each edge,
            which depends on that edge alone.
        graph: the edges.
        arguments: row kind ("destination", "source", "edge" for the caller's order, "position" for
            CSR order) and tensors of each argument of ``function``.
        into: order of the rows of the result: "edge" or "position".
        weight: for a weighted sum: the order of the weights ("edge" or "position"), and the
            weights, [e, h].

    Returns:
        [e, ...] without weights; [n, h, ...] with weights.

    Raises:
        ValueError: for a function that does not return one row for each edge, draws random
            numbers, or captures a tensor that requires a gradient.
        RuntimeError: in backward, if a buffer of the function's module has changed.

    Warns:
        UserWarning: torch cannot compile the function, which then runs uncompiled.
    """
    with parameter_lock(function):
        if weight is None:
            return _run(function, graph, arguments, (), into)
        return _run(function, graph, arguments, (weight,), "destination")


def _run(
    function: Callable[..., Tensor],
    graph: Graph,
    arguments: Sequence[Argument],
    weight: Sequence[Argument],
    into: str,
) -> Tensor:
    """Call a function for all edges of a graph; ``into`` is the order of the rows of its result, or
    "destination" for the sum of the results into each node, [n, h, ...], by a ``weight``, which is
    one argument or empty. Raises ValueError if the function reads another tensor that requires a
    gradient, returns a wrong shape, or draws random numbers, and warns if torch cannot compile the
    function.
    """
    call = EdgeFunction.of(function, [rows for _, rows in arguments], has_weight=len(weight) > 0)
    arguments = (*weight, *arguments)
    row_kinds = tuple(row_kind for row_kind, rows in arguments for _ in flat_tensors(rows))
    tensors = [tensor for _, rows in arguments for tensor in flat_tensors(rows)]
    tensors += call.parameters()
    is_real = not any(tensor.is_complex() for tensor in tensors)
    plan = _Plan(call, row_kinds, into, graph, torch.is_grad_enabled(), is_real)
    if torch.compiler.is_compiling() or is_transformed():
        return plan.plain(*tensors)
    if path_trace.listeners and path_trace.is_dry_run():
        plan.report_path()
        return plan.plain(*tensors)
    if is_small(graph.layout) and graph.num_edges:
        return _run_all_at_once(plan, tensors)
    return cast(Tensor, _ChunkedCall.apply(plan, *tensors))


class _Plan(NamedTuple):
    """Plan of a call: the function, and the kind of the rows of its arguments and its result."""

    call: EdgeFunction
    row_kinds: tuple[str, ...]
    """Kind of the rows of each tensor in the arguments. The parameters, which follow, are not
    listed.
    """
    into: str
    """Kind of the rows of the result: "edge", "position", or "destination" for a sum."""
    graph: Graph
    needs_grad: bool
    """True if grad mode was enabled at the time of the call."""
    is_real: bool
    """True if no tensor is complex. torch cannot compile most operations on complex tensors."""

    def row_kinds_of(self, tensors: Sequence[Tensor]) -> list[str]:
        """Return the kind of the rows of every tensor; parameters have the kind "function"."""
        return [*self.row_kinds, *["function"] * (len(tensors) - len(self.row_kinds))]

    def plain(self, *tensors: Tensor) -> Tensor:
        """Compute the result, rows of edges or sums as ``into`` selects, with a single call of the
        function on all edges, as a reference. The tensors have the kinds ``row_kinds``, and the
        parameters follow them.
        """
        layout = self.graph.layout
        edge, destination = layout.perm.long(), layout.destinations()
        rows = {"source": layout.col.long(), "destination": destination, "edge": edge}
        arguments = [
            tensor[rows[row_kind]] if row_kind in rows else tensor.clone()
            for row_kind, tensor in zip(self.row_kinds, tensors)
        ]
        output = self.call(*arguments, *tensors[len(self.row_kinds) :])
        if self.into == "position":
            return output
        if self.into == "edge":
            return torch.zeros_like(output).index_copy(0, edge, output)
        wide = output.to(acc_dtype(output.dtype))
        out = wide.new_zeros(self.graph.num_dst, *output.shape[1:]).index_add(0, destination, wide)
        return out.to(output.dtype)

    def allocate_result(self, output: Tensor) -> Tensor:
        """Allocate the result for all edges, given the output for one chunk. A sum is filled
        with zeros and has the accumulation dtype.
        """
        if self.into == "destination":
            dtype = acc_dtype(output.dtype)
            return empty(output, self.graph.num_dst, *output.shape[1:], dtype=dtype).zero_()
        return empty(output, self.graph.num_edges, *output.shape[1:])

    def report_path(self) -> None:
        """Report to :func:`gattn.explain_path` how the function is called, and why."""
        edges, obstacle = self.graph.num_edges, ""
        calls = f"runs in plain PyTorch on {CHUNK:,} edges at a time"
        if is_small(self.graph.layout):
            path, calls = "all edges at once", f"runs in plain PyTorch on all {edges:,} edges"
            maximum = MAX_CHUNKS_AT_ONCE * CHUNK
            obstacle = f"up to {maximum:,} edges, autograd stores what it computes for each edge"
        elif edges < MIN_COMPILED_CHUNKS * CHUNK:
            path = "chunked and uncompiled"
            minimum = MIN_COMPILED_CHUNKS * CHUNK
            obstacle = f"torch compiles it from {minimum:,} edges on, there are {edges:,}"
        elif obstacle := self._compile_obstacle():
            path = "chunked and uncompiled"
        else:
            path = "chunked and compiled"
        reason = f"{self.call.name} {calls}" + (f": {obstacle}" if obstacle else "")
        if not self.call.is_builtin:
            reason += "; a built-in score runs on the kernels"
        path_trace.report("attention", "torch", f"custom score, {path}", reason)

    def _compile_obstacle(self) -> str:
        """Return the reason why torch cannot compile the function; "" if there is none."""
        if not self.is_real:
            return "torch cannot compile complex tensors"
        return compile_obstacle(self.call, self.graph.device)

    def step(self, function: Callable[..., Any], chunk: Chunk) -> Callable[..., Any]:
        """Return the function that is called on a chunk. It is compiled if this saves time; it then
        warns if torch cannot compile it.

        It is not compiled if there are few chunks, complex tensors, or an active dispatch mode.
        """
        if chunk.is_repeated and self.is_real and not torch_internals.dispatch_mode_active():
            return compiled(function, self.call, chunk.size, self.graph.device)
        return function


class _ChunkedCall(torch.autograd.Function):
    """Autograd function that calls the user's function on chunks. Backward calls the function
    again.
    """

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor) -> Tensor:
        """Return the results of all edges, and save the tensors and the versions of the buffers of
        the function's module, so that the backward pass detects a write. Raises ValueError if the
        function returns a wrong shape, draws random numbers, or reads another tensor that requires
        a gradient.
        """
        ctx.plan, ctx.autocast = plan, _Autocast.current(plan.graph.device)
        ctx.save_for_backward(*tensors)
        out = _forward(plan, [tensor.detach() for tensor in tensors])
        ctx.versions = plan.call.versions()
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradients of the tensors, under the autocast state of the forward pass. If a
        second derivative may follow, the function is called on all edges at once. Raises
        RuntimeError if a buffer of the function's module has changed since the forward pass, and
        ValueError if the function draws random numbers.
        """
        plan: _Plan = ctx.plan
        tensors = ctx.saved_tensors
        with ctx.autocast.restore(), parameter_lock(plan.call.function):
            if torch.is_grad_enabled():
                return None, *reference_gradients(plan.plain, tensors, (grad,))
            plan.call.check_unwritten(ctx.versions)
            return None, *_backward(plan, tensors, grad, ctx.needs_input_grad[1:])


class _Autocast(NamedTuple):
    """Autocast state of the forward pass. The backward pass restores it."""

    device: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def current(cls, device: torch.device) -> _Autocast:
        kind = device.type
        return cls(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))

    def restore(self) -> torch.autocast:
        return torch.autocast(self.device, self.dtype, enabled=self.enabled)


def _gather(tensors: Sequence[Tensor], rows: Sequence[Tensor | None]) -> list[Tensor]:
    """Gather those rows of the tensors that the edges of a chunk read.

    A tensor whose index is None is already gathered. Tensors after the last index are parameters.
    Both kinds are returned unchanged.
    """
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
    """Compute the gradients of the function for one chunk of edges.

    ``requested`` are the positions of tensors in the function's arguments. ``grad`` [b, ...] is the
    gradient of the function's result. The results are the gradients of the gathered rows of these
    tensors, or of these parameters.
    """
    inputs = _gather(tensors, rows)

    def function(*chosen: Tensor) -> Tensor:
        """Call the function with new values of the tensors that are differentiated."""
        arguments = list(inputs)
        for position, tensor in zip(requested, chosen):
            arguments[position] = tensor
        return call(*arguments)

    values = torch.func.vjp(function, *(inputs[position] for position in requested))
    output, vjp = values[0], values[1]
    return vjp(grad.to(output.dtype))


def _forward(plan: _Plan, tensors: list[Tensor]) -> Tensor:
    """Call the function for one chunk of edges after another, and return its results or their sums.
    The tensors are those of the plan's arguments, then the parameters. Raises ValueError if the
    function reads a tensor that requires a gradient and is no argument, or if the shape of its
    results is wrong or it draws random numbers. Warns if torch cannot compile it.
    """
    output = writer = None
    reader = Reader(plan.graph, tensors, plan.row_kinds)
    for chunk in chunks(plan.graph, "destination"):
        step, (inputs, rows) = plan.step(_call_chunk, chunk), reader.read(chunk, fuses=True)
        # The arguments are detached, so they do not require gradients. If the output requires a
        # gradient, the user's function reads another tensor that requires one.
        with torch.set_grad_enabled(plan.needs_grad):
            output = _call_checked(
                lambda: step(plan.call, inputs, rows),  # noqa: B023
                lambda: _call_chunk(plan.call, tensors, chunk.rows(plan.row_kinds)),  # noqa: B023
                plan.graph,
                chunk.position.shape[0],
            )
        if output.requires_grad:
            raise ValueError(CAPTURED_TENSOR)
        if writer is None:
            writer = Writer(plan.graph, plan.into, plan.allocate_result(output))
        if output.shape[1:] != writer.target.shape[1:]:
            raise ValueError(
                "the function must return rows of the same shape for any number of edges; it "
                f"returned {tuple(output.shape)} after rows of "
                f"{tuple(writer.target.shape[1:])} (adding [b, 1] and [b] gives [b, b])"
            )
        writer.write(chunk, output)
    # If the graph has no edges, the function has not been called yet. It is called with zero rows
    # to find the shape of its output.
    if writer is None or output is None:
        inputs = [tensor[:0] for tensor in tensors[: len(plan.row_kinds)]]
        output = plan.call(*inputs, *tensors[len(plan.row_kinds) :])
        _check_rows(output, 0)
        return plan.allocate_result(output).to(output.dtype)
    return writer.target.to(output.dtype)


def _run_all_at_once(plan: _Plan, tensors: list[Tensor]) -> Tensor:
    """Call the function once on all edges, and return its results or their sums; autograd records
    the call. The tensors are those of the plan's arguments, then the parameters. The function is
    called a second time if the state of the random generator has changed. Raises ValueError if the
    function reads another tensor that requires a gradient, returns a wrong number of rows or draws
    random numbers.
    """
    edges = EdgeIndexing.of(plan.graph)

    def read() -> list[Tensor]:
        rows = [edges.read(tensor, row_kind) for tensor, row_kind in zip(tensors, plan.row_kinds)]
        return rows + tensors[len(plan.row_kinds) :]

    inputs = read()
    input_nodes = [tensor.grad_fn for tensor in inputs]
    call = plan.call.call_in_place
    output = _call_checked(
        lambda: call(*inputs), lambda: call(*read()), plan.graph, plan.graph.num_edges
    )
    if captures_other_tensors(output, inputs, input_nodes):
        raise ValueError(CAPTURED_TENSOR)
    return edges.put(output, plan.into)


def _call_checked(
    run: Callable[[], Tensor], again: Callable[[], Tensor], graph: Graph, edges: int
) -> Tensor:
    """Call the function through ``run`` and return its result; raise ValueError if the result has
    another number of rows than ``edges`` or is random.

    ``again`` repeats the call if the state of the random generator has changed.
    """
    state = _random_state(graph.device)
    output = run()
    _check_rows(output, edges)
    # The state of the random generator has changed, but another thread may have used it. A second
    # call shows whether the user's function draws random numbers.
    if not torch.equal(state, _random_state(graph.device)):
        with _forbid_random():
            again()
    return output


def _check_rows(output: Any, count: int) -> None:
    """Raise ValueError unless the output is a tensor with ``count`` rows."""
    if not isinstance(output, Tensor) or output.dim() < 1 or output.shape[0] != count:
        actual = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(
            f"the function must return one row for each of {count} edges; got {actual}"
        )


class _RandomDetector(TorchDispatchMode):
    """Dispatch mode that detects operators that draw random numbers in this thread."""

    has_random = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and set ``has_random`` to True if it draws random numbers."""
        self.has_random |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _forbid_random() -> Iterator[None]:
    """Raise ValueError at the end of the ``with`` block if this thread has drawn random numbers
    in it.
    """
    with _RandomDetector() as detector:
        yield
    if detector.has_random:
        raise ValueError(RANDOM_NUMBERS)


def _random_state(device: torch.device) -> Tensor:
    """Return the state of the random generator of a device; meta tensors have none of their own."""
    if device.type in ("cpu", "meta"):
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state(device)


def _backward(
    plan: _Plan, tensors: Sequence[Tensor], grad: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Compute the gradients of the plan's tensors from the gradient of the result, in a single pass
    over the edges, which are sorted by destination.

    If there is no kernel that adds rows of sources in a fixed order, a second pass over the edges,
    sorted by source, follows. The gradient of a tensor that needs none is None. Raises ValueError
    if the function draws random numbers. Warns if torch cannot compile it.
    """
    inputs = [tensor.detach() for tensor in tensors]
    needed = _used_tensors(plan, inputs, needed)
    values = [
        empty(t, *t.shape, dtype=acc_dtype(t.dtype)).zero_() if need else None
        for t, need in zip(tensors, needed)
    ]
    row_kinds = plan.row_kinds_of(tensors)
    passes = {"destination": ["destination", "edge", "position", "function"], "source": []}
    passes["destination" if has_kernel(plan.graph.device) else "source"].append("source")
    for by, kinds in passes.items():
        requested = tuple(i for i, kind in enumerate(row_kinds) if kind in kinds and needed[i])
        if requested:
            _add_gradients(plan, inputs, grad, by, requested, values)
    return [None if value is None else value.to(t.dtype) for value, t in zip(values, tensors)]


def _used_tensors(plan: _Plan, tensors: list[Tensor], needed: Sequence[bool]) -> list[bool]:
    """Return True for each tensor that the function uses and that needs a gradient.

    To find out, the function is called on two edges. As with autograd, an unused tensor has no
    gradient. Without edges, ``needed`` is returned.

    Raises:
        ValueError: if the function draws random numbers with any of torch's generators.
    """
    chunk = next(chunks(plan.graph, "destination"), None)
    if chunk is None:
        return list(needed)
    # Two edges are used, because with one edge a function that calls squeeze() would remove the
    # edge dimension.
    rows = [index[:2] for index in chunk.rows(plan.row_kinds)]
    inputs = [
        tensor.detach().requires_grad_(need) for tensor, need in zip(_gather(tensors, rows), needed)
    ]
    with torch.enable_grad(), _forbid_random():
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
    """Add the gradients of the ``requested`` tensors to ``values`` in place, one chunk after
    another, with the edges sorted by ``by``; ``grad`` is the gradient of the result. ``requested``
    are ascending positions in ``tensors``, at least one. Raises ValueError if the function draws
    random numbers, and warns if torch cannot compile it.
    """
    # If gradients of parameters are requested and there is no C++ kernel, torch.compile must not
    # fuse the gather with the sum over all edges, because the fused code would be slow.
    fuses, reader = requested[-1] < len(plan.row_kinds), Reader(plan.graph, tensors, plan.row_kinds)
    size = edges_at_once(tensors[: len(plan.row_kinds)]) if has_kernel(plan.graph.device) else None
    row_kinds = plan.row_kinds_of(tensors)
    writers = [
        Writer(plan.graph, row_kinds[position], cast(Tensor, values[position]))
        for position in requested
    ]
    for chunk in chunks(plan.graph, by, size):
        step, (inputs, rows) = plan.step(_differentiate_chunk, chunk), reader.read(chunk, fuses)
        output = step(plan.call, inputs, rows, requested, chunk.take(grad, plan.into))
        for writer, gradient in zip(writers, output):
            writer.write(chunk, gradient)
