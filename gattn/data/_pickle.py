"""Reads the pickles of Planetoid as data: no object but arrays, sparse matrices and dicts.

A pickle is a program. This reader runs it on a stack machine that has only the opcodes which
those files use, and only the six names of ``ALLOWED``; a name stands for itself, it is never
imported. So nothing a file says can call code, and SciPy is not needed.
"""

from __future__ import annotations

import pickletools
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

CSR = "scipy.sparse.csr csr_matrix"
RECONSTRUCT = "numpy.core.multiarray _reconstruct"
NDARRAY = "numpy ndarray"
DTYPE = "numpy dtype"
DEFAULTDICT = "collections defaultdict"
LIST = "__builtin__ list"
ALLOWED = frozenset((CSR, RECONSTRUCT, NDARRAY, DTYPE, DEFAULTDICT, LIST))

NUMBERS = frozenset(("i1", "i2", "i4", "i8", "f4", "f8"))
LONGEST_SIDE = 2**31 - 1


class SparseMatrix(NamedTuple):
    """A matrix in compressed rows: ``indptr [n + 1]``, ``indices [nnz]``, ``data [nnz]``."""

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class PickleRefused(ValueError):
    """A pickle that is broken, or that asks for more than the reader gives."""


@dataclass(frozen=True)
class _Name:
    """One of the allowed globals, standing for itself."""

    text: str


@dataclass(eq=False)
class _Shell:
    """An object between its making and its BUILD: what it is to be, and then its value."""

    kind: str
    value: Any = None
    code: str = ""


class _Mark:
    """The MARK opcode's place on the stack."""


def read_pickle(raw: bytes) -> SparseMatrix | np.ndarray | dict[Any, Any]:
    """Read one pickled array, sparse matrix or dict of lists.

    Args:
        raw: the file's bytes.

    Returns:
        What the pickle holds, checked: array lengths fit their shapes, and a sparse matrix's
        indices lie inside it.

    Raises:
        PickleRefused: the pickle is broken or uses an opcode or a name that is not allowed.

    >>> import pickle
    >>> read_pickle(pickle.dumps({0: [1, 2]}, protocol=2))
    {0: [1, 2]}
    >>> read_pickle(b"cos\\nsystem\\n(S'true'\\ntR.")
    Traceback (most recent call last):
        ...
    gattn.data._pickle.PickleRefused: the name 'os system' is not allowed
    """
    with warnings.catch_warnings():  # of text opcodes with odd escapes, which are refused anyway
        warnings.simplefilter("ignore", DeprecationWarning)
        return _run(raw)


