"""What is known of a layout beyond its sizes: a few numbers, on the CPU, that travel with it.

They choose between kernels and decide how many programs a launch has, so they are never read back
from a device for that. A Graph's layout has SIZE of them, each -1 until it is known; what is
measured later is written in place. Layouts that compiled code makes have none: such code may put
another layout into the same tensors.

The last number is the address of the first. A copy of the numbers tells nothing: a CUDA graph
recorded by torch.compile copies its inputs once and plays with other values later.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.layout.layout import Layout, num_rows

MAX_IN_DEGREE, MAX_OUT_DEGREE, BAND_AREA, ADDRESS = range(4)
"""Positions: most edges into a destination; most edges out of a source; 0 unless each destination's
sources are consecutive nodes, none twice, and conversely, and else the pairs of destination and
source in the rectangles around every BAND_ROWS destinations; where the numbers lie."""
SIZE = 4
UNKNOWN = -1
BAND_ROWS = 64
"""Destinations of a rectangle, of which density speaks."""
MOST_NODES = 64
"""Most nodes of a graph that one program takes as a whole."""
LEAST_DEGREE = 8
"""Mean degree from which a layout is asked whether it is a band."""


def with_facts(
    layout: Layout,
    max_in_degree: int = UNKNOWN,
    max_out_degree: int = UNKNOWN,
    band_area: int = UNKNOWN,
) -> Layout:
    """The layout with facts of its own; compiled code, and what only computes shapes, has none."""
    if torch.compiler.is_compiling() or isinstance(layout.rowptr, torch_internals.FakeTensor):
        return layout
    facts = torch.empty(SIZE, dtype=torch.int64, device="cpu")
    facts.numpy()[:] = max_in_degree, max_out_degree, band_area, facts.data_ptr()
    return layout._replace(facts=facts)


def as_told_by(other: Layout, layout: Layout, *, more: int = 0, transposed: bool = False) -> Layout:
    """The layout of edges made from others, with what those tell of it: there are at most so many
    more at each node, or all are reversed."""
    degrees = [get(other.facts, position) for position in (MAX_IN_DEGREE, MAX_OUT_DEGREE)]
    degrees = [UNKNOWN if degree is None else degree + more for degree in degrees]
    return with_facts(layout, *(reversed(degrees) if transposed else degrees))


def are_own(facts: Tensor) -> bool:
    """Whether these are the facts of a Graph's layout, not a copy nor none at all; compiled code,
    which would tie itself to their values, has none."""
    if torch.compiler.is_compiling() or facts.numel() != SIZE:
        return False
    return int(facts.numpy()[ADDRESS]) == facts.data_ptr()


def get(facts: Tensor, position: int) -> int | None:
    """A fact, or None where it is not known."""
    found = int(facts.numpy()[position]) if are_own(facts) else UNKNOWN
    return None if found == UNKNOWN else found


def put(facts: Tensor, position: int, value: int) -> None:
    """Write down a fact; torch does not count the write, which changes no result."""
    if are_own(facts):
        facts.numpy()[position] = value


def max_degree(layout: Layout, transposed: bool = False) -> int | None:
    """What no destination (transposed: no source) has more edges than.

    None if it is neither known nor to be known without waiting for a device.
    """
    position = MAX_OUT_DEGREE if transposed else MAX_IN_DEGREE
    found = get(layout.facts, position)
    offsets = layout.colptr if transposed else layout.rowptr
    if found is None and offsets.is_cpu and are_own(layout.facts):
        found = int(largest(offsets))
        put(layout.facts, position, found)
    return found


def largest(offsets: Tensor) -> Tensor:
    """Most edges of any row, 0 where there are none: []."""
    return torch.nn.functional.pad(offsets.diff(), (0, 1)).amax()


def band_density(layout: Layout) -> float | None:
    """Edges per pair of a destination and a source in the rectangles along a band.

    None unless it is known that each destination's sources are consecutive, and conversely. It is
    measured at first sight, in a Graph's layout, which waits for the device up to four times; not
    while a CUDA graph is captured, where that is impossible.
    """
    if not are_own(layout.facts) or layout.graph_ptr.numel():
        return None
    area = get(layout.facts, BAND_AREA)
    if area is None:
        if layout.rowptr.is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        area = band_area(layout)
        put(layout.facts, BAND_AREA, area)
    return layout.col.numel() / area if area else None


def band_area(layout: Layout) -> int:
    """Measure the fact of that name: [n] and [m] temporaries; [e] ones if it may be a band."""
    if layout.col.numel() == 0:
        return 0
    if not _spans_fit(layout.rowptr, layout.col) or not _spans_fit(layout.colptr, layout.row):
        return 0
    same_source = layout.col[1:] == layout.col[:-1]
    starts = torch.zeros(layout.col.numel() + 1, dtype=torch.bool, device=layout.col.device)
    starts[layout.rowptr.long()] = True
    return 0 if bool((same_source & ~starts[1:-1]).any()) else _area(layout)


def graph_ptr(layout: Layout, bounds: Sequence[int]) -> Tensor:
    """The offsets of a batch's graphs as kernels want them: empty unless all are small and sparse.

    Graph b has the nodes bounds[b] to bounds[b + 1] - 1; no edge leaves it.
    """
    most = max((stop - start for start, stop in itertools.pairwise(bounds)), default=0)
    sparse = layout.col.numel() < LEAST_DEGREE * num_rows(layout.rowptr)
    kept = list(bounds) if 0 < most <= MOST_NODES and sparse else []
    return torch.tensor(kept, dtype=layout.rowptr.dtype, device=layout.rowptr.device)


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
    """Destinations x sources of the rectangles around BAND_ROWS destinations, added up."""
    first, last, degree = _spans(layout.rowptr, layout.col)
    empty = degree == 0
    first, last = first.long().masked_fill(empty, 2**62), last.long().masked_fill(empty, 0)
    short = -first.numel() % BAND_ROWS
    low = torch.nn.functional.pad(first, (0, short), value=2**62).view(-1, BAND_ROWS).amin(1)
    high = torch.nn.functional.pad(last, (0, short)).view(-1, BAND_ROWS).amax(1)
    return BAND_ROWS * int((high - low).clamp(min=0).sum())
