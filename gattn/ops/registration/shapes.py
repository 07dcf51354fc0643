"""Symbolic shapes of the inputs and outputs of operators, from which outputs are allocated.

A shape is a string of letters such as "e h": n destination nodes, m source nodes, e edges, h heads,
c channels, d edge features. If the value has other heads and channels, they are u and w (h_v and
c_v in docstrings). b is the number of heads of a bias, which is h or 1. A question mark at the end,
as in "e h?", marks an optional input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gattn.kernels.precision import acc_dtype, is_rounded
from gattn.layout.layout import Layout

Empty = Callable[..., Tensor]
"""Type of a function that allocates a tensor: ``empty(like, *shape, dtype=dtype)``."""

_FIELDS = {"n": ("rowptr", "colptr"), "m": ("colptr", "rowptr"), "e": ("col", "row")}
"""Tensors of a layout, and of its transpose, from which n, m or e is read if no input has this
length.
"""


@dataclasses.dataclass(frozen=True)
class Out:
    """Declaration of an output: its shape, its dtype, and the conditions under which it exists."""

    shape: str
    acc: bool = False
    """True if the output has the accumulation dtype instead of the dtype of the inputs."""
    only_if: tuple[str, ...] = ()
    """Flags and optional inputs that must be set; otherwise the output is empty."""
    of_sum: bool = False
    """True if the output is the first output before rounding, and before another input is added."""
    added: str | None = None
    """Name of the optional input that is added to the first output."""


def acc(shape: str, *only_if: str) -> Out:
    """Declare a statistic that forward saves for backward, in the accumulation dtype."""
    return Out(shape, acc=True, only_if=only_if)


def out_acc(shape: str, added: str | None = None) -> Out:
    """Declare the weighted sum of the values that forward saves for backward.

    It is empty if the first output has the same values, because it is not rounded and no input is
    added.
    """
    return Out(shape, acc=True, only_if=("needs_backward",), of_sum=True, added=added)


class Shapes:
    """Shapes of the inputs and outputs of one operator. They are analysed once, when the
    operator is declared.
    """

    def __init__(
        self,
        parameters: Sequence[str],
        inputs: Mapping[str, str],
        outputs: Mapping[str, Out],
        fallback_input: Mapping[str, str],
    ) -> None:
        """Analyse the shapes. ``parameters`` are the names of the operator's arguments, in order.
        If the input that contains a length is absent, the length is read from ``fallback_input``.
        """
        positions = {name: position for position, name in enumerate(parameters)}
        sources: dict[str, tuple[int | None, int, int | None]] = {}
        # Lengths are read from required inputs first, because an optional input may be absent.
        for name in sorted(inputs, key=lambda name: inputs[name].endswith("?")):
            other = positions[fallback_input[name]] if name in fallback_input else None
            for axis, letter in enumerate(inputs[name].rstrip("?").split()):
                sources.setdefault(letter, (positions[name], axis, other))
        for letter in (letter for out in outputs.values() for letter in out.shape.split()):
            sources.setdefault(letter, (None, 0, None))
        self.letters = tuple(sources)
        fields = _FIELDS if "layout" in positions else {}
        self._sources = tuple(
            (*source, [Layout._fields.index(field) for field in fields.get(letter, ())])
            for letter, source in sources.items()
        )
        self._layout, self._transposed = positions.get("layout", -1), positions.get("transposed")
        self._like = positions[next(iter(inputs))]
        self._output_specs = tuple(
            OutputSpec(out, self.letters, positions) for out in outputs.values()
        )

    def lengths(self, args: Sequence[Any]) -> list[int]:
        """Return the lengths in a call that the letters of the shapes stand for, as a list in the
        order of ``letters``. A length is 0 if the letter occurs only in absent inputs and is no
        size of the layout.
        """
        lengths = []
        for position, axis, fallback, fields in self._sources:
            t = None if position is None else args[position]
            if t is None and fallback is not None:
                t = args[fallback]
            if t is not None:
                lengths.append(t.shape[axis])
            elif fields:
                lengths.append(self._length_of_layout(args, fields))
            else:
                lengths.append(0)
        return lengths

    def _length_of_layout(self, args: Sequence[Any], fields: Sequence[int]) -> int:
        """Return a length from the layout among the arguments: of the other direction if the
        operator is transposed.
        """
        is_transposed = self._transposed is not None and args[self._transposed]
        field = fields[1 if is_transposed else 0]
        length = args[self._layout][field].shape[0]
        return length - 1 if Layout._fields[field] in ("rowptr", "colptr") else length

    def allocate_outputs(
        self, args: Sequence[Any], lengths: Sequence[int], empty: Empty
    ) -> list[Tensor]:
        """Allocate uninitialised memory for the outputs of a call by the function ``empty``. An
        output whose conditions are not met is an empty tensor.
        """
        like = args[self._like]
        dtype = like.dtype
        sums = acc_dtype(dtype)
        outputs = []
        for spec in self._output_specs:
            shape = [lengths[axis] for axis in spec.axes]
            if spec.is_conditional:
                shape = spec.allocated_shape(shape, args, dtype)
            outputs.append(empty(like, *shape, dtype=sums if spec.acc else dtype))
        return outputs


class OutputSpec:
    """Declaration of an output in which positions replace letters and names.

    Args:
        out: the declaration.
        letters: the letters of the operator's shapes.
        positions: position of each parameter of the operator by name.
    """

    def __init__(self, out: Out, letters: Sequence[str], positions: Mapping[str, int]) -> None:
        self.acc, self.is_conditional = out.acc, bool(out.only_if)
        self.axes = tuple(letters.index(letter) for letter in out.shape.split())
        self._conditions = tuple(positions[name] for name in out.only_if)
        self._of_sum = out.of_sum
        self._added = None if out.added is None else positions[out.added]

    def allocated_shape(
        self, shape: list[int], args: Sequence[Any], dtype: torch.dtype
    ) -> list[int]:
        """Return ``shape`` if the conditions of the output are met, otherwise the shape of an
        empty tensor: [0], or [0, ...] for a statistic. An ``out_acc`` is also empty if the first
        output has the same values.
        """
        for position in self._conditions:
            if args[position] is None or args[position] is False:
                return [0, *shape[1:]] if self.acc and not self._of_sum else [0]
        is_added = self._added is not None and args[self._added] is not None
        return [0] if self._of_sum and not is_rounded(dtype) and not is_added else shape
