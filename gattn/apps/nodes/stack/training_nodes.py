"""Names of the training nodes and a sample of the edges, by which a changed network is matched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pandas.util import hash_pandas_object
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph

SAMPLE = 1024
"""Number of edges that are stored."""
SHARED = 0.5
"""A network is that of the training if it has at least this fraction of the stored edges."""
CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class TrainingNodes:
    """Training nodes of a network, which are matched to the nodes of a changed network by name.

    Names alone do not identify a network, because the nodes of many networks are called 0, 1, 2,
    and so on. Therefore a sample of the edges is stored, too. A network is that of the training if
    it has at least half of those stored edges whose ends are both among its nodes.

    Attributes:
        names: [k] uint64, hashes of the names of the training nodes.
        ends: [s, 2] uint64, hashes of the names of the ends of the stored edges.
        keys: [s] uint64, hashes of the stored edges, ascending.
    """

    names: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    keys: NDArray[np.uint64]

    @classmethod
    def fit(cls, graph: AttributedGraph, train: NDArray[np.int64]) -> TrainingNodes:
        """Store the names of the nodes ``train`` [k], which are indices, and the edges with the
        smallest hashes, at most :data:`SAMPLE`.
        """
        hashes = _name_hashes(graph)
        keys, ends = np.zeros(0, np.uint64), np.zeros((0, 2), np.uint64)
        for more, *both in _edges(graph, hashes):
            # The hashes of a chunk are partitioned, because sorting all would take longer.
            if len(more) > SAMPLE and len(keys) == SAMPLE:
                rows = more < keys[-1]
                more, both = more[rows], [one[rows] for one in both]
            every, first = np.unique(np.concatenate([keys, more]), return_index=True)
            keys = every[:SAMPLE]
            ends = np.concatenate([ends, np.stack(both, 1)])[first[:SAMPLE]]
        return cls(hashes[""][train], ends, keys)

    def places(self, graph: AttributedGraph) -> NDArray[np.int64] | None:
        """Return the index [k] of each training node among the nodes of a graph, and -1 if the
        graph does not contain it; None if the graph is another network.
        """
        hashes = _name_hashes(graph)
        places = pd.Index(hashes[""]).get_indexer(pd.Index(self.names))
        if (places < 0).all():
            return None
        present = np.isin(self.ends, np.concatenate(list(hashes.values()))).all(1)
        if present.any():
            shared = np.zeros(len(self.keys), bool)
            for keys, *_ in _edges(graph, hashes):
                slots = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
                shared[slots[self.keys[slots] == keys]] = True
            is_same = shared[present].mean() >= SHARED
        else:
            is_same = not len(self.keys)
        return places if is_same else None

    def state(self) -> dict[str, Tensor]:
        """Return the arrays as int64 tensors, by name."""
        return {name: torch.from_numpy(value.view(np.int64)) for name, value in vars(self).items()}

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> TrainingNodes:
        """Restore an object from the result of :meth:`state`."""
        names, ends, keys = (
            tensors[name].contiguous().numpy().view(np.uint64) for name in ("names", "ends", "keys")
        )
        return cls(names, ends, keys)


def _name_hashes(graph: AttributedGraph) -> dict[str, NDArray[np.uint64]]:
    """Return the hashes [n] of the names of the nodes of each type; the type of the labelled nodes
    is the empty text.
    """
    others = graph.network.others if graph.network is not None else {}
    nodes = {"": graph, **others}
    return {kind: _hash_texts(kind, map(str, one.names)) for kind, one in nodes.items()}


def _hash_texts(kind: str, texts: Any) -> NDArray[np.uint64]:
    series = pd.Series([f"{kind}\0{text}" if kind else text for text in texts], dtype=object)
    # Type checkers do not know the type of this function.
    return cast("Any", hash_pandas_object)(series, index=False, categorize=False).to_numpy()


def _edges(
    graph: AttributedGraph, hashes: Mapping[str, NDArray[np.uint64]]
) -> Iterator[tuple[NDArray[np.uint64], ...]]:
    """Yield, for each chunk of k edges, three arrays [k] uint64: the hashes of the edges, and those
    of the names of their sources and of their destinations. ``hashes`` are the hashes of the names
    of nodes by type, as :func:`_name_hashes` returns them.
    """
    network = graph.network
    if network is None:
        tables = [(np.uint64(0), hashes[""], hashes[""], graph.edge_index)]
    else:
        tables = [
            (
                _hash_texts("", ["\0".join(relation)])[0],
                *(hashes["" if kind == network.target else kind] for kind in
                  (relation.source, relation.destination)),
                table.pairs,
            )
            for relation, table in network.edges.items()
        ]  # fmt: skip
    for salt, sources, destinations, pairs in tables:
        ends = pairs.numpy()
        for start in range(0, ends.shape[1], CHUNK):
            source = sources[ends[0, start : start + CHUNK]]
            destination = destinations[ends[1, start : start + CHUNK]]
            keys = source * np.uint64(0x9E3779B97F4A7C15) + destination + salt
            keys ^= keys >> np.uint64(31)
            keys *= np.uint64(0xBF58476D1CE4E5B9)
            yield keys ^ (keys >> np.uint64(29)), source, destination
