"""What launches the C++ kernels: from tensors to packed pointers and sizes.

No kernel is named here. Each says in C++ which fields it has, and its operator in ``gattn.ops``
gives a value to each by name. Inputs may be slices of wider rows (any row stride); their outputs
are allocated by the operator, the kernels allocate only scratch.
"""

from __future__ import annotations

import functools
import importlib
import os
import struct
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gattn.layout.layout import Layout, index_dtype, without_stats

try:
    _kernels: Any = importlib.import_module("gattn.kernels.cpu._kernels")
except ModuleNotFoundError as error:
    _kernels = None
    _reason = (
        f"the C++ extension is not built ({type(error).__name__}): it is compiled as gattn is "
        "installed, where a C++ compiler is found"
    )
    _sources = Path(__file__).parents[3]
    if (_sources / "pyproject.toml").exists():
        _reason += (
            f"; the gattn at work is the source folder {_sources}: if pip has installed another, "
            "start Python elsewhere, or install with pip install -e ."
        )
except ImportError as error:  # built, but for other machines or another Python
    _kernels = None
    _reason = str(error)

if _kernels is not None and not any(
    name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ
):
    _kernels.keep_freed_memory()  # unless the user has told malloc what to do

_DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
_LARGE = 1 << 20  # elements from which fresh memory is asked for in huge pages
_CODES = {"pointer": "Q", "rows": "Qq", "int": "q", "float": "d"}
_LAYOUT = (*Layout._fields[:6], "n", "m", "e", "is_int64")


_KERNELS: dict[str, tuple[int, list[tuple[str, str]]]] = (
    {}
    if _kernels is None
    else {
        name: (number, fields) for number, (name, fields) in enumerate(_kernels.kernels().items())
    }
)


def unavailable_reason() -> str:
    """Why the kernels cannot run; empty where they can."""
    return "" if _kernels is not None else _reason


def serves(device: torch.device) -> bool:
    """Whether the kernels can work on this device's memory."""
    return _kernels is not None and device.type == "cpu"


def description() -> str:
    """The instruction set in use."""
    return f"C++, {_kernels.isa()}" if _kernels is not None else ""


def share_fields(kernel: str, other: str) -> bool:
    """Whether two kernels take the same arguments, as those of one file do."""
    return _fields(kernel)[1] == _fields(other)[1]


def _fields(kernel: str) -> tuple[int, list[tuple[str, str]]]:
    """The number of a kernel, and the names and kinds of its fields."""
    if kernel not in _KERNELS:
        raise TypeError(f"there is no C++ kernel {kernel}: it has {', '.join(_KERNELS)}")
    return _KERNELS[kernel]


class Launcher:
    """Runs one kernel on values in a fixed order, of which it was told once which is which."""

    def __init__(
        self, kernel: str, positions: Mapping[str, int], absent: Collection[str] = ()
    ) -> None:
        """``positions`` has that of each value by the name of its field; "layout" stands for those
        of a layout. The fields of these names may be ``absent``: they are zero or null."""
        number, fields = _fields(kernel)
        codes, places = "", {}
        for name, kind in fields:
            places[name] = len(codes), kind
            codes += _CODES[kind]
        unknown = ", ".join(sorted(positions.keys() - places.keys() - {"layout"}))
        if unknown:
            raise TypeError(f"the C++ kernel {kernel} has no field {unknown}")
        told = {"dtype", *(_LAYOUT if "layout" in positions else ())}
        missing = ", ".join(sorted(places.keys() - positions.keys() - told - set(absent)))
        if missing:
            raise TypeError(f"the C++ kernel {kernel} is given no value for its field {missing}")

        def of_kind(*kinds: str) -> tuple[tuple[int, int, str], ...]:
            given = ((*places[n], at, n) for n, at in positions.items() if n in places)
            return tuple((place, at, n) for place, kind, at, n in given if kind in kinds)

        self._run = functools.partial(_kernels.run, number)
        self._pack = struct.Struct("=" + codes).pack
        self._zeros: list[Any] = [0] * len(codes)
        self._rows, self._pointers = of_kind("rows"), of_kind("pointer")
        self._numbers = of_kind("int", "float")
        self._dtype = places["dtype"][0] if "dtype" in places else None
        self._layout = positions.get("layout")
        first = places["rowptr"][0] if "rowptr" in places else 0
        self._of_layout = slice(first, first + len(_LAYOUT))

    def __call__(self, values: list[Any]) -> None:
        """Run it; tensors of rows must have the dtype of the first value, which is the kernel's.

        Copies of tensors that do not lie together take their places in ``values``.
        """
        packed = self._zeros.copy()
        dtype = values[0].dtype
        if self._dtype is not None:
            packed[self._dtype] = _DTYPES[dtype]
        if self._layout is not None:
            packed[self._of_layout] = _layout(values[self._layout])
        for place, at, name in self._rows:
            t = values[at]
            if t is not None:
                if t.dtype != dtype:  # the kernel would read it as the wrong type
                    raise TypeError(f"{name} must be {dtype}; got {t.dtype}")
                if not t.is_contiguous():
                    values[at] = t = _inner_contiguous(t)
                packed[place] = t.data_ptr()
                packed[place + 1] = t.stride(0)
        for place, at, _ in self._pointers:
            t = values[at]
            if t is not None:
                if not t.is_contiguous():
                    values[at] = t = t.contiguous()
                packed[place] = t.data_ptr()
        for place, at, _ in self._numbers:
            packed[place] = values[at]
        self._run(self._pack(*packed))


