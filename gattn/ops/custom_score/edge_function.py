"""Wrapper of a user's function of edges. It passes all arguments as one list of tensors.

The parameters of a module follow the arguments in that list, so that they can be differentiated.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import threading
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import Module

from gattn.compat import torch as torch_internals

Tensors: TypeAlias = "Tensor | Sequence[Tensor] | Mapping[str, Tensor] | None"
"""Type of an argument of a user's function: a tensor, a sequence or mapping of tensors, or None."""


def flat_tensors(argument: Tensors) -> list[Tensor]:
    """Return the tensors of an argument as a list."""
    if argument is None:
        return []
    if isinstance(argument, Tensor):
        return [argument]
    return list(argument.values() if isinstance(argument, Mapping) else argument)


class ArgumentSpec(NamedTuple):
    """Structure of nested tensors in an argument; :meth:`build` inserts tensors into it."""

    names: tuple[str, ...] | None
    is_single: bool
    count: int

    @classmethod
    def of(cls, argument: Tensors) -> ArgumentSpec:
        """Return the structure of an argument."""
        names = tuple(argument) if isinstance(argument, Mapping) else None
        return cls(names, isinstance(argument, Tensor), len(flat_tensors(argument)))

    def build(self, tensors: Sequence[Tensor]) -> Any:
        """Return an argument with this structure and these tensors; None if there are none."""
        if self.names is not None:
            return dict(zip(self.names, tensors))
        if self.is_single:
            return tensors[0]
        return tuple(tensors) if self.count else None


class EdgeFunction(NamedTuple):
    """Function object that passes a list of tensors to the user's function.

    The list contains the weight if there is one, the tensors of the arguments, and the parameters.
    """

    function: Callable[..., Tensor]
    specs: tuple[ArgumentSpec, ...]
    has_weight: bool
    """True if the first tensor contains a weight for each edge, by which the result is
    multiplied.
    """
    module: Module | None
    """Module with the parameters; None for a function without parameters."""
    slots: tuple[tuple[str, int], ...]
    """Pair (name, index) of each parameter of the module. A shared parameter has several names."""

    @classmethod
    def of(
        cls, function: Callable[..., Tensor], arguments: Sequence[Tensors], has_weight: bool
    ) -> EdgeFunction:
        """Wrap a function, a module, or a method of a module for these arguments. The wrapper uses
        the present values of a function's closure variables.
        """
        function = _snapshot_closure(torch_internals.uncompiled(function))
        owner = _owner(function)
        module = owner if owner is function or owner is None else _Method(function)
        slots = () if module is None else _slots(module)
        return cls(function, tuple(map(ArgumentSpec.of, arguments)), has_weight, module, slots)

    def parameters(self) -> list[Tensor]:
        """Return the parameters of the module, without repetitions."""
        return [] if self.module is None else list(self.module.parameters())

    def versions(self) -> list[tuple[Tensor, int]]:
        """Return the buffers of the module, each with torch's counter of in-place writes."""
        buffers = [] if self.module is None else self.module.buffers()
        return [(buffer, buffer._version) for buffer in buffers if not buffer.is_inference()]

    def check_unwritten(self, versions: Sequence[tuple[Tensor, int]]) -> None:
        """Raise RuntimeError if a buffer has changed since the forward pass, because a second call
        could then give another result.
        """
        if any(buffer._version != version for buffer, version in versions):
            raise RuntimeError(
                "a buffer of the module whose function of edges is differentiated was written to "
                "after forward: backward calls the function again, with the buffers of forward"
            )

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Call the function on b edges, and multiply the result by the weights if there are any.

        The parameters in ``tensors`` replace the module's parameters during the call, so the caller
        must hold the :func:`parameter_lock`. Raises ValueError if there are weights and the result
        is not [b, h, c].
        """
        if self.has_weight:
            weight, output = tensors[0], self._call(*tensors[1:])
            if output.dim() != 3 or output.shape[:2] != weight.shape:
                raise ValueError(
                    f"message must return (b, {weight.shape[1]}, c), a row for each of b "
                    f"edges and head; for {weight.shape[0]} edges it returned "
                    f"{tuple(output.shape)}"
                )
            return weight.unsqueeze(-1).to(output.dtype) * output
        return self._call(*tensors)

    def call_in_place(self, *tensors: Tensor) -> Tensor:
        """Call the function for b edges with the module's present parameters, and not with those in
        ``tensors``. Raises ValueError like :meth:`__call__`.
        """
        return self._replace(module=None, slots=())(*tensors)

    def _call(self, *tensors: Tensor) -> Tensor:
        """Call the function with its arguments, rebuilt from the flat list of tensors, and with the
        parameters that follow them in the list.
        """
        arguments, start = [], 0
        for spec in self.specs:
            arguments.append(spec.build(tensors[start : start + spec.count]))
            start += spec.count
        if self.module is None:
            return self.function(*arguments)
        values = tensors[start:]
        parameters = {name: values[i] for name, i in self.slots}
        return torch.func.functional_call(
            self.module, parameters, tuple(arguments), tie_weights=False
        )

    @property
    def name(self) -> str:
        """Name of the user's function in error messages."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @property
    def is_builtin(self) -> bool:
        """True if the function belongs to one of gattn's layers."""
        return (getattr(self.function, "__module__", None) or "").startswith("gattn.")

    @property
    def code(self) -> types.CodeType | None:
        """Code object by which a compiled function is cached; None if there is none, as for
        functions in C.

        Closures with the same code and different values share one entry of the cache.
        """
        function = self.function
        if isinstance(function, Module):
            function = type(function).forward
        function = getattr(function, "__func__", function)
        return getattr(function, "__code__", None)


