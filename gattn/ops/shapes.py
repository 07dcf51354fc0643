"""Shapes in letters: the lengths that an operator's inputs have, and room for its outputs.

n destination nodes, m source nodes, e edges, h heads, c channels, d edge features; g and w are the
heads and the channels of a value that has its own. A shape that ends in "?" is that of an input
that may be absent: "e h?".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gattn.kernels.layout import Layout
from gattn.kernels.precision import acc_dtype, is_rounded

Empty = Callable[..., Tensor]
"""Makes room: ``empty(like, *shape, dtype=dtype)``."""

_OF_LAYOUT = {"n": ("rowptr", "colptr", 1), "m": ("colptr", "rowptr", 1), "e": ("col", "row", 0)}
"""Where a length is read that no input has: a field, that of the transposed graph, what is over."""


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
        instead: Mapping[str, str],
    ) -> None:
        """``instead`` names the input that serves where another is absent."""
        at = {name: position for position, name in enumerate(parameters)}
        found: dict[str, tuple[int, int, int | None]] = {}
        for name in sorted(inputs, key=lambda name: inputs[name].endswith("?")):  # given ones first
            other = at[instead[name]] if name in instead else None
            for axis, letter in enumerate(inputs[name].rstrip("?").split()):
                found.setdefault(letter, (at[name], axis, other))
        used = {letter for out in outputs.values() for letter in out.shape.split()}
        self._found = tuple(found.values())
        self._of_layout = tuple(_OF_LAYOUT[letter] for letter in sorted(used - set(found)))
        self.letters = (*found, *sorted(used - set(found)))
        self._layout, self._transposed = at.get("layout"), at.get("transposed")
        self._like = at[next(iter(inputs))]
        self._rooms = tuple(_Room(out, self.letters, at) for out in outputs.values())

    def lengths(self, args: Sequence[Any]) -> list[int]:
        """The length of each letter, 0 for those of absent inputs."""
        lengths = []
        for position, axis, instead in self._found:
            t = args[position]
            if t is None and instead is not None:
                t = args[instead]
            lengths.append(0 if t is None else t.size(axis))
        for field, field_transposed, over in self._of_layout:
            layout = Layout(*args[self._layout])
            turned = self._transposed is not None and args[self._transposed]
            lengths.append(getattr(layout, field_transposed if turned else field).size(0) - over)
        return lengths

    def room(self, args: Sequence[Any], lengths: Sequence[int], empty: Empty) -> list[Tensor]:
        """Uninitialised memory for the outputs."""
        like = args[self._like]
        dtype = like.dtype
        sums = acc_dtype(dtype)
        return [
            empty(like, *room.shape(args, lengths, dtype), dtype=sums if room.acc else dtype)
            for room in self._rooms
        ]


class _Room:
    """An output's letters and conditions as positions."""

    def __init__(self, out: Out, letters: Sequence[str], at: Mapping[str, int]) -> None:
        self.acc = out.acc
        self._axes = tuple(letters.index(letter) for letter in out.shape.split())
        self._conditions = tuple(at[name] for name in out.only_if)
        self._of_sum = out.of_sum
        self._added = None if out.added is None else at[out.added]

    def shape(
        self, args: Sequence[Any], lengths: Sequence[int], dtype: torch.dtype
    ) -> Sequence[int]:
        shape = [lengths[axis] for axis in self._axes]
        for position in self._conditions:
            if args[position] is None or args[position] is False:
                return (0, *shape[1:]) if self.acc and not self._of_sum else (0,)
        if self._of_sum and not is_rounded(dtype):
            if self._added is None or args[self._added] is None:
                return (0,)
        return shape
