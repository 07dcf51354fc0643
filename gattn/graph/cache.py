"""What was built from a tensor or a graph, kept with it: the one cache of gattn.

A tensor is known again as the same object with the same content. Torch's count of writes misses
those of collectives (``dist.broadcast`` into a buffer), of ``.data``, of DLPack and of NumPy arrays
that share the memory, so that the integers themselves are summed up at each look: see
:func:`of_tensor`.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.kernels.checksum import checksum, weighted_sum

_Look = tuple[tuple[Any, ...], tuple[Tensor, ...]]
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_MOST = 8
"""Things built from numbers alone that are kept."""
_CHANGED = (
    "edges changed by a write that torch does not count (a collective, DLPack, .data) after they "
    "were laid out; hand over a new tensor, or call torch.autograd.graph.increment_version on it"
)


class Holder(Protocol):
    """An object that keeps what was built from it, as a Graph does."""

    derived: dict[Any, Any]


def cached(owner: Tensor | Holder | None, key: object, build: Callable[[], _T]) -> _T:
    """What was built from a tensor or a graph, kept with it; torch.compile builds it in place.

    Of what has no owner, being made of the numbers in its key alone, the last few are kept.
    """
    if torch.compiler.is_compiling():
        return build()
    if owner is None:
        return _of_numbers(key, build)
    kept = of_tensor(owner) if isinstance(owner, Tensor) else owner.derived
    if key in kept:
        return kept[key]
    made = outside_transforms(build)()
    if not torch_internals.dispatch_mode_active():  # else what was built may not be real
        kept[key] = made
    return made


def cached_last(
    graph: Holder, name: str, parts: tuple[Tensor | Holder | int, ...], build: Callable[[], _T]
) -> _T:
    """What was last built from a graph and these tensors, other graphs and numbers.

    It is kept with the graph; the others are held weakly: a graph that kept another alive could
    come to keep itself.
    """
    if torch.compiler.is_compiling():
        return build()
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if not all(map(_can_be_kept, tensors)):
        return build()
    looks = [_look(tensor) for tensor in tensors]
    last = graph.derived.get(name)
    if last is not None and _same(last[0], parts) and all(map(_agree, last[1], looks)):
        return last[2]
    made = outside_transforms(build)()
    if not torch_internals.dispatch_mode_active():
        held = tuple(part if isinstance(part, int) else weakref.ref(part) for part in parts)
        graph.derived[name] = held, looks, made
    return made


def of_tensor(tensor: Tensor) -> dict[Any, Any]:
    """What is kept for this very tensor with its present content; a new dict where nothing is.

    On a CPU the content is known by a checksum of the indices. On another device it is known by
    torch's count of writes, and the checksum is compared there, without waiting for it: after a
    write that torch did not count the device fails with an error, and nothing wrong is read.
    """
    return _kept_for(tensor, _look(tensor)) if _can_be_kept(tensor) else {}


def share(given: Tensor, made: Tensor) -> None:
    """Let a sparse matrix have what is kept for another whose entries stand at the same places."""
    if _can_be_kept(made) and _can_be_kept(given):
        look = _look(given)
        _keep(made, look if made.is_cpu else _look(made), _kept_for(given, look))


def outside_transforms(function: _F) -> _F:
    """Make normal tensors in inference mode and under torch.func: what is kept outlives both."""

    @functools.wraps(function)
    def make(*args: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **options)
        transformed = torch_internals.transforms_active()
        if not (transformed or torch.is_inference_mode_enabled()):
            return function(*args, **options)
        with torch.inference_mode(False), torch_internals.transforms_disabled():
            return function(*args, **options)

    return cast(_F, make)


def size() -> int:
    """Number of tensors for which something is kept."""
    return len(_entries)


def _look(tensor: Tensor) -> _Look:
    """What the content of a tensor is known by: where its indices lie, and their checksums.

    On another device than a CPU, where no checksum is read, torch's count of writes comes first.
    """
    parts = _parts(tensor)
    if _is_readable(tensor):
        return (tensor.shape, *((part.shape, part.stride(), checksum(part)) for part in parts)), ()
    state = (
        (part._version, part.data_ptr(), part.device, part.shape, part.stride()) for part in parts
    )
    return (tensor.shape, *state), tuple(map(outside_transforms(weighted_sum), parts))


def _is_readable(tensor: Tensor) -> bool:
    """Whether a checksum is read at once, not left on a device (or there is nothing to read)."""
    return tensor.is_cpu or tensor.is_meta


def _agree(before: _Look, now: _Look) -> bool:
    """Whether the tensor still holds what it held; checksums on a device are compared there."""
    if before[0] != now[0]:
        return False
    for then, here in zip(before[1], now[1]):
        torch._assert_async(then == here, _CHANGED)
    return True


class _Entry(NamedTuple):
    ref: weakref.ref[Tensor]
    look: _Look
    kept: dict[Any, Any]


_entries: dict[int, _Entry] = {}
_numbers: dict[object, Any] = {}
_one_writer = threading.Lock()


def _kept_for(tensor: Tensor, look: _Look) -> dict[Any, Any]:
    entry = _entries.get(id(tensor))
    if entry is not None and entry.ref() is tensor and _agree(entry.look, look):
        return entry.kept
    return _keep(tensor, look, {})


def _keep(tensor: Tensor, look: _Look, kept: dict[Any, Any]) -> dict[Any, Any]:
    key = id(tensor)
    ref = weakref.ref(tensor, lambda ref: _forget(key, ref))
    _entries[key] = _Entry(ref, look, kept)
    return kept


def _forget(key: int, ref: weakref.ref[Tensor]) -> None:
    entry = _entries.get(key)
    if entry is not None and entry.ref is ref:
        del _entries[key]


def _of_numbers(key: object, build: Callable[[], _T]) -> _T:
    if torch_internals.dispatch_mode_active():
        return build()
    made = _numbers.get(key, _numbers)
    if made is not _numbers:
        return made
    made = outside_transforms(build)()
    with _one_writer:
        while len(_numbers) >= _MOST:
            del _numbers[next(iter(_numbers))]
        _numbers[key] = made
    return made


def _can_be_kept(tensor: Tensor) -> bool:
    """Whether the tensor is real, and its content known: off the CPU one made in inference mode
    counts no writes."""
    return (
        tensor.layout in _PARTS
        and (tensor.is_cpu or not tensor.is_inference())
        and not torch_internals.is_wrapped(tensor)
        and not isinstance(tensor, torch_internals.FakeTensor)
    )


def _same(held: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    """Whether these are the objects that were held, or equal numbers."""
    return len(held) == len(parts) and all(
        x == y if isinstance(x, int) or isinstance(y, int) else x() is y
        for x, y in zip(held, parts)
    )


_PARTS: dict[torch.layout, Callable[[Any], tuple[Tensor, ...]]] = {
    torch.strided: lambda t: (t if type(t) is Tensor else getattr(t, "_data", t),),
    torch.sparse_coo: lambda t: (t._indices(),),
    torch.sparse_csr: lambda t: (t.crow_indices(), t.col_indices()),
    torch.sparse_csc: lambda t: (t.ccol_indices(), t.row_indices()),
}


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that hold the indices of this one: in an EdgeIndex or an Index the one
    inside it, whose writes are counted; in a sparse matrix two."""
    return _PARTS[tensor.layout](tensor)
