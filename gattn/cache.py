"""What was built from a tensor or a graph, kept with it: the one cache of gattn."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import torch
from torch import Tensor

from gattn import torch_internals

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


class Holder(Protocol):
    """An object that keeps what was built from it, as a Graph does."""

    derived: dict[Any, Any]


def cached(owner: Tensor | Holder, key: object, build: Callable[[], _T]) -> _T:
    """What was built from a tensor or a graph, kept with it; torch.compile builds it in place."""
    if torch.compiler.is_compiling():
        return build()
    kept = of_tensor(owner) if isinstance(owner, Tensor) else owner.derived
    if key not in kept:
        kept[key] = outside_transforms(build)()
    return kept[key]


def of_tensor(tensor: Tensor) -> dict[Any, Any]:
    """What is kept for this very tensor in its present version; a new dict where nothing is.

    A tensor made in inference mode counts no writes: nothing is kept for it.
    """
    if tensor.is_inference():
        return {}
    state = _state(tensor)
    entry = _entries.get(id(tensor))
    if entry is not None and entry[0]() is tensor and entry[1] == state:
        return entry[2]
    return _keep(tensor, state, {})


def share(given: Tensor, made: Tensor) -> None:
    """Let a sparse matrix have what is kept for another whose entries stand at the same places."""
    if not made.is_inference():
        _keep(made, _state(made), of_tensor(given))


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


_entries: dict[int, tuple[weakref.ref[Any], Any, dict[Any, Any]]] = {}


def size() -> int:
    """Number of tensors for which something is kept."""
    return len(_entries)


def _keep(tensor: Tensor, state: tuple[Any, ...], kept: dict[Any, Any]) -> dict[Any, Any]:
    key = id(tensor)
    forget = weakref.ref(tensor, lambda ref: _forget(key, ref))
    _entries[key] = (forget, state, kept)
    return kept


def _forget(key: int, ref: weakref.ref[Any]) -> None:
    entry = _entries.get(key)
    if entry is not None and entry[0] is ref:
        del _entries[key]


def _state(tensor: Tensor) -> tuple[Any, ...]:
    """What tells that a tensor still holds what it held: its memory, and torch's count of writes.

    An EdgeIndex or an Index counts the writes to the tensor inside it, not its own; a sparse
    matrix holds its entries in two.
    """
    return tensor.shape, *(
        (part._version, part.data_ptr(), part.device, part.shape, part.stride())
        for part in _parts(tensor)
    )


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """The dense tensors that hold the edges of this one."""
    if tensor.layout == torch.strided:
        return (getattr(tensor, "_data", tensor),)
    if tensor.layout == torch.sparse_coo:
        return (tensor._indices(),)
    if tensor.layout == torch.sparse_csr:
        return tensor.crow_indices(), tensor.col_indices()
    return tensor.ccol_indices(), tensor.row_indices()