def _run(raw: bytes) -> SparseMatrix | np.ndarray | dict[Any, Any]:
    machine = _Machine()
    try:
        for opcode, argument, position in pickletools.genops(raw):
            if opcode.name == "STOP":
                after = len(raw) - (position or 0) - 1
                if after:
                    raise PickleRefused(f"{after} bytes follow the end")
                break
            machine.step(opcode.name, argument)
        return machine.result()
    except PickleRefused:
        raise
    except (ValueError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise PickleRefused(f"broken pickle: {error}") from error


class _Machine:
    """The stack, the memo, and one method for each group of opcodes."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def result(self) -> Any:
        if len(self.stack) != 1:
            raise PickleRefused(f"{len(self.stack)} values are left at the end, not one")
        value = self.stack[0]
        if isinstance(value, _Shell):
            value = value.value
        if not isinstance(value, (SparseMatrix, np.ndarray, dict)):
            raise PickleRefused(f"it holds {type(value).__name__}, not an array or a dict")
        return value

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in ("BININT", "BININT1", "BININT2", "SHORT_BINSTRING", "BINSTRING"):
            stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            if argument not in self.memo:
                raise PickleRefused(f"memo {argument} was never stored")
            stack.append(self.memo[argument])
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[-1])
            stack.append(tuple(self.pop() for _ in range(count))[::-1])
        elif name == "TUPLE":
            stack.append(tuple(self.pop_to_mark()))
        elif name == "GLOBAL":
            if argument not in ALLOWED:
                raise PickleRefused(f"the name {argument!r} is not allowed")
            stack.append(_Name(argument))
        elif name in ("REDUCE", "NEWOBJ"):
            arguments = self.pop()
            stack.append(_make(self.pop(), arguments))
        elif name == "BUILD":
            state = self.pop()
            _build(stack[-1], state)
        elif name in ("APPEND", "APPENDS"):
            items = [self.pop()] if name == "APPEND" else self.pop_to_mark()
            self.top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [self.pop(), self.pop()][::-1] if name == "SETITEM" else self.pop_to_mark()
            if len(items) % 2:
                raise PickleRefused("a dict got a key without a value")
            self.top(dict).update(zip(items[::2], items[1::2]))
        elif name != "PROTO":
            raise PickleRefused(f"the opcode {name} is not allowed")

    def pop(self) -> Any:
        value = self.stack.pop()
        if isinstance(value, _Mark):
            raise PickleRefused("a mark stands where a value should")
        return value

    def pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while not isinstance(value := self.stack.pop(), _Mark):
            items.append(value)
        return items[::-1]

    def top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise PickleRefused(f"items for a {kind.__name__} meet another object")
        return self.stack[-1]


_CONSTANTS = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "MARK": _Mark,
}


def _make(name: Any, arguments: Any) -> Any:
    """Call an allowed name with the only arguments it may get."""
    if name == _Name(RECONSTRUCT) and arguments == (_Name(NDARRAY), (0,), "b"):
        return _Shell("array")
    if name == _Name(DTYPE) and arguments[:1] and arguments[0] in NUMBERS:
        return _Shell("dtype", code=arguments[0])
    if name == _Name(CSR) and arguments == ():
        return _Shell("matrix")
    if name == _Name(DEFAULTDICT) and arguments == (_Name(LIST),):
        return {}
    called = name.text if isinstance(name, _Name) else type(name).__name__
    raise PickleRefused(f"a call of {called} with these arguments is not allowed")


def _build(shell: Any, state: Any) -> None:
    """Give an object its state, once."""
    if not isinstance(shell, _Shell) or shell.value is not None:
        raise PickleRefused("a state meets an object that takes none")
    shell.value = {"array": _array, "dtype": _dtype, "matrix": _matrix}[shell.kind](shell, state)


def _dtype(shell: _Shell, state: Any) -> np.dtype:
    if not (isinstance(state, tuple) and len(state) >= 2 and state[1] in ("<", ">", "|", "=")):
        raise PickleRefused("a number type has a state that is not numpy's")
    order = "<" if state[1] in ("|", "=") else state[1]
    return np.dtype(order + shell.code)


def _array(shell: _Shell, state: Any) -> np.ndarray:
    if not (isinstance(state, tuple) and len(state) == 5):
        raise PickleRefused("an array has a state that is not numpy's")
    _, shape, dtype, fortran, content = state
    if not (isinstance(dtype, _Shell) and isinstance(dtype.value, np.dtype)):
        raise PickleRefused("an array has no number type")
    if not (isinstance(shape, tuple) and all(_is_size(side) for side in shape)):
        raise PickleRefused(f"an array has the shape {str(shape)[:60]}")
    if not isinstance(content, str):
        raise PickleRefused(f"an array's content is {type(content).__name__}, not bytes")
    content = content.encode("latin-1")
    count = 1
    for side in shape:
        count *= side
    if count * dtype.value.itemsize != len(content):
        raise PickleRefused(
            f"an array of shape {shape} and type {dtype.value} needs "
            f"{count * dtype.value.itemsize} bytes and has {len(content)}"
        )
    array = np.frombuffer(content, dtype.value).reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.value.newbyteorder("="))


def _matrix(shell: _Shell, state: Any) -> SparseMatrix:
    if not isinstance(state, dict):
        raise PickleRefused("a sparse matrix has a state that is not SciPy's")
    shape = state.get("_shape")
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(map(_is_size, shape))):
        raise PickleRefused(f"a sparse matrix has the shape {str(shape)[:60]}")
    matrix = SparseMatrix(
        shape,
        _vector(state, "indptr", "i"),
        _vector(state, "indices", "i"),
        _vector(state, "data", "if"),
    )
    _check(matrix)
    return matrix


def _vector(state: dict[Any, Any], key: str, kinds: str) -> np.ndarray:
    shell = state.get(key)
    array = shell.value if isinstance(shell, _Shell) else None
    if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in kinds):
        raise PickleRefused(f"a sparse matrix's {key} is not one row of numbers of its kind")
    return array


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
        raise PickleRefused("a sparse matrix holds a value that is not finite")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LONGEST_SIDE
