"""Loader of the citation networks Cora, CiteSeer and PubMed from Planetoid's raw files."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from gattn.data.datasets._pickle import PickleRefused, SparseMatrix, read_pickle
from gattn.data.datasets.download import raw_files
from gattn.data.datasets.registry import get_dataset

__all__ = ["load_citation"]

PUBLIC_VALIDATION = 500
LARGEST_FILE = 2**30


def load_citation(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    normalize_features: bool = False,
    download: bool = True,
    verify: bool = True,
) -> Data:
    """Load a citation network with sparse features and its public split.

    The split is Planetoid's: the training set has 20 papers of each class, the validation set the
    next 500 papers, and the test set the 1,000 papers of ``test.index``. The edges are the same as
    in ``torch_geometric.datasets.Planetoid``: both directions, no self-loops, no duplicates,
    ordered by destination. Isolated papers (48 in CiteSeer) are included. 15 of them have no
    features and no label in the files: their row of ``x`` is empty, their ``y`` is 0, and they are
    in no mask.

    Args:
        name: ``"cora"``, ``"citeseer"`` or ``"pubmed"``, in upper or lower case.
        root: the data folder. The default is the environment variable ``GATTN_DATA``, or the
            user's cache directory if it is not set. The files may be in
            ``<root>/planetoid/Cora/raw`` or in ``<root>/Cora/raw``, where torch_geometric puts
            them.
        normalize_features: divide each row of ``x`` by its sum (empty rows stay empty).
        download: download missing files and check their SHA-256.
        verify: also check the SHA-256 of files that are already present. ``False`` permits your
            own files in Planetoid's format, which are parsed with the same checks.

    Returns:
        Data with ``x`` [n, d] float32 in ``torch.sparse_csr`` layout, ``edge_index`` [2, e] int64,
        ``y`` [n] int64, ``train_mask``, ``val_mask``, ``test_mask`` [n] bool, and ``num_classes``.

    Raises:
        ValueError: there is no such network, a file has another SHA-256 than in the registry, a
            file is damaged, or a pickle contains anything except arrays, sparse matrices and
            lists of numbers.
        FileNotFoundError: a file is missing and ``download`` is false.
        OSError: the download failed.

    Reference: Yang, Cohen and Salakhutdinov, Revisiting Semi-Supervised Learning with Graph
    Embeddings, ICML 2016 (arXiv 1603.08861).

    Example (the first call downloads 0.6 MB)::

        data = load_citation("cora", normalize_features=True)
        dense = data.x.to_dense()
    """
    record = get_dataset(name)
    if record.kind != "citation":
        raise ValueError(f"{record.name!r} is not a citation network; load it with load_molecules")
    paths = raw_files(record, root, download=download, verify=verify)
    by_part = {file.removeprefix(f"ind.{record.name}."): path for file, path in paths.items()}

    x, tx, allx = (_matrix(by_part[part]) for part in ("x", "tx", "allx"))
    y, ty, ally = (_labels(by_part[part]) for part in ("y", "ty", "ally"))
    test = _test_index(by_part["test.index"])
    _check_sizes(by_part, x, tx, allx, y, ty, ally, test)

    rows = allx.shape[0]
    n = max(rows, int(test.max()) + 1)
    features = _stack(allx, tx, test, n)
    labels = np.zeros(n, np.int64)
    labels[:rows] = ally.argmax(1)
    labels[test] = ty.argmax(1)

    train = len(y)
    return Data(
        x=_csr_tensor(_rows_to_one(features) if normalize_features else features),
        edge_index=_edge_index(by_part["graph"], n),
        y=torch.from_numpy(labels),
        train_mask=_mask(np.arange(train), n),
        val_mask=_mask(np.arange(train, train + PUBLIC_VALIDATION), n),
        test_mask=_mask(test, n),
        num_classes=ally.shape[1],
    )


def _read(path: Path, kind: type) -> object:
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"{path} must have at most {LARGEST_FILE} bytes; it has {size}")
    try:
        value = read_pickle(path.read_bytes())
    except PickleRefused as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(value, kind):
        raise ValueError(
            f"{path} must contain a {kind.__name__}; it contains a {type(value).__name__}"
        )
    return value


def _matrix(path: Path) -> SparseMatrix:
    matrix = _read(path, SparseMatrix)
    assert isinstance(matrix, SparseMatrix)
    return matrix


def _labels(path: Path) -> np.ndarray:
    """Read one-hot labels. Each paper has a row, and each class has a column."""
    labels = _read(path, np.ndarray)
    assert isinstance(labels, np.ndarray)
    if labels.ndim != 2 or labels.shape[1] == 0 or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"{path} must contain rows of 0 and 1; its shape is {labels.shape}")
    if not (labels.sum(1) == 1).all():
        raise ValueError(f"{path}: every row must have exactly one class")
    return labels


def _test_index(path: Path) -> np.ndarray:
    try:
        index = np.array([int(word) for word in path.read_text("ascii").split()], np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} must have one whole number on each line: {error}") from None
    if not len(index) or len(np.unique(index)) != len(index) or index.min() < 0:
        raise ValueError(f"{path} must contain at least one number, all different and nonnegative")
    return index


def _check_sizes(
    by_part: dict[str, Path],
    x: SparseMatrix,
    tx: SparseMatrix,
    allx: SparseMatrix,
    y: np.ndarray,
    ty: np.ndarray,
    ally: np.ndarray,
    test: np.ndarray,
) -> None:
    folder = by_part["x"].parent
    rows = {"x": x.shape[0], "tx": tx.shape[0], "allx": allx.shape[0]}
    if rows != {"x": len(y), "tx": len(ty), "allx": len(ally)} or len(ty) != len(test):
        raise ValueError(
            f"{folder}: features and labels must have equal numbers of rows; features have {rows}, "
            f"labels {len(y)}, {len(ty)}, {len(ally)}, and test.index {len(test)} lines"
        )
    if not x.shape[1] == tx.shape[1] == allx.shape[1]:
        raise ValueError(f"{folder}: the feature files differ in their number of columns")
    if not y.shape[1] == ty.shape[1] == ally.shape[1]:
        raise ValueError(f"{folder}: the label files differ in their number of classes")
    rows_of_allx, last = allx.shape[0], int(test.max())
    if len(y) + PUBLIC_VALIDATION > rows_of_allx:
        raise ValueError(
            f"{folder}: {len(y)} training rows and {PUBLIC_VALIDATION} for validation "
            f"do not fit into the {rows_of_allx} rows of allx"
        )
    # The matrix allx contains the papers that are not in the test part. The test papers have the
    # next indices. In CiteSeer some of these indices are unused, so the range may be larger than
    # the number of test papers.
    if test.min() < rows_of_allx or last - rows_of_allx >= 2 * len(test):
        raise ValueError(
            f"{folder}: test.index must contain the indices of the papers after the {rows_of_allx} "
            f"papers of allx; it contains {test.min()} to {last}"
        )


def _stack(allx: SparseMatrix, tx: SparseMatrix, test: np.ndarray, n: int) -> SparseMatrix:
    """Append test papers to a matrix: row k of ``tx`` becomes row ``test[k]`` of the result, and
    indices without a paper get empty rows.
    """
    rows = allx.shape[0]
    row = np.concatenate(
        [
            np.repeat(np.arange(rows), np.diff(allx.indptr)),
            np.repeat(test, np.diff(tx.indptr)),
        ]
    )
    column = np.concatenate([allx.indices, tx.indices]).astype(np.int64)
    value = np.concatenate([allx.data, tx.data]).astype(np.float32)
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    if ((np.diff(row) == 0) & (np.diff(column) == 0)).any():
        raise ValueError("a feature occurs twice for the same paper")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=n), out=indptr[1:])
    return SparseMatrix((n, allx.shape[1]), indptr, column, value)


def _rows_to_one(matrix: SparseMatrix) -> SparseMatrix:
    """Divide each row by its sum: x_ij / sum_k x_ik. A row whose sum is zero stays unchanged."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    total = np.bincount(row, matrix.data, minlength=matrix.shape[0])
    total[total == 0] = 1
    return matrix._replace(data=(matrix.data / total[row]).astype(np.float32))


def _csr_tensor(matrix: SparseMatrix) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=True,
        )


def _edge_index(path: Path, n: int) -> Tensor:
    """Read the edges without self-loops and duplicates, [2, e], ordered by destination and
    source.
    """
    graph = _read(path, dict)
    assert isinstance(graph, dict)
    lists = list(graph.values())
    if not all(type(row) is list for row in lists):
        raise ValueError(f"{path} must have a list of papers for each paper")
    ends = [*graph, *(paper for row in lists for paper in row)]
    if not all(type(paper) is int and 0 <= paper < n for paper in ends):
        raise ValueError(f"{path} must contain papers as whole numbers in 0..{n - 1}")
    source = np.repeat(np.array(list(graph), np.int64), [len(row) for row in lists])
    target = np.array(ends[len(graph) :], np.int64)
    keep = source != target
    key = np.unique(target[keep] * n + source[keep])
    return torch.from_numpy(np.stack([key % n, key // n]))


def _mask(index: np.ndarray, n: int) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[torch.from_numpy(index)] = True
    return mask
