"""Declaration of operators, and their registration with torch's dispatcher.

A declaration contains all that is registered for an operator: its schema, its kernel on every
backend, a fake kernel for tracing, and its derivative. The derivative is registered at the
dispatcher's Autograd key. This keeps the operator opaque to torch.compile, and takes less time per
call than torch.library.register_autograd.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.kernels import cpu
from gattn.layout.layout import Layout
from gattn.ops.registration import path_trace
from gattn.ops.registration.backend import launchers, select
from gattn.ops.registration.shapes import Out, Shapes

SavedValues = dict[str, Any]
"""Type of the values that a call saves for backward: arguments and outputs, by name."""
Gradients = Mapping[str, Tensor | None]
Derivative = Callable[["Operator", Tensor, SavedValues, frozenset[str]], Gradients]
"""Type of a function that computes the gradients of an operator's inputs.

Its arguments are the operator, the gradient of the first output, the saved values, and the names of
the inputs that require a gradient."""
Setting = type[float] | type[bool] | tuple[str, ...]
"""Type of a setting: a number, a boolean, or a choice among these strings."""

OPERATORS: dict[str, Operator] = {}
"""All declared operators, by name."""

DIMENSIONS: dict[str, str | None] = {
    "n": None, "m": None, "e": None, "h": "heads", "u": "value_heads", "c": "channels",
    "w": "value_channels", "d": "features", "b": "bias_heads",
}  # fmt: skip
"""For each letter of a shape, the name of the argument of the C++ kernels that contains this
length.

