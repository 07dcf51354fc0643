"""Safe reader of the pickles of Planetoid's data sets (arrays, sparse matrices, dicts of lists).

A pickle is a program that can call any function. This reader first checks that the program has
only the opcodes of ``OPCODES`` and only the six global names of ``NAMES``. Python's unpickler then
runs it, with each global name replaced by a class of this module that stores its arguments, so
that no function of another module is imported or called. Finally the stored arguments are checked
and converted to arrays. SciPy is not needed.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import warnings
from reprlib import repr as short
from typing import NamedTuple

import numpy as np

OPCODES = {
    *("PROTO", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2"),
    *("BINSTRING", "SHORT_BINSTRING", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "REDUCE", "NEWOBJ", "BUILD"),
}
NUMBERS = ("i1", "i2", "i4", "i8", "f4", "f8")
LONGEST_SIDE = 2**31 - 1


class _Record:
    """Arguments of a constructor call in a pickle, and the state of the created object."""

    arguments: tuple[object, ...]
    state: object

    def __new__(cls, *arguments: object) -> _Record:
        record = super().__new__(cls)
        record.arguments, record.state = arguments, None
        return record

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Matrix(_Record): ...


class _Array(_Record): ...


class _Ndarray(_Record): ...


class _Dtype(_Record): ...


class _List(_Record): ...


class _Dict(dict[object, object]):
    """Replacement for ``defaultdict(list)``. A plain dict is sufficient, because no missing key
    is looked up.
    """

    __slots__ = ()

    def __init__(self, *arguments: object) -> None:
        if arguments != (_List,):
            raise PickleRefused("the only allowed defaultdict is one of lists")


NAMES = {
    "scipy.sparse.csr csr_matrix": _Matrix,
    "numpy.core.multiarray _reconstruct": _Array,
    "numpy ndarray": _Ndarray,
    "numpy dtype": _Dtype,
    "collections defaultdict": _Dict,
    "__builtin__ list": _List,
}


class SparseMatrix(NamedTuple):
    """Sparse matrix in CSR format: ``indptr [n + 1]``, ``indices [nnz]``, ``data [nnz]``."""

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class PickleRefused(ValueError):
    """Raised if a pickle is damaged, or contains an opcode or a global name that is not allowed."""


def read_pickle(raw: bytes) -> SparseMatrix | np.ndarray | dict[object, object]:
    """Read a pickle of one array, one sparse matrix or one dict of lists.

    Args:
        raw: the file's bytes.

    Returns:
        The array, matrix or dict. The lengths of arrays fit their shapes, and the indices of a
        sparse matrix are within its shape.

    Raises:
        PickleRefused: the pickle is damaged or uses an opcode or a name that is not allowed.

    >>> import pickle
    >>> read_pickle(pickle.dumps({0: [1, 2]}, protocol=2))
    {0: [1, 2]}
    >>> read_pickle(b"cos\\nsystem\\n(S'true'\\ntR.")
    Traceback (most recent call last):
        ...
    gattn.data.datasets._pickle.PickleRefused: the name 'os system' is not allowed
    """
    try:
        # Python warns about invalid escapes in strings. The warning is hidden, because such a
        # pickle is rejected anyway.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            _check_program(raw)
        # The opcodes MARK and TUPLE are put around the pickle program, so that it returns all
        # values on the stack. A valid pickle leaves exactly one value.
        left = _Unpickler(io.BytesIO(b"(" + raw[:-1] + b"t."), encoding="latin1").load()
    except PickleRefused:
        raise
    except (
        pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, EOFError,
        OverflowError, MemoryError, RecursionError,
    ) as error:  # fmt: skip
        raise PickleRefused(f"broken pickle: {error}") from error
    if len(left) != 1:
        raise PickleRefused(f"it leaves {len(left)} values on the stack; expected one")
    (value,) = left
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, _Matrix):
        return _matrix(value.state)
    if isinstance(value, _Array):
        return _array(value)
    raise PickleRefused(f"it contains {type(value).__name__}, not an array or a dict")


def _check_program(raw: bytes) -> None:
    stored = 0
    for opcode, argument, position in pickletools.genops(raw):
        if opcode.name not in OPCODES:
            raise PickleRefused(f"the opcode {opcode.name} is not allowed")
        if opcode.name == "GLOBAL" and argument not in NAMES:
            raise PickleRefused(f"the name {argument!r} is not allowed")
        if opcode.name in ("BINPUT", "LONG_BINPUT"):
            # The unpickler allocates memory up to the largest memo index, so memo indices must be
            # consecutive.
            stored += 1
            if not isinstance(argument, int) or argument > stored:
                raise PickleRefused(f"memo index {argument} is stored; expected {stored}")
        if opcode.name == "STOP" and (after := len(raw) - 1 - (position or 0)):
            raise PickleRefused(f"{after} bytes follow the end of the pickle")


class _Unpickler(pickle.Unpickler):
    """Unpickler that replaces the allowed global names by harmless classes."""

    def find_class(self, module: str, name: str) -> type:
        if f"{module} {name}" not in NAMES:
            raise PickleRefused(f"the name {f'{module} {name}'!r} is not allowed")
        return NAMES[f"{module} {name}"]


def _matrix(state: object) -> SparseMatrix:
    if not isinstance(state, dict):
        raise PickleRefused("the state of a sparse matrix was not written by SciPy")
    shape = state.get("_shape")
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(map(_is_size, shape))):
        raise PickleRefused(f"a sparse matrix has the shape {short(shape)}")
    vectors = {}
    for key, kinds in (("indptr", "i"), ("indices", "i"), ("data", "if")):
        vectors[key] = _array(state.get(key))
        if vectors[key].ndim != 1 or vectors[key].dtype.kind not in kinds:
            raise PickleRefused(f"a sparse matrix's {key} must be a vector of numbers of its kind")
    matrix = SparseMatrix(shape, **vectors)
    _check(matrix)
    return matrix


def _array(record: object) -> np.ndarray:
    if not (isinstance(record, _Array) and record.arguments == (_Ndarray, (0,), "b")):
        raise PickleRefused("an array was not created by NumPy's pickle function")
    if not (isinstance(record.state, tuple) and len(record.state) == 5):
        raise PickleRefused("the state of an array was not written by NumPy")
    _, shape, dtype, fortran, content = record.state
    dtype = _dtype(dtype)
    if not (isinstance(shape, tuple) and all(map(_is_size, shape))):
        raise PickleRefused(f"an array has the shape {short(shape)}")
    if not isinstance(content, str):
        raise PickleRefused(f"an array's content is {type(content).__name__}, not bytes")
    needed = math.prod(shape) * dtype.itemsize
    if needed != len(content):
        raise PickleRefused(
            f"an array of shape {short(shape)} and type {dtype} needs {needed} bytes "
            f"and has {len(content)}"
        )
    array = np.frombuffer(content.encode("latin-1"), dtype)
    return array.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="))


def _dtype(record: object) -> np.dtype:
    if not (isinstance(record, _Dtype) and record.arguments[:1] and record.arguments[0] in NUMBERS):
        raise PickleRefused("an array has no dtype")
    state = record.state
    if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "|", "=")):
        raise PickleRefused("the state of a dtype was not written by NumPy")
    return np.dtype((">" if state[1] == ">" else "<") + str(record.arguments[0]))


def _check(matrix: SparseMatrix) -> None:
    (rows, columns), indptr, indices, data = matrix
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise PickleRefused("a sparse matrix's indptr does not fit its shape and its indices")
    if (np.diff(indptr.astype(np.int64)) < 0).any():
        raise PickleRefused("a sparse matrix's indptr decreases")
    if len(data) != len(indices):
        raise PickleRefused(f"a sparse matrix has {len(indices)} indices and {len(data)} values")
    if len(indices) and not (indices.min() >= 0 and indices.max() < columns):
        raise PickleRefused(f"a sparse matrix's columns are not all in 0..{columns - 1}")
    if not np.isfinite(data).all():
        raise PickleRefused("a sparse matrix contains a value that is not finite")


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= LONGEST_SIDE
