"""Loader of the citation networks Cora, CiteSeer and PubMed from Planetoid's raw files."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data

from gattn.data.datasets.download import raw_files
from gattn.data.datasets.registry import get_dataset


def load_citation(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    normalize_features: bool = False,
    download: bool = True,
) -> Data:
    """Load a citation network with sparse features and its public split.

    The split is Planetoid's: the training set has 20 papers of each class, the validation set the
    next 500 papers, and the test set the 1,000 papers of ``test.index``. The network is that of
    ``torch_geometric.datasets.Planetoid``: edges in both directions, no self-loops, no duplicates,
    ordered by destination. Isolated papers (48 in CiteSeer) are included. 15 of them have no
    features and no label in the files: their row of ``x`` is empty, their ``y`` is 0, and they are
    in no mask. The files are pickles, which can run code, so they are read only if their SHA-256
    is that of the registry.

    Args:
        name: ``"cora"``, ``"citeseer"`` or ``"pubmed"``, in upper or lower case.
        root: the data folder. The default is the environment variable ``GATTN_DATA``, or the
            user's cache directory if it is not set. The files may be in
            ``<root>/planetoid/Cora/raw`` or in ``<root>/Cora/raw``, where torch_geometric puts
            them.
        normalize_features: divide each row of ``x`` by its sum (empty rows stay empty).
        download: download missing files.

    Returns:
        Data with ``x`` [n, d] float32 in ``torch.sparse_csr`` layout, ``edge_index`` [2, e] int64,
        ``y`` [n] int64, ``train_mask``, ``val_mask``, ``test_mask`` [n] bool, and ``num_classes``.

    Raises:
        ValueError: there is no such network, or a file has another SHA-256 than in the registry.
        FileNotFoundError: a file is missing and ``download`` is false.
        ImportError: SciPy, which Planetoid's files need, is not installed.
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
    paths = raw_files(record, root, download=download)
    folder = next(iter(paths.values())).parent
    with warnings.catch_warnings():
        # NumPy and SciPy have renamed modules since these files were written.
        warnings.simplefilter("ignore")
        try:
            data: Any = read_planetoid_data(str(folder), record.name)
        except ModuleNotFoundError as error:
            raise ImportError(
                f'reading {folder} needs SciPy: pip install "gattn[scipy]" ({error})'
            ) from None
        x = F.normalize(data.x, p=1) if normalize_features else data.x
        data.x = x.to_sparse_csr()
    data.num_classes = int(data.y.max()) + 1
    return data
