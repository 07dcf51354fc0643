"""Operators of torch's dispatcher, each declared once.

From its declaration an operator has its schema, its kernel on every backend, a fake one for
tracing, and its derivative. The derivative is registered at the dispatcher's Autograd key: that
keeps the operator opaque to torch.compile and costs less per call than
torch.library.register_autograd.
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
"""What an operator was called with and what it returned, by name, as far as it is kept."""
Gradients = Mapping[str, Tensor | None]
Derivative = Callable[["Operator", Tensor, SavedValues, frozenset[str]], Gradients]
"""(operator, gradient of its first output, what was given, inputs whose gradients are wanted)."""
Setting = type[float] | type[bool] | tuple[str, ...]
"""A number, a boolean, or a choice among words."""

OPERATORS: dict[str, Operator] = {}
"""Every operator that is declared, by name."""

DIMENSIONS: dict[str, str | None] = {
    "n": None, "m": None, "e": None, "h": "heads", "u": "value_heads", "c": "channels",
    "w": "value_channels", "d": "features", "b": "bias_heads",
}  # fmt: skip
"""What the C++ kernels call the lengths that letters stand for; None for those that they are told
otherwise, as by a layout. A shape may have no other letter."""

_library = torch.library.Library("gattn", "DEF")
_TRANSFORMED = (
    "gattn::{name} does not run under torch.func.{transform}. Its plain PyTorch form does: pass "
    "backend='reference' to a function that takes it, or set GATTN_BACKEND=reference. (Layers take "
    "b sets of features on one graph without vmap, as [b, n, d].)"
)

_SEED = "gattn::{name}: seed must be [2], a key and the number of the first edge, not {shape}"


class Operator:
    """An operator, whose kernel is a function of its name in each backend.

    It takes, in this order: inputs, statistics, the layout, the seed, settings, flags, and the
    name of the backend. The reference takes the same but for flags and backend.
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
        """Define an operator.

        Args:
            name: its own and that of its kernels.
            inputs: tensors of one dtype, by their shapes; see :mod:`gattn.ops.registration.shapes`.
            outputs: likewise.
            statistics: tensors that another operator returned.
            layout: whether it takes the layout of a graph.
            seed: whether it takes the generator's key, or None for no dropout.
            settings: numbers, booleans and choices.
            flags: booleans that the reference does not take.
            fallback_input: for an input that may be absent, the one that then stands for it.
            lengths: what the C++ kernel calls the lengths that letters stand for.
            reference: the operator in plain PyTorch.
            derivative: how the gradients of its inputs are found from that of its first output.
            saves: what ``derivative`` is given, beside the layout, the settings and the flags.
        """
        settings = settings or {}
        types = {n: "Tensor?" if shape.endswith("?") else "Tensor" for n, shape in inputs.items()}
        types |= dict.fromkeys(statistics, "Tensor")
        types |= {"layout": "Tensor[]"} if layout else {}
        types |= {"seed": "Tensor?"} if seed else {}
        types |= {n: "str" if isinstance(t, tuple) else t.__name__ for n, t in settings.items()}
        self.reference_args = tuple(types)[len(inputs) :]
        """What the reference takes after the inputs."""
        types |= dict.fromkeys(flags, "bool") | {"backend": "str"}

        self.name = name
        self.inputs, self.parameters, self.outputs = tuple(inputs), tuple(types), tuple(outputs)
        self.reference, self.derivative = reference, derivative
        self.shapes, self.settings, self.flags = dict(inputs), dict(settings), tuple(flags)
        self.fallback_input = dict(fallback_input or {})
        self._shapes = Shapes(self.parameters, inputs, outputs, self.fallback_input)
        unknown = set(self._shapes.letters) - lengths.keys()
        if unknown:
            raise ValueError(f"{name}: lengths must say what {min(unknown)!r} is to a C++ kernel")
        self._lengths = tuple(map(lengths.__getitem__, self._shapes.letters))
        named = (*self.parameters, *self.outputs)
        self._words = tuple(
            (named.index(n), kind) for n, kind in settings.items() if isinstance(kind, tuple)
        )
        self._layout = named.index("layout") if layout else None
        self._out_acc = named.index("out_acc") if "out_acc" in outputs else None
        self._saved = tuple(saves)
        self._saved_at = tuple(named.index(n) for n in self._saved)
        first = "out_acc" if self._out_acc is not None else self.outputs[0]
        self.keeps_out = self._saved.index(first) if first in self._saved else None
        """Index of the first output (or its sum of values) among the saved tensors, or None."""
        self._unsaved = (*settings, *self.flags, "backend")
        self._unsaved_at = slice(-len(self._unsaved), None)
        self._function = type(f"_{name}", (_Recorded,), {})
        self.overload = self._register(types)
        OPERATORS[name] = self

    def __call__(self, *args: Any, backend: str | None) -> Any:
        """Run it on the backend for the device of its first input, or on the one of this name."""
        backend = select(backend, args[0].device)
        if backend == "reference":
            assert self.reference is not None
            if path_trace.listeners:
                path_trace.report_reference(self.name, args[0].device.type)
            return self.reference(*args)
        return self.overload(*args, backend)

    def _register(self, types: Mapping[str, str]) -> Callable[..., Any]:
        """Define and implement it with the dispatcher."""
        name = self.name
        selected = ", ".join(f"{kind} {n}" for n, kind in types.items())
        returned = ", ".join(["Tensor"] * len(self.outputs))
        returned = returned if len(self.outputs) == 1 else f"({returned})"
        _library.define(f"{name}({selected}) -> {returned}", tags=(torch.Tag.pt2_compliant_tag,))
        overload = getattr(torch.ops.gattn, name).default
        at_seed = self.parameters.index("seed") if "seed" in types else None

        def kernel(*args: Any) -> Any:
            if at_seed is not None and (seed := args[at_seed]) is not None and seed.numel() != 2:
                raise ValueError(_SEED.format(name=name, shape=list(seed.shape)))
            if args[-1] == "cpu":
                return self._on_cpu(args)
            return getattr(launchers(args[-1]), name)(*args[:-1])

        def autograd(*args: Any) -> Any:
            if torch_internals.forward_mode_active() and any(map(_has_tangent, args)):
                raise RuntimeError(
                    f"gattn::{name} has no forward-mode derivative; backend='reference' has one, "
                    "or GATTN_BACKEND=reference where a function does not take it"
                )
            if self.derivative is not None and wants_grad(*args):
                if torch_internals.transforms_active():
                    refuse()
                return self._function.apply(self, *args)
            return below_autograd(overload, *args)

        def refuse(*args: Any) -> Any:
            raise RuntimeError(
                _TRANSFORMED.format(name=name, transform=torch_internals.innermost_transform())
            )

        def one_by_one(*args: Any) -> Any:
            return torch_internals.map_one_by_one(overload, args)

        def fake(*args: Any) -> Any:
            return self._returned(
                self._shapes.allocate_outputs(args, self._shapes.lengths(args), _fake_empty)
            )

        _library.impl(name, kernel, "CompositeExplicitAutograd")
        _library.impl(name, autograd, "Autograd")
        _library.impl(name, refuse, "FuncTorchBatched")
        _library.impl(name, one_by_one, "Batched")
        torch.library.register_fake(f"gattn::{name}", fake, lib=_library)
        return overload

    def _on_cpu(self, args: Sequence[Any]) -> Any:
        """Make room for the outputs and launch the C++ kernel."""
        lengths = self._shapes.lengths(args)
        outputs = self._shapes.allocate_outputs(args, lengths, cpu.empty)
        values = [*args, *outputs, *lengths]
        for position, words in self._words:
            values[position] = words.index(args[position])
        self._launch(values)
        return self._returned(outputs)

    @functools.cached_property
    def _launch(self) -> cpu.Launcher:
        """The C++ kernel, which has a field for each parameter, output and length."""
        names = (*self.parameters, *self.outputs, *self._lengths)
        fields = self._fields
        places = {n: at for at, n in enumerate(names) if n in fields}
        # Kernels of one file share their fields: a tensor or a length may be another's alone. A
        # setting of one is a setting of all, or it would be zero here in silence.
        alike = [o for o in OPERATORS.values() if cpu.share_fields(o.name, self.name)]
        absent = set().union(*(o._fields.difference(o.settings) for o in alike))
        return cpu.Launcher(self.name, places, absent if "seed" in fields else {*absent, "dropout"})

    @property
    def _fields(self) -> set[str]:
        """What its C++ kernel is given, by name."""
        names = {*self.parameters, *self.outputs, *filter(None, self._lengths)}
        return names.difference(self.flags, ("backend",))

    def _returned(self, outputs: list[Tensor]) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def keep(self, args: Sequence[Any], outputs: Sequence[Tensor]) -> tuple[list[Any], Any]:
        """Return what the derivative needs: tensors, those of the layout last, and the rest."""
        values = [*args, *outputs]
        if self._out_acc is not None:
            values[self._out_acc] = value_sum(outputs[0], values[self._out_acc])
        tensors = [values[position] for position in self._saved_at]
        if self._layout is not None:
            tensors += args[self._layout]
        return tensors, args[self._unsaved_at]

    def saved_values(self, tensors: Sequence[Tensor], rest: Sequence[Any]) -> SavedValues:
        """Return the values that :meth:`keep` returned, by name."""
        saved: SavedValues = dict(zip(self._saved, tensors))
        if self._layout is not None:
            saved["layout"] = Layout(*tensors[len(self._saved) :])
        saved.update(zip(self._unsaved, rest))
        return saved

    def recompute_output(self, saved: SavedValues) -> None:
        """Compute the first output again from the saved values, with the same bits."""
        assert self.keeps_out is not None
        result = below_autograd(self.overload, *map(saved.__getitem__, self.parameters))
        saved[self._saved[self.keeps_out]] = result if isinstance(result, Tensor) else result[0]


