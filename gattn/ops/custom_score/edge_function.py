"""A user's function of edges: its arguments as tensors in a row, its parameters beside them."""

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
"""One tensor, several, several by name, or none; a user's function is given the same."""


def flat_tensors(argument: Tensors) -> list[Tensor]:
    """Its tensors in a row."""
    if argument is None:
        return []
    if isinstance(argument, Tensor):
        return [argument]
    return list(argument.values() if isinstance(argument, Mapping) else argument)


class ArgumentSpec(NamedTuple):
    """How an argument is made of tensors."""

    names: tuple[str, ...] | None
    is_single: bool
    count: int

    @classmethod
    def of(cls, argument: Tensors) -> ArgumentSpec:
        """That of an argument."""
        names = tuple(argument) if isinstance(argument, Mapping) else None
        return cls(names, isinstance(argument, Tensor), len(flat_tensors(argument)))

    def build(self, tensors: Sequence[Tensor]) -> Any:
        """The argument again, of these tensors."""
        if self.names is not None:
            return dict(zip(self.names, tensors))
        if self.is_single:
            return tensors[0]
        return tuple(tensors) if self.count else None


class EdgeFunction(NamedTuple):
    """The user's function, as one of tensors in a row: those of its arguments, then parameters."""

    function: Callable[..., Tensor]
    forms: tuple[ArgumentSpec, ...]
    has_weight: bool
    """Whether a weight for each edge comes first, with which the result is multiplied."""
    module: Module | None
    """Whose parameters they are."""
    slots: tuple[tuple[str, int], ...]
    """Where parameters stand in it, by name, and which of them: one may stand at several places."""

    @classmethod
    def of(
        cls, function: Callable[..., Tensor], arguments: Sequence[Tensors], has_weight: bool
    ) -> EdgeFunction:
        """Of a function, a module, or a method of a module, for these arguments."""
        function = _snapshot_closure(torch_internals.uncompiled(function))
        owner = _owner(function)
        module = owner if owner is function or owner is None else _Method(function)
        slots = () if module is None else _slots(module)
        return cls(function, tuple(map(ArgumentSpec.of, arguments)), has_weight, module, slots)

    def parameters(self) -> list[Tensor]:
        """What of the function is learned."""
        return [] if self.module is None else list(self.module.parameters())

    def versions(self) -> list[tuple[Tensor, int]]:
        """The module's buffers, and how often each was written to."""
        buffers = [] if self.module is None else self.module.buffers()
        return [(local, local._version) for local in buffers if not local.is_inference()]

    def check_unwritten(self, versions: Sequence[tuple[Tensor, int]]) -> None:
        """Raise where a buffer was written to since: the function would give something else."""
        if any(local._version != version for local, version in versions):
            raise RuntimeError(
                "a buffer of the module whose function of edges is differentiated was written to "
                "after forward: backward calls the function again, and needs it as it was"
            )

    def __call__(self, *tensors: Tensor) -> Tensor:
        """What the function gives for a batch of edges, times its weights if it has some."""
        if self.has_weight:
            weight, output = tensors[0], self._call(*tensors[1:])
            if output.dim() != 3 or output.shape[:2] != weight.shape:
                raise ValueError(
                    f"message must give (b, {weight.shape[1]}, c), a row for each of b edges and "
                    f"head; of {weight.shape[0]} edges it gave {tuple(output.shape)}"
                )
            return weight.unsqueeze(-1).to(output.dtype) * output
        return self._call(*tensors)

    def call_in_place(self, *tensors: Tensor) -> Tensor:
        """The same where the parameters are the module's own."""
        return self._replace(module=None, slots=())(*tensors)

    def _call(self, *tensors: Tensor) -> Tensor:
        arguments, start = [], 0
        for form in self.forms:
            arguments.append(form.build(tensors[start : start + form.count]))
            start += form.count
        if self.module is None:
            return self.function(*arguments)
        values = tensors[start:]
        parameters = {name: values[i] for name, i in self.slots}
        return torch.func.functional_call(
            self.module, parameters, tuple(arguments), tie_weights=False
        )

    @property
    def name(self) -> str:
        """Name of the user's function, for messages."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    @property
    def is_builtin(self) -> bool:
        """Return True for a function of one of gattn's layers."""
        owner = getattr(self.function, "__self__", self.function)
        module = getattr(owner, "__module__", None) or type(owner).__module__
        return module.startswith("gattn.")

    @property
    def code(self) -> types.CodeType | None:
        """What tells functions apart that are compiled: closures may differ in what they hold."""
        function = self.function
        if isinstance(function, Module):
            function = type(function).forward
        function = getattr(function, "__func__", function)
        return getattr(function, "__code__", None)


