"""Loaders that are compared; each yields the number of edges of every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from benchmarks.data.large_graph import features, pairs, rows

FAN_OUTS = [15, 10, 5]
BATCH = 1024

Side = Callable[[Path, bool, int], Iterator[int]]


def gattn_side(folder: Path, with_features: bool, workers: int) -> Iterator[int]:
    """Yield the numbers of edges of the batches of gattn's NeighborLoader."""
    from torch_geometric.data import Data

    import gattn
    from gattn.data import NeighborLoader

    edges, nodes = pairs(folder, torch.int32)
    graph = gattn.Graph(edges, nodes)
    del edges
    data = Data(x=features(folder)) if with_features else Data(num_nodes=nodes)
    loader = NeighborLoader(
        data, FAN_OUTS, batch_size=BATCH, shuffle=True, graph=graph, num_workers=workers
    )
    for batch in _for_ever(loader):
        yield batch.edge_index.shape[1]


def pyg_side(folder: Path, with_features: bool, workers: int) -> Iterator[int]:
    """Yield the numbers of edges of the batches of PyG's NeighborLoader, with pyg-lib or
    torch-sparse.
    """
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    edge_index, nodes = pairs(folder, torch.int64)
    data = Data(edge_index=edge_index, num_nodes=nodes)
    if with_features:
        data.x = features(folder)
    loader = NeighborLoader(
        data,
        FAN_OUTS,
        batch_size=BATCH,
        shuffle=True,
        is_sorted=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    for batch in _for_ever(loader):
        yield batch.edge_index.shape[1]


def dgl_side(folder: Path, with_features: bool, workers: int) -> Iterator[int]:
    """Yield the numbers of edges of the batches of DGL's DataLoader with its NeighborSampler."""
    import dgl

    indptr, indices = rows(folder)
    graph = dgl.graph(("csc", (indptr, indices.long(), [])))
    if with_features:
        graph.ndata["x"] = features(folder)
    sampler = dgl.dataloading.NeighborSampler(
        FAN_OUTS[::-1], prefetch_node_feats=["x"] if with_features else None
    )
    seeds = torch.arange(graph.num_nodes())
    loader = dgl.dataloading.DataLoader(
        graph, seeds, sampler, batch_size=BATCH, shuffle=True, num_workers=workers
    )
    for _, _, blocks in _for_ever(loader):
        if with_features:
            blocks[0].srcdata["x"]  # DGL reads features lazily, when they are accessed.
        yield sum(block.num_edges() for block in blocks)


def graphbolt_side(folder: Path, with_features: bool, workers: int) -> Iterator[int]:
    """Yield the numbers of edges of the batches of DGL's GraphBolt."""
    from dgl import graphbolt

    indptr, indices = rows(folder)
    graph = graphbolt.fused_csc_sampling_graph(indptr, indices.long())
    seeds = graphbolt.ItemSet(torch.arange(indptr.numel() - 1), names="seed_nodes")
    pipe = graphbolt.ItemSampler(seeds, batch_size=BATCH, shuffle=True)
    pipe = pipe.sample_neighbor(graph, FAN_OUTS[::-1])
    if with_features:
        store = graphbolt.TorchBasedFeature(features(folder))
        feature_store = graphbolt.BasicFeatureStore({("node", None, "x"): store})
        pipe = pipe.fetch_feature(feature_store, node_feature_keys=["x"])
    loader = graphbolt.DataLoader(pipe, num_workers=workers)
    for batch in _for_ever(loader):
        sampled = batch.sampled_subgraphs
        yield sum(part.sampled_csc.indices.numel() for part in sampled)


def _for_ever(loader: Iterable) -> Iterator:
    while True:
        yield from loader


SIDES: dict[str, Side] = {
    "gattn": gattn_side,
    "pyg": pyg_side,
    "dgl": dgl_side,
    "graphbolt": graphbolt_side,
}