class WriteGuard(NamedTuple):
    """Detects in-place writes to a tensor without keeping it alive."""

    witness: Tensor
    version: int

    @classmethod
    def of(cls, out: Tensor) -> WriteGuard:
        """A tensor of no memory, in which torch counts the writes to the other."""
        witness = out.detach()
        witness.data = _NOTHING
        return cls(witness, out._version)

    def is_written(self) -> bool:
        """Whether torch has counted a write."""
        return self.witness._version != self.version


_NOTHING = torch.empty(0, device="cpu")


class _Recorded(torch.autograd.Function):
    """An operator as autograd sees it: its first output has a derivative.

    Backward wants to know the first output, which the caller may write to, as ReLU(inplace=True)
    does: then it is computed once more.
    """

    @staticmethod
    def forward(ctx: Any, operator: Operator, *args: Any) -> Any:
        result = below_autograd(operator.overload, *args)
        outputs = (result,) if isinstance(result, Tensor) else tuple(result)
        tensors, ctx.rest = operator.keep(args, outputs)
        ctx.operator, ctx.output_guard, at = operator, None, operator.keeps_out
        if at is not None and tensors[at] is outputs[0] and type(outputs[0]) is Tensor:
            ctx.output_guard = WriteGuard.of(outputs[0])
            tensors[at] = outputs[0].data
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        if len(outputs) == 1:
            return result
        ctx.mark_non_differentiable(*outputs[1:])
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        operator: Operator = ctx.operator
        tensors = ctx.saved_tensors  # read once, as checkpointing demands
        result: Gradients = {}
        if grads[0] is not None:
            assert operator.derivative is not None
            needed = zip(operator.inputs, ctx.needs_input_grad[1:])
            requested = frozenset([name for name, is_needed in needed if is_needed])
            saved = operator.saved_values(tensors, ctx.rest)
            if ctx.output_guard is not None and ctx.output_guard.is_written():
                operator.recompute_output(saved)
            result = operator.derivative(operator, grads[0], saved, requested)
            result = {name: result[name] for name in requested}
        return None, *map(result.get, operator.parameters)


def _fake_empty(like: Tensor, *shape: int, dtype: torch.dtype) -> Tensor:
    return like.new_empty(shape, dtype=dtype)


def _has_tangent(arg: Any) -> bool:
    """Whether forward-mode differentiation carries a tangent on this argument."""
    return isinstance(arg, Tensor) and torch_internals.has_tangent(arg)


def is_transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work."""
    return torch_internals.transforms_active() or torch_internals.forward_mode_active()


def below_autograd(operator: Callable[..., Any], *args: Any) -> Any:
    """Call an operator without recording it."""
    with torch_internals.below_autograd():
        return operator(*args)


def value_sum(out: Tensor, out_acc: Tensor) -> Tensor:
    """The sum of the values: ``out_acc`` where out was rounded or added to."""
    return out_acc if out_acc.numel() else out


def wants_grad(*args: Any) -> bool:
    """Whether autograd will ask for the derivative with respect to one of these."""
    return torch.is_grad_enabled() and any(
        isinstance(arg, Tensor) and arg.requires_grad for arg in args
    )
