"""Tests of edge files: a file gives the graph of its edges, and a bad file gives a clear error."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet

from gattn import Graph
from gattn.data import open_edges
from gattn.data.datasets import edge_files

NODES, EDGES = 50, 1000


@pytest.fixture
def pairs() -> np.ndarray:
    return np.random.default_rng(0).integers(0, NODES, (2, EDGES), dtype=np.int32)


def write(path: Path, pairs: np.ndarray, names: tuple[str, str] = ("source", "destination")) -> str:
    table = pa.table({"weight": np.ones(pairs.shape[1]), **dict(zip(names, pairs))})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=300)
    else:
        csv.write_csv(table, path)
    return str(path)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_tables(tmp_path: Path, pairs: np.ndarray, suffix: str, monkeypatch) -> None:
    monkeypatch.setattr(edge_files, "PIECE", 128)
    path = write(tmp_path / f"edges{suffix}", pairs, ("from", "to"))
    edges = open_edges(path, source="from", destination="to", folder=tmp_path)
    assert edges.dtype == (torch.int32 if suffix == ".parquet" else torch.int64)
    assert torch.equal(edges.int(), torch.from_numpy(pairs))
    assert [file.name for file in tmp_path.iterdir()] == [f"edges{suffix}"]


def test_a_graph_of_a_mapped_array_is_that_of_the_array(tmp_path: Path, pairs: np.ndarray) -> None:
    path = tmp_path / "edges.npy"
    np.save(path, pairs)
    mapped = open_edges(path)
    graph, expected = Graph(mapped, NODES), Graph(torch.from_numpy(pairs), NODES)
    for array, layout in zip(graph.layout[:6], expected.layout[:6], strict=True):
        assert torch.equal(array, layout)
    mapped.zero_()
    assert np.array_equal(np.load(path), pairs)  # The write changed the memory but not the file.


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.int16])
def test_widths_of_columns(tmp_path: Path, pairs: np.ndarray, dtype: type) -> None:
    edges = open_edges(write(tmp_path / "edges.parquet", pairs.astype(dtype)))
    assert edges.dtype == (torch.int32 if dtype is np.int16 else torch.int64)
    assert torch.equal(edges.int(), torch.from_numpy(pairs))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npy"])
def test_no_edges(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"edges{suffix}"
    none = np.empty((2, 0), np.int32)
    np.save(path, none) if suffix == ".npy" else write(path, none)
    assert open_edges(path).shape == (2, 0)


def test_wrong_files(tmp_path: Path, pairs: np.ndarray) -> None:
    path = write(tmp_path / "edges.parquet", pairs)
    with pytest.raises(ValueError, match="must have one column 'src'; its columns are weight, so"):
        open_edges(path, source="src")
    with pytest.raises(ValueError, match=r"'weight' of .* must contain whole numbers.* double"):
        open_edges(path, source="weight")
    parquet.write_table(pa.table({"source": [1, 2, None], "destination": [1, 2, 3]}), path)
    with pytest.raises(ValueError, match=r"'source' of .* is empty in row 2, counted from 0"):
        open_edges(path)
    large = np.array([2**64 - 1], np.uint64)
    parquet.write_table(pa.table({"source": large, "destination": large}), path)
    with pytest.raises(ValueError, match="contains 18446744073709551615, which is not the index"):
        open_edges(path)
    Path(path).write_bytes(b"PAR1 this is none")
    with pytest.raises(ValueError, match=r"edges\.parquet cannot be read"):
        open_edges(path)
    text = tmp_path / "edges.csv"
    text.write_text("source,destination\n1,2\n3,x\n")
    with pytest.raises(ValueError, match=r"edges\.csv cannot be read: .*'x'"):
        open_edges(text)
    np.save(tmp_path / "wide.npy", pairs.T)
    with pytest.raises(
        ValueError, match=r"must contain a \(2, e\) array .* it contains \(1000, 2\)"
    ):
        open_edges(tmp_path / "wide.npy")
    whole = (tmp_path / "wide.npy").read_bytes()
    for part in (whole[:-8], whole[:40], b"", b"PK\x03\x04"):
        (tmp_path / "part.npy").write_bytes(part)
        with pytest.raises(ValueError, match=r"part\.npy cannot be read as a \.npy file"):
            open_edges(tmp_path / "part.npy")
    with pytest.raises(ValueError, match=r"got edges\.txt"):
        open_edges(tmp_path / "edges.txt")
    with pytest.raises(FileNotFoundError):
        open_edges(tmp_path / "none.npy")
