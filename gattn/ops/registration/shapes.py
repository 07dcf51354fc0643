"""Shapes in letters: the lengths that an operator's inputs have, and room for its outputs.

n destination nodes, m source nodes, e edges, h heads, c channels, d edge features; u and w are the
heads and the channels of a value that has its own (h_v and c_v in docstrings), b the heads of a
bias, which are h or 1. A shape that ends in "?" is that of an input that may be absent: "e h?".
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
"""Makes room: ``empty(like, *shape, dtype=dtype)``."""

_FIELDS = {"n": ("rowptr", "colptr"), "m": ("colptr", "rowptr"), "e": ("col", "row")}
"""Which tensor of a layout has a length that no input has, and which that of its transpose."""


@dataclasses.dataclass(frozen=True)
class Out:
    """An output of an operator, by its shape and when it is kept."""

    shape: str
    acc: bool = False
    """In the dtype that sums run in, not in that of the inputs."""
    only_if: tuple[str, ...] = ()
    """Flags that must be set and inputs that must be given: without them it has no rows."""
    of_sum: bool = False
    """It is the first output before that is rounded, or before something is added to it."""
    added: str | None = None
    """The input that adds to the first output, where it is given."""


def acc(shape: str, *only_if: str) -> Out:
    """A statistic that forward keeps for backward."""
    return Out(shape, acc=True, only_if=only_if)


def out_acc(shape: str, added: str | None = None) -> Out:
    """The sum of the values, kept where backward asks and the output is not just that."""
    return Out(shape, acc=True, only_if=("needs_backward",), of_sum=True, added=added)


class Shapes:
    """The shapes of one operator, with all that can be known of them before it is called."""

    def __init__(
        self,
        parameters: Sequence[str],
        inputs: Mapping[str, str],
        outputs: Mapping[str, Out],
        fallback_input: Mapping[str, str],
    ) -> None:
        """``fallback_input`` names the input that serves where another is absent."""
        at = {name: position for position, name in enumerate(parameters)}
        sources: dict[str, tuple[int | None, int, int | None]] = {}
        for name in sorted(inputs, key=lambda name: inputs[name].endswith("?")):  # given ones first
            other = at[fallback_input[name]] if name in fallback_input else None
            for axis, letter in enumerate(inputs[name].rstrip("?").split()):
                sources.setdefault(letter, (at[name], axis, other))
        for letter in (letter for out in outputs.values() for letter in out.shape.split()):
            sources.setdefault(letter, (None, 0, None))
        self.letters = tuple(sources)
        fields = _FIELDS if "layout" in at else {}
        self._sources = tuple(
            (*source, [Layout._fields.index(field) for field in fields.get(letter, ())])
            for letter, source in sources.items()
        )
        self._layout, self._transposed = at.get("layout", -1), at.get("transposed")
        self._like = at[next(iter(inputs))]
        self._output_specs = tuple(OutputSpec(out, self.letters, at) for out in outputs.values())

    def lengths(self, args: Sequence[Any]) -> list[int]:
        """The length of each letter, 0 for that of an absent input."""
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
        is_transposed = self._transposed is not None and args[self._transposed]
        field = fields[1 if is_transposed else 0]
        length = args[self._layout][field].shape[0]
        return length - 1 if Layout._fields[field] in ("rowptr", "colptr") else length

    def allocate_outputs(
        self, args: Sequence[Any], lengths: Sequence[int], empty: Empty
    ) -> list[Tensor]:
        """Uninitialised memory for the outputs."""
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
    """An output's letters and conditions as positions."""

    def __init__(self, out: Out, letters: Sequence[str], at: Mapping[str, int]) -> None:
        self.acc, self.is_conditional = out.acc, bool(out.only_if)
        self.axes = tuple(letters.index(letter) for letter in out.shape.split())
        self._conditions = tuple(at[name] for name in out.only_if)
        self._of_sum = out.of_sum
        self._added = None if out.added is None else at[out.added]

    def allocated_shape(
        self, shape: list[int], args: Sequence[Any], dtype: torch.dtype
    ) -> list[int]:
        """Return the shape of an output that is computed, and an empty one for any other."""
        for position in self._conditions:
            if args[position] is None or args[position] is False:
                return [0, *shape[1:]] if self.acc and not self._of_sum else [0]
        is_added = self._added is not None and args[self._added] is not None
        return [0] if self._of_sum and not is_rounded(dtype) and not is_added else shape
