"""Training step on a whole graph, measured inside one process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.nn
from torch import Tensor
from torch.nn import Module

import gattn
from benchmarks.core import memory
from benchmarks.core.record import Record
from benchmarks.data.large_graph import features, mapped_features, pairs

FEATURES, HEADS, CHANNELS, CLASSES, KNOWN = 100, 4, 16, 47, 0.08
STEPS = 2
"""Number of training steps. The first one fills the caches, and only the last one is timed."""


def step(side: str, folder: Path, dtype: str, average: bool) -> Record:
    """Return the peak memory of this process, and the seconds and losses of a few steps."""
    make = _gattn if side == "gattn" else _pyg
    torch.manual_seed(0)
    model, x, edges, count = make(folder, getattr(torch, dtype), average)
    nodes = x.shape[0]
    torch.manual_seed(1)
    y = torch.randint(CLASSES, (nodes,))
    labelled = (torch.rand(nodes) < KNOWN).nonzero().squeeze(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    built, losses, seconds = memory.highest(), [], 0.0
    for _ in range(STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = F.cross_entropy(model(x, edges)[labelled], y[labelled])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds = time.perf_counter() - start
    return {
        "nodes": nodes, "edges": count, "peak_bytes": memory.highest(), "built_bytes": built,
        "seconds": seconds, "losses": losses,
    }  # fmt: skip


def line(peers: Sequence[Record], edges: int) -> float:
    """Extrapolate the memory to a number of edges by the line through the first and the last
    peer.
    """
    first, last = peers[0], peers[-1]
    slope = (last["peak_bytes"] - first["peak_bytes"]) / (last["edges"] - first["edges"])
    return last["peak_bytes"] + slope * (edges - last["edges"])


Inputs = tuple[Module, Tensor, gattn.Graph | Tensor, int]
"""Type of the inputs: a model, features, edges in its format, and their number without
self-loops.
"""


def _gattn(folder: Path, dtype: torch.dtype, average: bool) -> Inputs:
    edges, nodes = pairs(folder, torch.int32)
    count = edges.shape[1]
    model = gattn.models.GAT(
        FEATURES, HEADS * CHANNELS, 2, CLASSES, heads=HEADS, jk=_joined(average),
        add_self_loops=False, checkpoint=True,
    )  # fmt: skip
    graph = gattn.Graph(edges, nodes).with_self_loops()
    return model, mapped_features(folder, dtype), graph, count


def _pyg(folder: Path, dtype: torch.dtype, average: bool) -> Inputs:
    edges, _ = pairs(folder, torch.int64)
    model = torch_geometric.nn.GAT(
        FEATURES, HEADS * CHANNELS, 2, CLASSES, heads=HEADS, jk=_joined(average)
    )
    return model, features(folder).to(dtype), edges, edges.shape[1]


def _joined(average: bool) -> str | None:
    """Return PyG's setting ``jk`` for the output: "last" adds a linear layer, and no head is
    averaged.
    """
    return None if average else "last"