It is None for a length that a kernel reads from the layout. Shapes have no other letters."""

_library = torch.library.Library("gattn", "DEF")
_TRANSFORMED = (
    "gattn::{name} does not run under torch.func.{transform}: call the layer or function inside "
    "the transform, without backend= and GATTN_BACKEND, so that it runs in plain PyTorch"
)

_SEED = "gattn::{name}: seed must be [2], a key and the index of the first edge, not {shape}"


class Operator:
    """Operator of torch. It calls the kernel with its own name in one of the backends.

    Its arguments are, in this order: inputs, statistics, the layout, the seed, settings, flags, and
    the name of the backend. The reference takes the same arguments without flags and backend.
    """

    def __init__(
        self,
        name: str,
        *,
        inputs: Mapping[str, str],
        outputs: Mapping[str, Out],
        statistics: Iterable[str] = (),
        layout: bool = True,
        seed: bool = False,
        settings: Mapping[str, Setting] | None = None,
        flags: Iterable[str] = (),
        fallback_input: Mapping[str, str] | None = None,
        lengths: Mapping[str, str | None] = DIMENSIONS,
        reference: Callable[..., Tensor] | None = None,
        derivative: Derivative | None = None,
        saves: Iterable[str] = (),
    ) -> None:
        """Define an operator, register it with torch, and add it to ``OPERATORS``.

        Args:
            name: name of the operator and of its kernels.
            inputs: shapes of the inputs by name; all inputs have the same dtype. See
                :mod:`gattn.ops.registration.shapes`.
            outputs: shapes of the outputs by name.
            statistics: names of tensors that another operator returned.
            layout: whether the operator takes the layout of a graph.
            seed: whether the operator takes the key of the random generator (None: no dropout).
            settings: types of the numbers, booleans and choices by name.
            flags: names of booleans that the reference does not take.
            fallback_input: by name of an optional input, the input that is used if it is absent.
            lengths: field of the C++ kernel's arguments for the length of each letter.
            reference: the operator in plain PyTorch.
            derivative: function that computes the gradients of the inputs.
            saves: names of the values that ``derivative`` reads; the layout, the settings and the
                flags are always saved.

        Raises:
            ValueError: if a shape contains a letter that ``lengths`` does not contain.
        """
        settings = settings or {}
        types = {n: "Tensor?" if shape.endswith("?") else "Tensor" for n, shape in inputs.items()}
        types |= dict.fromkeys(statistics, "Tensor")
        types |= {"layout": "Tensor[]"} if layout else {}
        types |= {"seed": "Tensor?"} if seed else {}
        types |= {n: "str" if isinstance(t, tuple) else t.__name__ for n, t in settings.items()}
        self.reference_args = tuple(types)[len(inputs) :]
        """Names of the arguments of the reference implementation that follow the inputs."""
        types |= dict.fromkeys(flags, "bool") | {"backend": "str"}

        self.name = name
        self.inputs, self.parameters, self.outputs = tuple(inputs), tuple(types), tuple(outputs)
        self.reference, self.derivative = reference, derivative
        self.shapes, self.settings, self.flags = dict(inputs), dict(settings), tuple(flags)
        self.fallback_input = dict(fallback_input or {})
        self._shapes = Shapes(self.parameters, inputs, outputs, self.fallback_input)
        unknown = set(self._shapes.letters) - lengths.keys()
        if unknown:
            raise ValueError(f"{name}: lengths must have a field of the C++ kernel for the letter "
                             f"{min(unknown)!r}")  # fmt: skip
        self._lengths = tuple(map(lengths.__getitem__, self._shapes.letters))
        names = (*self.parameters, *self.outputs)
        self._choices = tuple(
            (names.index(n), kind) for n, kind in settings.items() if isinstance(kind, tuple)
        )
        self._layout = names.index("layout") if layout else None
        self._out_acc = names.index("out_acc") if "out_acc" in outputs else None
        self._saved = tuple(saves)
        self._saved_index = tuple(names.index(n) for n in self._saved)
        first = "out_acc" if self._out_acc is not None else self.outputs[0]
        self.saved_out = self._saved.index(first) if first in self._saved else None
        """Index of the first output, or of ``out_acc``, among the saved tensors; None if neither is
        saved.
        """
        self._constants = (*settings, *self.flags, "backend")
        self._constants_slice = slice(-len(self._constants), None)
        self._function = type(f"_{name}", (_OperatorFunction,), {})
        self._at_seed = self.parameters.index("seed") if seed else None
        self.overload = self._register(types)
        OPERATORS[name] = self

    def __call__(self, *args: Any, backend: str | None) -> Any:
        """Run the operator on the named backend. By default, the device of the first input
        determines the backend; if it has no kernels, the reference runs, with one warning. The
        other arguments are those of the reference. Raises ValueError for an unknown backend, and
        RuntimeError if the requested backend cannot run.
        """
        backend = select(backend, args[0].device)
        if backend == "reference":
            assert self.reference is not None
            if path_trace.listeners:
                path_trace.report_reference(self.name, args[0].device.type)
            return self.reference(*args)
        return self.overload(*args, backend)

    def by_name(self, args: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments of the reference implementation by name."""
        return dict(zip((*self.inputs, *self.reference_args), args))

    def _register(self, types: Mapping[str, str]) -> Callable[..., Any]:
        """Register the schema, given the type of each argument in it by name, and all kernels with
        torch's dispatcher, and return the overload to call.
        """
        name = self.name
        schema_inputs = ", ".join(f"{kind} {n}" for n, kind in types.items())
        returns = ", ".join(["Tensor"] * len(self.outputs))
        returns = returns if len(self.outputs) == 1 else f"({returns})"
        schema = f"{name}({schema_inputs}) -> {returns}"
        _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        overload = getattr(torch.ops.gattn, name).default

        def refuse(*args: Any) -> Any:
            raise self._transform_error()

        def one_by_one(*args: Any) -> Any:
            return torch_internals.map_one_by_one(overload, args)

        def fake(*args: Any) -> Any:
            """Return outputs without values, from which torch.compile reads shapes and dtypes."""
            return self._unpack_single(
                self._shapes.allocate_outputs(args, self._shapes.lengths(args), _fake_empty)
            )

        _library.impl(name, self._kernel, "CompositeExplicitAutograd")
        _library.impl(name, self._autograd, "Autograd")
        _library.impl(name, refuse, "FuncTorchBatched")
        _library.impl(name, one_by_one, "Batched")
        torch.library.register_fake(f"gattn::{name}", fake, lib=_library)
        return overload

    def _autograd(self, *args: Any) -> Any:
        """Run the operator, whose arguments are in the order of the schema, and record it for
        autograd if a gradient is needed.

        The dispatcher calls this method first. The operator is then called again below autograd, by
        ``_OperatorFunction`` or directly, which leads to :meth:`_kernel`. Raises RuntimeError under
        forward-mode differentiation and under the transforms of torch.func, which the kernels do
        not support.
        """
        if torch_internals.forward_mode_active() and any(map(_has_tangent, args)):
            raise self._transform_error()
        if self.derivative is not None and wants_grad(*args):
            if torch_internals.transforms_active():
                raise self._transform_error()
            return self._function.apply(self, *args)
        return below_autograd(self.overload, *args)

    def _kernel(self, *args: Any) -> Any:
        """Run the kernel of the backend that the last argument names. Raises ValueError if the seed
        does not have two numbers.
        """
        seed = None if self._at_seed is None else args[self._at_seed]
        if seed is not None and seed.numel() != 2:
            raise ValueError(_SEED.format(name=self.name, shape=list(seed.shape)))
        if args[-1] == "cpu":
            return self._on_cpu(args)
        # The launcher of this operator in the module gattn.kernels.triton has the same name, for
        # example gatv2_forward.
        return getattr(launchers(args[-1]), self.name)(*args[:-1])

    def _transform_error(self) -> RuntimeError:
        transform = torch_internals.innermost_transform()
        return RuntimeError(_TRANSFORMED.format(name=self.name, transform=transform))

    def _on_cpu(self, args: Sequence[Any]) -> Any:
        """Allocate the outputs, run the C++ kernel, and return the output or, if there are several,
        a tuple.
        """
        lengths = self._shapes.lengths(args)
        outputs = self._shapes.allocate_outputs(args, lengths, cpu.empty)
        values = [*args, *outputs, *lengths]
        for position, choices in self._choices:
            values[position] = choices.index(args[position])
        self._launch(values)
        return self._unpack_single(outputs)

    @functools.cached_property
    def _launch(self) -> cpu.Launcher:
        """Launcher of the C++ kernel. It identifies each argument, output and length by its
        position. Raises TypeError if the fields of the C++ kernel differ from the names of the
        declaration.
        """
        names = (*self.parameters, *self.outputs, *self._lengths)
        fields = self._fields
        positions = {n: i for i, n in enumerate(names) if n in fields}
        # All kernels of one C++ file share one argument struct. An operator may leave tensors and
        # lengths of other operators unset, but not settings, because an unset setting would be
        # zero.
        related = [o for o in OPERATORS.values() if cpu.share_fields(o.name, self.name)]
        absent = set().union(*(o._fields.difference(o.settings) for o in related))
        absent = absent if "seed" in fields else {*absent, "dropout"}
        return cpu.Launcher(self.name, positions, absent)

    @property
    def _fields(self) -> set[str]:
        """Names of the values that are passed to the C++ kernel."""
        names = {*self.parameters, *self.outputs, *filter(None, self._lengths)}
        return names.difference(self.flags, ("backend",))

    def _unpack_single(self, outputs: list[Tensor]) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def values_to_save(
        self, args: Sequence[Any], outputs: Sequence[Tensor]
    ) -> tuple[list[Any], Any]:
        """Return, from the arguments in the order of the schema and the outputs, the tensors that
        backward needs (those of the layout are last), and the other arguments.
        """
        values = [*args, *outputs]
        if self._out_acc is not None:
            values[self._out_acc] = value_sum(outputs[0], values[self._out_acc])
        tensors = [values[position] for position in self._saved_index]
        if self._layout is not None:
            tensors += args[self._layout]
        return tensors, args[self._constants_slice]

    def saved_values(self, tensors: Sequence[Tensor], constants: Sequence[Any]) -> SavedValues:
        """Return the result of :meth:`values_to_save` as a dictionary by name."""
        saved: SavedValues = dict(zip(self._saved, tensors))
        if self._layout is not None:
            saved["layout"] = Layout(*tensors[len(self._saved) :])
        saved.update(zip(self._constants, constants))
        return saved

    def recompute_output(self, saved: SavedValues) -> None:
        """Compute the first output again from the saved values, and store it there. The result has
        the same bits.
        """
        assert self.saved_out is not None
        result = below_autograd(self.overload, *map(saved.__getitem__, self.parameters))
        saved[self._saved[self.saved_out]] = result if isinstance(result, Tensor) else result[0]


