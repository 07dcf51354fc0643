"""The pickle reader accepts numbers and rejects everything else."""

import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gattn.data.datasets._pickle import PickleRefused, SparseMatrix, read_pickle


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "f4", "f8"])
@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3), (0, 4)])
def test_reads_arrays(pickles, dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    got = read_pickle(pickles.array(array))
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)


def test_reads_a_sparse_matrix(pickles):
    got = read_pickle(pickles.csr((3, 4), [0, 2, 2, 3], [0, 3, 1], [1, 2, 3]))
    assert isinstance(got, SparseMatrix)
    assert got.shape == (3, 4)
    np.testing.assert_array_equal(got.indices, [0, 3, 1])


def test_agrees_with_pickle_on_a_graph(pickles):
    raw = pickles.graph({0: [1, 2, 2], 1: [], 2: [0]})
    assert read_pickle(raw) == dict(pickle.loads(raw))


class _Runs:
    """Object whose pickle calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_call_is_refused_and_not_run(protocol):
    raw = pickle.dumps(_Runs(exec, "raise SystemExit('the pickle ran code')"), protocol)
    with pytest.raises(PickleRefused, match="not allowed"):
        read_pickle(raw)


HOSTILE = {
    "os.system": b"cos\nsystem\n(S'true'\ntR.",
    "posix.system": b"\x80\x02cposix\nsystem\nU\x04true\x85R.",
    "builtins.eval": b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
    "instance": b"(S'true'\nios\nsystem\n.",
    "object": b"(cos\nsystem\nS'true'\no.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": b"\x80\x02U\x01aQ.",
    "another attribute of numpy": b"\x80\x02cnumpy\nfromfile\nU\x01a\x85R.",
    "list called": b"\x80\x02c__builtin__\nlist\nU\x01a\x85R.",
    "defaultdict of a name": b"\x80\x02ccollections\ndefaultdict\ncnumpy\nndarray\n\x85R.",
    "ndarray called": b"\x80\x02cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85R.",
    "object dtype": b"\x80\x02cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R.",
    "state for a name": b"\x80\x02cnumpy\nndarray\n}U\x01aK\x01sb.",
    "state for a dict": b"\x80\x02}}b.",
    "bare name": b"\x80\x02cnumpy\nndarray\n.",
    "number": b"\x80\x02K\x01.",
    "unbuilt matrix": b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81.",
    "unhashable key": b"\x80\x02}]K\x01s.",
    "key without value": b"\x80\x02}(K\x01u.",
    "append to a dict": b"\x80\x02}K\x01a.",
    "memo never stored": b"\x80\x02h\x05.",
    "no mark": b"\x80\x02}K\x01K\x02u.",
    "mark as value": b"\x80\x02(.",
    "empty": b"",
    "no opcodes": b"hello",
    "two values": b"\x80\x02}}.",
    "after the end": b"\x80\x02}.}",
    "endless string": b"\x80\x02T\xff\xff\xff\x7fab.",
    "odd escape": b"\x80\x02S'\\n\\y'\n.",
    "negative string": b"\x80\x02T\xff\xff\xff\xffab.",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_refuses(raw):
    with pytest.raises(PickleRefused):
        read_pickle(raw)


def test_a_far_memo_place_costs_no_memory():
    with pytest.raises(PickleRefused, match="memo index 4294967295 is stored; expected 1"):
        read_pickle(b"\x80\x02}r\xff\xff\xff\xff.")


def test_deep_nesting_is_refused():
    with pytest.raises(PickleRefused):
        read_pickle(b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"}\x86R.")


@pytest.mark.parametrize(
    ("shape", "indptr", "indices", "data", "says"),
    [
        ((2, 4), [0, 1], [0], [1], "indptr does not fit"),
        ((2, 4), [0, 1, 3], [0, 1], [1, 1], "indptr does not fit"),
        ((2, 4), [1, 1, 2], [0, 1], [1, 1], "indptr does not fit"),
        ((3, 4), [0, 2, 1, 2], [0, 1], [1, 1], "indptr decreases"),
        ((2, 4), [0, 1, 2], [0, 4], [1, 1], "not all in 0..3"),
        ((2, 4), [0, 1, 2], [-1, 1], [1, 1], "not all in 0..3"),
        ((2, 4), [0, 1, 2], [0, 1], [1], "2 indices and 1 values"),
        ((2, 4), [0, 1, 2], [0, 1], [1, np.nan], "not finite"),
        ((-2, 4), [0], [], [], "has the shape"),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(pickles, shape, indptr, indices, data, says):
    with pytest.raises(PickleRefused, match=says):
        read_pickle(pickles.csr(shape, indptr, indices, data))


def test_an_array_that_does_not_fit_is_refused(pickles):
    raw = pickles.array(np.zeros((2, 3), np.int32))
    wrong = raw.replace(struct.pack("<i", 3), struct.pack("<i", 4), 1)
    with pytest.raises(PickleRefused, match=r"shape \(2, 4\).* needs 32 bytes and has 24"):
        read_pickle(wrong)


def test_truncation_anywhere_is_refused(pickles):
    raw = pickles.csr((3, 4), [0, 2, 2, 3], [0, 3, 1], [1, 2, 3])
    for end in range(len(raw)):
        with pytest.raises(PickleRefused):
            read_pickle(raw[:end])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_is_refused_or_read_as_numbers(pickles, data):
    raw = bytearray(
        data.draw(
            st.sampled_from(
                [
                    pickles.csr((3, 4), [0, 2, 2, 3], [0, 3, 1], [1, 2, 3]),
                    pickles.graph({0: [1, 2], 1: [0]}),
                ]
            )
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = read_pickle(bytes(raw))
    except PickleRefused:
        return
    assert isinstance(value, (SparseMatrix, np.ndarray, dict))
    if isinstance(value, SparseMatrix):
        assert len(value.indptr) == value.shape[0] + 1
        assert value.indptr[-1] == len(value.indices) == len(value.data)
        assert not len(value.indices) or value.indices.max() < value.shape[1]