def _layout(layout: list[Tensor] | Layout) -> list[int]:
    """The values of the layout's fields."""
    rowptr, col, perm, colptr, row, csr2csc, *_ = layout
    return [
        rowptr.data_ptr(), col.data_ptr(), perm.data_ptr(),
        colptr.data_ptr(), row.data_ptr(), csr2csc.data_ptr(),
        rowptr.shape[0] - 1, colptr.shape[0] - 1, col.shape[0], rowptr.dtype == torch.int64,
    ]  # fmt: skip


def _inner_contiguous(t: Tensor) -> Tensor:
    """The tensor itself where each row's elements are contiguous, whatever the row stride."""
    expected = 1
    for size, stride in zip(reversed(t.shape[1:]), reversed(t.stride()[1:])):
        if size != 1 and stride != expected:
            return t.contiguous()
        expected *= size
    return t


def build_layout(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout | None:
    """Counting sort, as :func:`gattn.layout.layout.build`; None where an index is out of range."""
    edges = source.numel()
    source, destination = source.contiguous(), destination.contiguous()
    dtype = index_dtype(num_src, num_dst, edges)
    sizes = num_dst + 1, edges, edges, num_src + 1, edges, edges
    layout = without_stats(*(source.new_empty(size, dtype=dtype) for size in sizes))
    pointers, is_int64 = (source.data_ptr(), destination.data_ptr()), source.dtype == torch.int64
    return layout if _kernels.build_layout(*pointers, is_int64, *_layout(layout)) else None


def lay_out_rows(rowptr: Tensor, col: Tensor, perm: Tensor, num_src: int) -> Layout:
    """Columns of sorted edges, as :func:`gattn.layout.layout.from_rows`."""
    rowptr, col, perm = rowptr.contiguous(), col.contiguous(), perm.contiguous()
    sizes = num_src + 1, col.numel(), col.numel()
    layout = without_stats(rowptr, col, perm, *(empty(col, size) for size in sizes))
    pointers = (t.data_ptr() for t in (rowptr, col, *layout[3:6]))
    is_int64 = col.dtype == torch.int64
    _kernels.build_columns(*pointers, rowptr.numel() - 1, num_src, is_int64)
    return layout


def checksum(t: Tensor) -> int:
    """A 64-bit number of the contents of a contiguous tensor, which depends on their order."""
    return _kernels.checksum(t.data_ptr(), t.nbytes)


def row_gather(table: Tensor, layout: list[Tensor]) -> float:
    """Sum of the fp32 rows [m, channels] that int32 edges name: the roof of every gather here."""
    if table.dtype != torch.float32 or layout[0].dtype != torch.int32:
        raise TypeError(f"needs float32 rows and int32 edges; got {table.dtype}, {layout[0].dtype}")
    total = torch.zeros((), dtype=torch.float64, device="cpu")
    positions = {"table": 0, "layout": 1, "channels": 2, "out": 3}
    Launcher("row_gather", positions)([table, layout, table.shape[1], total])
    return total.item()


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Uninitialised memory; where it is large, in huge pages if the system grants them."""
    t = like.new_empty(shape, dtype=dtype)
    if t.numel() >= _LARGE and _kernels is not None:
        _kernels.advise_huge(t.data_ptr(), t.nbytes)
    return t
