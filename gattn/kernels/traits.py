"""What is known of a layout beyond its sizes, measured once and remembered while it lives.

It is remembered for the offsets, as objects, and only for those that a Graph holds: compiled code
may put other numbers into the tensors of a layout that it made for itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from gattn.kernels.layout import Layout, num_rows

WINDOW = 64
"""Destinations of a window, of which density speaks."""
SMALL = 64
"""Most nodes of a graph that one program takes as a whole."""
LEAST_DEGREE = 8
"""Mean degree from which a layout is asked whether it is made of runs."""


class Traits(NamedTuple):
    """What decides which kernels serve a layout."""

    runs: bool
    """Whether each destination's sources are consecutive nodes, none twice, and conversely."""
    density: float
    """Edges per pair of a destination and a source in the rectangle around each window."""
    windows: Tensor | None = None
    """[w + 1]: where the nodes of a batch of small graphs may be divided so that no edge crosses;
    source and destination of a number are one node. It is never measured, only noted (see
    :func:`gattn.graphs.batched`)."""


_known: WeakIdKeyDictionary = WeakIdKeyDictionary()
"""Of a rowptr; None where nothing has been measured yet."""
_longest: WeakIdKeyDictionary = WeakIdKeyDictionary()


def hold(layout: Layout) -> None:
    """Say that these tensors are a Graph's own, of which may be remembered what is measured."""
    if not torch.compiler.is_compiling():
        _known.setdefault(layout.rowptr, None)


def release(layout: Layout) -> None:
    """Forget what is known of a layout that is handed to compiled code."""
    for offsets in (layout.rowptr, layout.colptr):
        _known.pop(offsets, None)
        _longest.pop(offsets, None)


def note(layout: Layout, traits: Traits) -> None:
    """Remember what the maker of a layout knows of it, so that it need not be measured."""
    _known[layout.rowptr] = traits


def note_batch(layout: Layout, bounds: list[int]) -> None:
    """Remember that no edge leaves the graphs of a batch, if all are small and sparse ones.

    Graph b has the nodes bounds[b] to bounds[b + 1] - 1.
    """
    most = max((stop - start for start, stop in itertools.pairwise(bounds)), default=0)
    if 0 < most <= SMALL and layout.col.numel() < LEAST_DEGREE * num_rows(layout.rowptr):
        rowptr = layout.rowptr
        windows = torch.tensor(bounds, dtype=rowptr.dtype, device=rowptr.device)
        note(layout, Traits(False, 0.0, windows))


def carry(old: Layout, new: Layout, move: Callable[[Tensor], Tensor]) -> None:
    """Remember of edges among the same nodes, within the same graphs, where these lie."""
    traits, nodes = known(old.rowptr), num_rows(old.rowptr)
    same = nodes == num_rows(new.rowptr) == num_rows(new.colptr)
    if traits is not None and traits.windows is not None and same:
        note(new, Traits(False, 0.0, move(traits.windows)))


def note_longest(layout: Layout, incoming: int, outgoing: int) -> None:
    """Remember that no destination and no source of a layout has more edges than these."""
    _longest[layout.rowptr], _longest[layout.colptr] = incoming, outgoing


def longest(offsets: Tensor) -> int | None:
    """What no row has more edges than, if it is known or known without waiting for a device."""
    found = _longest.get(offsets)
    return int(largest(offsets)) if found is None and offsets.device.type == "cpu" else found


def largest(offsets: Tensor) -> Tensor:
    """Most edges of any row, 0 where there are none: []."""
    return torch.nn.functional.pad(offsets.diff(), (0, 1)).amax()


def carry_longest(old: Layout, new: Layout, more: int, turned: bool) -> None:
    """Remember it of edges made from others, by so many more at each node or by turning them."""
    if new.rowptr.device.type == "cpu":
        return  # where it can be measured when somebody asks
    offsets = (old.colptr, old.rowptr) if turned else (old.rowptr, old.colptr)
    incoming, outgoing = map(longest, offsets)
    if incoming is not None and outgoing is not None:
        note_longest(new, incoming + more, outgoing + more)


def known(rowptr: Tensor) -> Traits | None:
    """What has been noted or measured of a layout."""
    return _known.get(rowptr)


def of(layout: Layout) -> Traits | None:
    """The traits of a Graph's layout, measured at first sight; None of any other layout.

    Measuring waits for the device up to four times; None while a CUDA graph is captured, where
    that is impossible, unless they are known already.
    """
    if layout.rowptr not in _known:
        return None
    traits = known(layout.rowptr)
    if traits is None and not (layout.rowptr.is_cuda and torch.cuda.is_current_stream_capturing()):
        traits = _known[layout.rowptr] = measure(layout)
    return traits


def measure(layout: Layout) -> Traits:
    """Read the traits off a layout: [n] and [m] temporaries; [e] ones if it looks like runs."""
    if layout.col.numel() == 0:
        return Traits(False, 0.0)
    if not _spans_fit(layout.rowptr, layout.col) or not _spans_fit(layout.colptr, layout.row):
        return Traits(False, 0.0)
    same_source = layout.col[1:] == layout.col[:-1]
    starts = torch.zeros(layout.col.numel() + 1, dtype=torch.bool, device=layout.col.device)
    starts[layout.rowptr.long()] = True
    if bool((same_source & ~starts[1:-1]).any()):
        return Traits(False, 0.0)
    return Traits(True, layout.col.numel() / max(_area(layout), 1))


def _spans_fit(offsets: Tensor, index: Tensor) -> bool:
    """Whether every row spans as many nodes as it has edges."""
    first, last, degree = _spans(offsets, index)
    return bool(((last - first == degree) | (degree == 0)).all())


def _spans(offsets: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First node of each row, the node after its last, and its degree."""
    start, stop = offsets[:-1].long(), offsets[1:].long()
    highest = index.numel() - 1
    return index[start.clamp(max=highest)], index[(stop - 1).clamp(min=0)] + 1, stop - start


def _area(layout: Layout) -> int:
    """Destinations x sources of the rectangles around the windows, added up."""
    first, last, degree = _spans(layout.rowptr, layout.col)
    empty = degree == 0
    first, last = first.long().masked_fill(empty, 2**62), last.long().masked_fill(empty, 0)
    short = -first.numel() % WINDOW
    low = torch.nn.functional.pad(first, (0, short), value=2**62).view(-1, WINDOW).amin(1)
    high = torch.nn.functional.pad(last, (0, short)).view(-1, WINDOW).amax(1)
    return WINDOW * int((high - low).clamp(min=0).sum())
