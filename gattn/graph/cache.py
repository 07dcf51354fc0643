"""Cache for objects that are built from a tensor or a graph and have the same lifetime.

A tensor is recognised by identity and content. Torch's version counter does not count writes by
collectives (``dist.broadcast`` into a buffer), through ``.data``, through DLPack, and through NumPy
arrays that share the memory. Each look-up therefore computes a checksum of the indices: see
:func:`entries_of_tensor`.
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

_Fingerprint = tuple[tuple[Any, ...], tuple[Tensor, ...]]
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")
_MAX_OWNERLESS = 8
"""Maximum number of cached objects that do not belong to a tensor or a graph."""
_CHANGED = (
    "edges were changed by a write that torch does not count (a collective, DLPack, .data) after a "
    "Graph was built from them; pass a new tensor, or call "
    "torch.autograd.graph.increment_version on it"
)


class CacheOwner(Protocol):
    """Interface of objects, such as Graph, that store results that were computed from them."""

    derived: dict[Any, Any]


def cached(owner: Tensor | CacheOwner | None, key: object, build: Callable[[], _T]) -> _T:
    """Return the object that is cached for an owner under a key; if it is missing, build and cache
    it.

    The object is built every time under torch.compile and for a tensor in which writes cannot be
    detected; under a dispatch mode, a new object is not stored. ``build`` runs outside inference
    mode and transforms of torch.func. If ``owner`` is None, the object depends on its key only, and
    only the most recent such objects are cached.
    """
    if torch.compiler.is_compiling():
        return build()
    if owner is None:
        return _ownerless(key, build)
    entries = entries_of_tensor(owner) if isinstance(owner, Tensor) else owner.derived
    if key in entries:
        return entries[key]
    result = outside_transforms(build)()
    if not torch_internals.dispatch_mode_active():
        # Under a dispatch mode, the result may contain fake tensors, which must not be cached.
        entries[key] = result
    return result


def cached_last(
    graph: CacheOwner,
    name: str,
    parts: tuple[Tensor | CacheOwner | int, ...],
    build: Callable[[], _T],
) -> _T:
    """Return the object that the last call for this graph built, if the parts are the same as in
    that call. Otherwise, build a new object. ``name`` is the key under which the graph stores the
    object; it replaces the object of other parts.

    The object is stored with the graph, in ``graph.derived``, and the parts are stored as weak
    references: strong references between graphs could form a cycle that is never freed. Nothing is
    stored under torch.compile, under a dispatch mode, or if writes to a part cannot be detected.
    """
    if torch.compiler.is_compiling():
        return build()
    tensors = [part for part in parts if isinstance(part, Tensor)]
    if not all(map(_is_cacheable, tensors)):
        return build()
    fingerprints = [_fingerprint(tensor) for tensor in tensors]
    last = graph.derived.get(name)
    if last is not None and _same(last[0], parts) and all(map(_agree, last[1], fingerprints)):
        return last[2]
    result = outside_transforms(build)()
    if not torch_internals.dispatch_mode_active():
        refs = tuple(part if isinstance(part, int) else weakref.ref(part) for part in parts)
        graph.derived[name] = refs, fingerprints, result
    return result


def entries_of_tensor(tensor: Tensor) -> dict[Any, Any]:
    """Return the cache entries for a tensor with its present content; the dict is empty if there
    are none. The cache keeps the objects that are added to it, unless writes to the tensor cannot
    be detected.

    On a CPU the content is recognised by a checksum of the indices. On another device it is
    recognised by torch's version counter, and the checksum is compared on the device without
    waiting: after a write that torch did not count, an assertion fails on the device, so that no
    result uses stale entries.
    """
    return _entries_of(tensor, _fingerprint(tensor)) if _is_cacheable(tensor) else {}


def share(matrix: Tensor, other: Tensor) -> None:
    """Let two sparse matrices that have the same indices share their cache entries, if writes to
    both can be detected. The entries of ``matrix`` replace those of ``other``.
    """
    if _is_cacheable(other) and _is_cacheable(matrix):
        fingerprint = _fingerprint(matrix)
        entries = _entries_of(matrix, fingerprint)
        _store(other, fingerprint if other.is_cpu else _fingerprint(other), entries)


def outside_transforms(function: _F) -> _F:
    """Decorate a function so that it runs outside inference mode and outside transforms of
    torch.func.

    Tensors in the cache are used after inference mode or a transform ends, so they must not be
    created inside.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        """Call the function without inference mode and torch.func's transforms; compiled code calls
        it directly.
        """
        if torch.compiler.is_compiling():
            return function(*args, **options)
        transformed = torch_internals.transforms_active()
        if not (transformed or torch.is_inference_mode_enabled()):
            return function(*args, **options)
        with torch.inference_mode(False), torch_internals.transforms_disabled():
            return function(*args, **options)

    return cast(_F, wrapper)