class WriteGuard(NamedTuple):
    """Detector of in-place writes to a tensor. It does not keep the tensor's memory alive."""

    witness: Tensor
    version: int

    @classmethod
    def of(cls, out: Tensor) -> WriteGuard:
        """Create a detector that shares the version counter of ``out`` but not its memory."""
        witness = out.detach()
        witness.data = _EMPTY
        return cls(witness, out._version)

    def is_written(self) -> bool:
        """Return True if torch has counted an in-place write to the tensor."""
        return self.witness._version != self.version


_EMPTY = torch.empty(0, device="cpu")


class _OperatorFunction(torch.autograd.Function):
    """Autograd function of an operator. It differentiates the operator's first output.

    Backward may need the first output. If the caller has written to it, as ReLU(inplace=True) does,
    backward computes it again.
    """

    @staticmethod
    def forward(ctx: Any, operator: Operator, *args: Any) -> Any:
        """Run the operator, and save what its derivative reads. Only the first output can have a
        gradient; it is saved with a guard that detects whether it is changed in place.
        """
        result = below_autograd(operator.overload, *args)
        outputs = (result,) if isinstance(result, Tensor) else tuple(result)
        tensors, ctx.constants = operator.values_to_save(args, outputs)
        ctx.operator, ctx.output_guard, index = operator, None, operator.saved_out
        if index is not None and tensors[index] is outputs[0] and type(outputs[0]) is Tensor:
            ctx.output_guard = WriteGuard.of(outputs[0])
            tensors[index] = outputs[0].data
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        if len(outputs) == 1:
            return result
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs that need one, and None for all other arguments. A
        saved output that was changed in place is computed again.
        """
        operator: Operator = ctx.operator
        # The saved tensors are read only once, because activation checkpointing allows only one
        # access.
        tensors = ctx.saved_tensors
        result: Gradients = {}
        if grads[0] is not None:
            assert operator.derivative is not None
            needed = zip(operator.inputs, ctx.needs_input_grad[1:])
            requested = frozenset([name for name, is_needed in needed if is_needed])
            saved = operator.saved_values(tensors, ctx.constants)
            if ctx.output_guard is not None and ctx.output_guard.is_written():
                operator.recompute_output(saved)
            result = operator.derivative(operator, grads[0], saved, requested)
            result = {name: result[name] for name in requested}
        return None, *map(result.get, operator.parameters)


def _fake_empty(like: Tensor, *shape: int, dtype: torch.dtype) -> Tensor:
    return like.new_empty(shape, dtype=dtype)


def _has_tangent(arg: Any) -> bool:
    """Return True if an argument is a tensor with a tangent of forward-mode differentiation."""
    return isinstance(arg, Tensor) and torch_internals.has_tangent(arg)


def below_autograd(operator: Callable[..., Any], *args: Any) -> Any:
    """Call an operator without recording the call for autograd."""
    with torch_internals.below_autograd():
        return operator(*args)


def value_sum(out: Tensor, out_acc: Tensor) -> Tensor:
    """Return the weighted sum of the values in the accumulation dtype.

    The result is ``out_acc``, or ``out`` if ``out_acc`` is empty because ``out`` has the same
    values.
    """
    return out_acc if out_acc.numel() else out


def wants_grad(*args: Any) -> bool:
    """Return True if grad mode is enabled and one of the arguments requires a gradient."""
    return torch.is_grad_enabled() and any(
        isinstance(arg, Tensor) and arg.requires_grad for arg in args
    )