_PARAMETER_LOCK = threading.RLock()
"""Lock that a thread holds while it replaces the parameters of a module during a call."""


def parameter_lock(function: Callable[..., Tensor]) -> contextlib.AbstractContextManager[object]:
    """Return the lock for reading or replacing the parameters of a module during a call."""
    # torch.compile does not replace parameters, so its trace needs no lock.
    if _owner(function) is None or torch.compiler.is_compiling():
        return contextlib.nullcontext()
    return _PARAMETER_LOCK


def _owner(function: Callable[..., Tensor]) -> Module | None:
    """Return the module to which a function belongs, or None if it belongs to none."""
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    return owner if isinstance(owner, Module) else None


def _snapshot_closure(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a copy of a function whose closure variables have their present values.

    The caller may change such a variable before backward calls the function again, for example in
    a loop over temperatures.
    """
    if not isinstance(function, types.FunctionType) or not function.__closure__:
        return function
    cells = tuple(map(_snapshot_cell, function.__closure__))
    snapshot = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    snapshot.__kwdefaults__ = function.__kwdefaults__
    snapshot.__qualname__ = function.__qualname__
    # The copy includes the function's __dict__, in which torch.compiler.disable stores a flag.
    snapshot.__dict__.update(function.__dict__)
    return snapshot


def _snapshot_cell(cell: types.CellType) -> types.CellType:
    """Return a copy of a closure variable; the cell itself if the variable has no value yet."""
    try:
        return types.CellType(cell.cell_contents)
    # The variable has no value yet, so the cell is not copied.
    except ValueError:
        return cell


def _slots(module: Module) -> tuple[tuple[str, int], ...]:
    """Return the name of every parameter of a module, and its index in ``module.parameters()``.

    A submodule that has two names is listed once. ``functional_call`` with ``tie_weights`` would
    replace its parameters twice, and then restore the replacement instead of the parameter.
    """
    number = {parameter: i for i, parameter in enumerate(module.parameters())}
    return tuple(
        (f"{path}.{name}" if path else name, number[parameter])
        for path, submodule in module.named_modules()
        for name, parameter in submodule.named_parameters(recurse=False, remove_duplicate=False)
    )


class _Method(Module):
    """Module whose forward method calls another method of a module."""

    def __init__(self, method: Callable[..., Tensor]) -> None:
        super().__init__()
        self.owner = getattr(method, "__self__", None)
        self.method = method

    def forward(self, *arguments: Any) -> Tensor:
        return self.method(*arguments)


def compiled(
    function: Callable[..., Any], call: EdgeFunction, edges: int, device: torch.device
) -> Callable[..., Any]:
    """Return a version of ``function`` that is compiled for this number of edges.

    Without a compiler, or if torch cannot compile the function, it runs uncompiled and a warning is
    issued. The reasons of failures are remembered, so that each is tried once.
    """
    if call.code is None or call.code in _uncompilable or not _can_compile(device.type):
        return function
    fast = _compiled(function, call.code, edges)

    def attempt(*arguments: Any) -> Any:
        """Call the compiled function. If torch cannot compile it, return the result of the plain
        function, warn, and remember the reason, so that it is not compiled again. Raises the errors
        of the function.
        """
        try:
            return fast(*arguments)
        except Exception as error:
            # If the error is in the user's function itself, calling it directly raises the same
            # error with a clearer traceback.
            output = function(*arguments)
            message = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            _uncompilable[call.code] = message
            warnings.warn(
                f"{call.name} runs uncompiled, several times slower: torch could not compile it "
                f"({message})",
                stacklevel=2,
            )
            return output

    return attempt


_uncompilable: dict[types.CodeType | None, str] = {}
"""Functions that torch could not compile, with the compiler's message. The keys are code
objects.
"""


def compile_obstacle(call: EdgeFunction, device: torch.device) -> str:
    """Return the reason why a function cannot be compiled for many edges; "" if it can.

    This does not start a compilation: an error of the compiler is reported only after the first
    call in the process.
    """
    if call.code is None:
        return "torch compiles only functions and modules written in Python"
    if call.code in _uncompilable:
        return f"torch could not compile it ({_uncompilable[call.code]}): rewrite that code"
    if getattr(call.function, "_torchdynamo_disable", False):
        return "torch.compiler.disable keeps it uncompiled"
    if device.type == "cpu" and not _has_compiler():
        return f"torch finds no {_compiler_name()}, which it needs: install a C++ compiler"
    return ""


@functools.cache
def _compiled(function: Callable[..., Any], code: types.CodeType, edges: int) -> Callable[..., Any]:
    """Return a compiled copy of ``function`` for each user's function and number of edges.

    torch caches compiled code by code object, so each user's function needs its own copy. With
    several sizes, torch would generate slower code for dynamic shapes.
    """
    assert isinstance(function, types.FunctionType)
    duplicate = types.FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip
    duplicate.__kwdefaults__ = function.__kwdefaults__
    return torch.compile(duplicate)


@functools.cache
def _can_compile(device: str) -> bool:
    """Return True if torch finds a compiler for a device; otherwise warn once. Only the CPU is
    checked.
    """
    if device != "cpu" or _has_compiler():
        return True
    warnings.warn(
        f"a custom score runs uncompiled, several times slower: torch finds no {_compiler_name()}",
        stacklevel=2,
    )
    return False


def _has_compiler() -> bool:
    """Return True if torch finds a C++ compiler on this system."""
    return shutil.which(_compiler_name()) is not None or shutil.which("clang++") is not None


def _compiler_name() -> str:
    return os.environ.get("CXX", "g++")