def size() -> int:
    """Return the number of tensors for which the cache has entries."""
    return len(_entries)


def _fingerprint(tensor: Tensor) -> _Fingerprint:
    """Return a fingerprint of a tensor's content, which consists of shapes, strides and checksums
    of its indices.

    On a device other than the CPU, checksums are not read; version counters and addresses are used
    in their place, and the checksums are returned for a comparison on the device.
    """
    parts = _parts(tensor)
    if _is_readable(tensor):
        return (tensor.shape, *((part.shape, part.stride(), checksum(part)) for part in parts)), ()
    state = (
        (part._version, part.data_ptr(), part.device, part.shape, part.stride()) for part in parts
    )
    return (tensor.shape, *state), tuple(map(outside_transforms(weighted_sum), parts))


def _is_readable(tensor: Tensor) -> bool:
    """Return True if the checksums of a tensor can be read without waiting for a device."""
    return tensor.is_cpu or tensor.is_meta


def _agree(old: _Fingerprint, new: _Fingerprint) -> bool:
    """Return True if two fingerprints are equal; checksums on a device are compared on the device,
    where an assertion fails later if they differ.
    """
    if old[0] != new[0]:
        return False
    for old_sum, new_sum in zip(old[1], new[1]):
        torch._assert_async(old_sum == new_sum, _CHANGED)
    return True


class _Entry(NamedTuple):
    ref: weakref.ref[Tensor]
    fingerprint: _Fingerprint
    objects: dict[Any, Any]


_entries: dict[int, _Entry] = {}
_ownerless_objects: dict[object, Any] = {}
_MISSING: Any = object()
_write_lock = threading.Lock()


def _entries_of(tensor: Tensor, fingerprint: _Fingerprint) -> dict[Any, Any]:
    """Return the dictionary of objects that are cached for a tensor; a new one if its content has
    changed.
    """
    entry = _entries.get(id(tensor))
    if entry is not None and entry.ref() is tensor and _agree(entry.fingerprint, fingerprint):
        return entry.objects
    return _store(tensor, fingerprint, {})


def _store(tensor: Tensor, fingerprint: _Fingerprint, objects: dict[Any, Any]) -> dict[Any, Any]:
    """Store the objects of a tensor until the tensor is deleted, and return them."""
    key = id(tensor)
    ref = weakref.ref(tensor, lambda ref: _remove(key, ref))
    _entries[key] = _Entry(ref, fingerprint, objects)
    return objects


def _remove(key: int, ref: weakref.ref[Tensor]) -> None:
    """Remove the entry of a deleted tensor, unless another tensor with the same id has
    replaced it.
    """
    entry = _entries.get(key)
    if entry is not None and entry.ref is ref:
        del _entries[key]


def _ownerless(key: object, build: Callable[[], _T]) -> _T:
    """Return the cached object of a key, or build and store it; the oldest entry is removed if
    there are too many. Under a dispatch mode, such as fake tensors, nothing is stored.
    """
    if torch_internals.dispatch_mode_active():
        return build()
    result = _ownerless_objects.get(key, _MISSING)
    if result is not _MISSING:
        return result
    result = outside_transforms(build)()
    with _write_lock:
        while len(_ownerless_objects) >= _MAX_OWNERLESS:
            del _ownerless_objects[next(iter(_ownerless_objects))]
        _ownerless_objects[key] = result
    return result


def _is_cacheable(tensor: Tensor) -> bool:
    """Return True if a tensor has values, and if in-place writes to it can be detected.

    Tensors created in inference mode have no version counter, which is needed off the CPU.
    """
    return (
        tensor.layout in _PARTS
        and (tensor.is_cpu or not tensor.is_inference())
        and not torch_internals.is_wrapped(tensor)
        and not isinstance(tensor, torch_internals.FakeTensor)
    )


def _same(refs: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    """Return True if weak references refer to these objects. Numbers are compared by value."""
    return len(refs) == len(parts) and all(
        x == y if isinstance(x, int) or isinstance(y, int) else x() is y
        for x, y in zip(refs, parts)
    )


_PARTS: dict[torch.layout, Callable[[Any], tuple[Tensor, ...]]] = {
    torch.strided: lambda t: (t if type(t) is Tensor else getattr(t, "_data", t),),
    torch.sparse_coo: lambda t: (t._indices(),),
    torch.sparse_csr: lambda t: (t.crow_indices(), t.col_indices()),
    torch.sparse_csc: lambda t: (t.ccol_indices(), t.row_indices()),
}


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the dense tensors that contain a tensor's indices; a sparse matrix has several.

    For an EdgeIndex or an Index it is the inner tensor, which has the version counter.
    """
    return _PARTS[tensor.layout](tensor)