_EXCHANGE = threading.RLock()
"""Held while modules have other tensors in place of their parameters: every thread sees those."""


def parameter_lock(function: Callable[..., Tensor]) -> contextlib.AbstractContextManager[object]:
    """Keep other threads out while a module's parameters are read, or exchanged for a call."""
    if _owner(function) is None or torch.compiler.is_compiling():  # which exchanges nothing
        return contextlib.nullcontext()
    return _EXCHANGE


def _owner(function: Callable[..., Tensor]) -> Module | None:
    """The module that a function is, or is a method of."""
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    return owner if isinstance(owner, Module) else None


def _snapshot_closure(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function with what its variables from outside hold now, and not by the time it is
    called again, as in a loop over temperatures."""
    if not isinstance(function, types.FunctionType) or not function.__closure__:
        return function
    cells = tuple(map(_snapshot_cell, function.__closure__))
    local = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )
    local.__kwdefaults__, local.__qualname__ = function.__kwdefaults__, function.__qualname__
    local.__dict__.update(function.__dict__)  # where torch.compiler.disable leaves its mark
    return local


def _snapshot_cell(cell: types.CellType) -> types.CellType:
    try:
        return types.CellType(cell.cell_contents)
    except ValueError:  # it holds nothing yet
        return cell


def _slots(module: Module) -> tuple[tuple[str, int], ...]:
    """The places of a module's parameters, each once, and the number of the one that stands there.

    A part that a module has under two names is one part: torch's own ties would exchange its
    parameters twice, and put back what stood there in between.
    """
    number = {parameter: i for i, parameter in enumerate(module.parameters())}
    return tuple(
        (f"{path}.{name}" if path else name, number[parameter])
        for path, part in module.named_modules()
        for name, parameter in part.named_parameters(recurse=False, remove_duplicate=False)
    )


class _Method(Module):
    """A module whose forward is a method of another, or of a part of it."""

    def __init__(self, method: Callable[..., Tensor]) -> None:
        super().__init__()
        self.owner = getattr(method, "__self__", None)
        self.method = method

    def forward(self, *arguments: Any) -> Tensor:
        return self.method(*arguments)


def compiled(
    function: Callable[..., Any], call: EdgeFunction, edges: int, device: torch.device
) -> Callable[..., Any]:
    """A function that makes this call for so many edges, compiled by torch, where it finds what it
    compiles with."""
    if call.code is None or call.code in _uncompilable or not _can_compile(device.type):
        return function
    local = _compiled(function, call.code, edges)

    def attempt(*arguments: Any) -> Any:
        try:
            return local(*arguments)
        except Exception as error:
            output = function(*arguments)  # what is wrong with the user's function itself is raised
            message = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            _uncompilable[call.code] = message
            warnings.warn(
                f"{call.name} runs uncompiled, some times slower: torch could not compile it "
                f"({message})",
                stacklevel=2,
            )
            return output

    return attempt


_uncompilable: dict[types.CodeType | None, str] = {}
"""Error of torch's compiler by code of a function that it could not compile."""


def compile_obstacle(call: EdgeFunction, device: torch.device) -> str:
    """Say why a function runs uncompiled on many edges; empty if torch compiles it.

    It does not compile: what torch cannot compile is known after the first call of a process.
    """
    if call.code is None:
        return "torch compiles only functions and modules written in Python"
    if call.code in _uncompilable:
        return f"torch could not compile it ({_uncompilable[call.code]}): rewrite what it names"
    if getattr(call.function, "_torchdynamo_disable", False):
        return "torch.compiler.disable keeps it uncompiled"
    if device.type == "cpu" and not _has_compiler():
        return f"torch finds no {_compiler_name()} to compile it with: install a C++ compiler"
    return ""


@functools.cache
def _compiled(function: Callable[..., Any], code: types.CodeType, edges: int) -> Callable[..., Any]:
    """A copy of the function for each code of a user, and number of edges: what torch compiles it
    keeps by code, and of other sizes it would make code for any size."""
    assert isinstance(function, types.FunctionType)
    local = types.FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip
    local.__kwdefaults__ = function.__kwdefaults__
    return torch.compile(local)


@functools.cache
def _can_compile(device: str) -> bool:
    """Whether torch finds what it compiles with; if it does not, that is told once."""
    if device != "cpu":
        return True
    if _has_compiler():
        return True
    warnings.warn(
        f"a score of your own runs uncompiled, some times slower: torch finds no "
        f"{_compiler_name()}",
        stacklevel=2,
    )
    return False


def _has_compiler() -> bool:
    """Return True if torch finds a C++ compiler."""
    return shutil.which(_compiler_name()) is not None or shutil.which("clang++") is not None


def _compiler_name() -> str:
    return os.environ.get("CXX", "g++")
