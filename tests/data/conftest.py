"""Small synthetic Planetoid files, shared by the data tests."""

import struct
from pathlib import Path

import numpy as np
import pytest


class Pickles:
    """Writer of pickles of protocol 2, opcode by opcode, in the form in which Python 2 wrote
    Planetoid's pickles.
    """

    @staticmethod
    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    @staticmethod
    def text(value: str) -> bytes:
        return b"U" + bytes([len(value)]) + value.encode()

    @classmethod
    def body(cls, array: np.ndarray, dtype: str | None = None) -> bytes:
        code = dtype or array.dtype.str[1:]
        content = array.tobytes()
        return (
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R("
            + cls.number(1)
            + b"("
            + b"".join(map(cls.number, array.shape))
            + b"tcnumpy\ndtype\n"
            + cls.text(code)
            + b"K\x00K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
            + struct.pack("<i", len(content))
            + content
            + b"tb"
        )

    @classmethod
    def array(cls, array: np.ndarray, dtype: str | None = None) -> bytes:
        return b"\x80\x02" + cls.body(array, dtype) + b"."

    @classmethod
    def csr(cls, shape, indptr, indices, data) -> bytes:
        parts = {
            "indptr": np.asarray(indptr, np.int32),
            "indices": np.asarray(indices, np.int32),
            "data": np.asarray(data, np.float32),
        }
        return (
            b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}("
            + cls.text("format")
            + cls.text("csr")
            + cls.text("_shape")
            + cls.number(shape[0])
            + cls.number(shape[1])
            + b"\x86"
            + b"".join(cls.text(key) + cls.body(value) for key, value in parts.items())
            + b"ub."
        )

    @classmethod
    def dense_as_csr(cls, dense: np.ndarray) -> bytes:
        rows, columns = dense.nonzero()
        indptr = np.concatenate([[0], np.bincount(rows, minlength=len(dense)).cumsum()])
        return cls.csr(dense.shape, indptr, columns, dense[rows, columns])

    @classmethod
    def graph(cls, neighbours: dict[int, list[int]]) -> bytes:
        return (
            b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R("
            + b"".join(
                cls.number(node) + b"](" + b"".join(map(cls.number, others)) + b"e"
                for node, others in neighbours.items()
            )
            + b"u."
        )


@pytest.fixture(scope="session")
def pickles() -> type[Pickles]:
    return Pickles


@pytest.fixture
def planetoid(tmp_path: Path) -> Path:
    """Root folder of a synthetic network in the file format of CiteSeer.

    The network has 6 training papers, 510 papers in the file allx, 8 indices for test papers, of
    which 2 are unused, self-loops and duplicate edges.
    """
    rng = np.random.default_rng(0)
    folder = tmp_path / "CiteSeer" / "raw"
    folder.mkdir(parents=True)
    n, d, classes = 518, 12, 3
    x = (rng.random((n, d)) < 0.3) * rng.random((n, d)).astype(np.float32)
    y = np.eye(classes, dtype=np.int32)[rng.integers(0, classes, n)]
    test = np.array([517, 510, 512, 513, 511, 515])
    neighbours: dict[int, list[int]] = {i: [] for i in range(n)}
    for i, j in rng.integers(0, n, (900, 2)).tolist():
        if not {i, j} & {514, 516}:
            neighbours[i].append(j)
            neighbours[j].append(i)
    files = {
        "x": Pickles.dense_as_csr(x[:6]),
        "allx": Pickles.dense_as_csr(x[:510]),
        "tx": Pickles.dense_as_csr(x[test]),
        "y": Pickles.array(y[:6]),
        "ally": Pickles.array(y[:510]),
        "ty": Pickles.array(y[test]),
        "graph": Pickles.graph(neighbours),
        "test.index": "".join(f"{i}\n" for i in test).encode(),
    }
    for part, content in files.items():
        (folder / f"ind.citeseer.{part}").write_bytes(content)
    return tmp_path
