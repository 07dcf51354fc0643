"""Launcher of the C++ kernels. It packs the pointers and sizes of tensors into a kernel's
arguments.

Each kernel declares the fields of its arguments in C++, and its operator in ``gattn.ops`` assigns a
value to each field by name; this module is the same for all kernels. Inputs may have any row
stride, such as slices of wider rows. Operators allocate the outputs; kernels allocate only scratch
memory.
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
        f"the C++ extension is not built ({type(error).__name__}): installing gattn compiles it if "
        "there is a C++ compiler"
    )
    _sources = Path(__file__).parents[3]
    if (_sources / "pyproject.toml").exists():
        _reason += (
            f"; gattn is imported from the source folder {_sources}: if pip installed another "
            "copy, start Python in another folder, or install with pip install -e ."
        )
# The C++ extension was built for another machine or Python version.
except ImportError as error:
    _kernels = None
    _reason = str(error)

if _kernels is not None and not any(
    name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ
):
    # By default, malloc returns large freed blocks to the system, and the next allocation causes
    # page faults. Here malloc is configured to reuse freed memory, unless the user has configured
    # malloc in the environment.
    _kernels.keep_freed_memory()

_DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
_LARGE = 1 << 20
"""Minimum number of elements of a new tensor for which huge pages are used."""
_CODES = {"pointer": "Q", "rows": "Qq", "int": "q", "float": "d"}
"""Format code of the module ``struct`` for each kind of field. A field for a tensor of rows
contains a pointer and a stride.
"""
_LAYOUT = (*Layout._fields[:6], "n", "m", "e", "is_int64")
"""Names of the fields of a layout, in the order of the C++ struct."""

_KERNELS: dict[str, tuple[int, list[tuple[str, str]]]] = (
    {}
    if _kernels is None
    else {
        name: (number, fields) for number, (name, fields) in enumerate(_kernels.kernels().items())
    }
)


def unavailable_reason() -> str:
    """Return the reason why the C++ kernels cannot run; "" if they can."""
    return "" if _kernels is not None else _reason


def serves(device: torch.device) -> bool:
    """Return True if the C++ kernels can run on tensors on this device."""
    return _kernels is not None and device.type == "cpu"


def description() -> str:
    """Return the name of the backend and of its CPU instruction set."""
    return f"C++, {_kernels.isa()}" if _kernels is not None else ""


def share_fields(kernel: str, other: str) -> bool:
    """Return True if two kernels have the same argument fields."""
    return _fields(kernel)[1] == _fields(other)[1]


def _fields(kernel: str) -> tuple[int, list[tuple[str, str]]]:
    """Return the index of a kernel in the extension, and the names and the kinds of its argument
    fields. Raises TypeError if the extension has no such kernel.
    """
    if kernel not in _KERNELS:
        raise TypeError(f"there is no C++ kernel {kernel}; the kernels are {', '.join(_KERNELS)}")
    return _KERNELS[kernel]


class Launcher:
    """Function object that runs one C++ kernel. Its argument is the list of the kernel's
    argument values.
    """

    def __init__(
        self, kernel: str, positions: Mapping[str, int], absent: Collection[str] = ()
    ) -> None:
        """Determine how argument values are packed.

        Args:
            kernel: name of the kernel.
            positions: position of each value in the list that :meth:`__call__` takes, by field
                name; the value "layout" sets all fields of a layout.
            absent: names of fields that may have no value; these are zero or null.

        Raises:
            TypeError: if the C++ kernel has no field of a name, or needs a value that is not
                passed.
        """
        number, fields = _fields(kernel)
        codes, slots = "", {}
        for name, kind in fields:
            slots[name] = len(codes), kind
            codes += _CODES[kind]
        unknown = ", ".join(sorted(positions.keys() - slots.keys() - {"layout"}))
        if unknown:
            raise TypeError(f"the C++ kernel {kernel} has no field {unknown}")
        implicit = {"dtype", *(_LAYOUT if "layout" in positions else ())}
        missing = ", ".join(sorted(slots.keys() - positions.keys() - implicit - set(absent)))
        if missing:
            raise TypeError(f"the C++ kernel {kernel} needs a value for its field {missing}")

        def of_kind(*kinds: str) -> tuple[tuple[int, int, str], ...]:
            fields = ((*slots[n], i, n) for n, i in positions.items() if n in slots)
            return tuple((slot, i, n) for slot, kind, i, n in fields if kind in kinds)

        self._run = functools.partial(_kernels.run, number)
        self._pack = struct.Struct("=" + codes).pack
        self._zeros: list[Any] = [0] * len(codes)
        self._rows, self._pointers = of_kind("rows"), of_kind("pointer")
        self._numbers = of_kind("int", "float")
        self._dtype = slots["dtype"][0] if "dtype" in slots else None
        self._layout = positions.get("layout")
        first = slots["rowptr"][0] if "rowptr" in slots else 0
        self._layout_slots = slice(first, first + len(_LAYOUT))

    def __call__(self, values: list[Any]) -> None:
        """Run the kernel in the dtype of the first value. All tensors of rows must have this dtype.

        The values are in the order of ``positions``, and the kernel writes to those that are
        outputs. All tensors are on the CPU, which is not checked. Tensors that are not contiguous
        are replaced in ``values`` by contiguous copies, so an output must be contiguous. Raises
        TypeError for rows of another dtype, and KeyError for a dtype that the kernels do not have.
        """
        packed = self._zeros.copy()
        dtype = values[0].dtype
        if self._dtype is not None:
            packed[self._dtype] = _DTYPES[dtype]
        if self._layout is not None:
            packed[self._layout_slots] = _layout(values[self._layout])
        for slot, position, name in self._rows:
            t = values[position]
            if t is not None:
                if t.dtype != dtype:
                    # If a tensor had another dtype, the kernel would interpret its bytes as values
                    # of the kernel's own dtype.
                    raise TypeError(f"{name} must be {dtype}; got {t.dtype}")
                if not t.is_contiguous():
                    values[position] = t = _inner_contiguous(t)
                packed[slot] = t.data_ptr()
                packed[slot + 1] = t.stride(0)
        for slot, position, _ in self._pointers:
            t = values[position]
            if t is not None:
                if not t.is_contiguous():
                    values[position] = t = t.contiguous()
                packed[slot] = t.data_ptr()
        for slot, position, _ in self._numbers:
            packed[slot] = values[position]
        self._run(self._pack(*packed))


@functools.cache
def launcher(kernel: str, fields: str, absent: tuple[str, ...] = ()) -> Launcher:
    """Return the launcher of a kernel for values in the order of ``fields``, separated by spaces.

    ``absent`` are the names of fields that may have no value.
    """
    return Launcher(kernel, {name: i for i, name in enumerate(fields.split())}, absent)


def _layout(layout: list[Tensor] | Layout) -> list[int]:
    """Return the values of the fields of a layout, in the order of ``_LAYOUT``."""
    rowptr, col, perm, colptr, row, csr2csc, *_ = layout
    return [
        rowptr.data_ptr(), col.data_ptr(), perm.data_ptr(),
        colptr.data_ptr(), row.data_ptr(), csr2csc.data_ptr(),
        rowptr.shape[0] - 1, colptr.shape[0] - 1, col.shape[0], rowptr.dtype == torch.int64,
    ]  # fmt: skip


def _inner_contiguous(t: Tensor) -> Tensor:
    """Return a tensor unchanged if the elements of each row are contiguous, otherwise return a
    copy.
    """
    expected = 1
    for size, stride in zip(reversed(t.shape[1:]), reversed(t.stride()[1:])):
        if size != 1 and stride != expected:
            return t.contiguous()
        expected *= size
    return t


def build_layout(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout | None:
    """Compute the layout of edges like :func:`gattn.layout.layout.build`; return None if an index
    is invalid. The indices [e] are on the CPU, both int32 or both int64.
    """
    edges = source.numel()
    source, destination = source.contiguous(), destination.contiguous()
    dtype = index_dtype(num_src, num_dst, edges)
    sizes = num_dst + 1, edges, edges, num_src + 1, edges, edges
    layout = without_stats(*(source.new_empty(size, dtype=dtype) for size in sizes))
    pointers, is_int64 = (source.data_ptr(), destination.data_ptr()), source.dtype == torch.int64
    return layout if _kernels.build_layout(*pointers, is_int64, *_layout(layout)) else None


def lay_out_rows(rowptr: Tensor, col: Tensor, perm: Tensor, num_src: int) -> Layout:
    """Compute the layout of sorted edges like :func:`gattn.layout.layout.from_rows`; the tensors
    are on the CPU, and the indices are not checked.
    """
    rowptr, col, perm = rowptr.contiguous(), col.contiguous(), perm.contiguous()
    sizes = num_src + 1, col.numel(), col.numel()
    layout = without_stats(rowptr, col, perm, *(empty(col, size) for size in sizes))
    pointers = (t.data_ptr() for t in (rowptr, col, *layout[3:6]))
    is_int64 = col.dtype == torch.int64
    _kernels.build_columns(*pointers, rowptr.numel() - 1, num_src, is_int64)
    return layout


def checksum(t: Tensor) -> int:
    """Return a 64-bit checksum of a contiguous tensor. It depends on the values and their order."""
    return _kernels.checksum(t.data_ptr(), t.nbytes)


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Allocate an uninitialised CPU tensor of this shape, by default with the dtype of ``like``.
    Large tensors use huge pages if the system supports them.
    """
    t = like.new_empty(shape, dtype=dtype)
    if t.numel() >= _LARGE and _kernels is not None:
        _kernels.advise_huge(t.data_ptr(), t.nbytes)
    return t
