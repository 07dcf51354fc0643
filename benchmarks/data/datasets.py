"""Graphs from the data sets that gattn reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import gattn
from benchmarks.core.case import Topology
from benchmarks.core.seeds import generator


def root() -> Path:
    """Return the folder of data sets: ``GATTN_DATA``, or ``shared/data`` beside the checkout."""
    folder = os.environ.get("GATTN_DATA")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(folder) if folder else beside


def esol(count: int, seed: int = 0) -> Topology:
    """Return a batch of ESOL molecules, the same in every run."""
    every: Any = gattn.data.load_molecules("esol", root(), download=False).graphs
    chosen = torch.randperm(len(every), generator=generator(seed))[:count].tolist()
    batch: Any = gattn.data.batch_molecules([every[position] for position in chosen])
    return Topology(batch.edge_index, batch.num_nodes, batch.batch)


class Citations(NamedTuple):
    """Citation graph for the classification of nodes."""

    x: Tensor
    """[n, d], sparse."""
    edge_index: Tensor
    y: Tensor
    train_mask: Tensor

    @property
    def topology(self) -> Topology:
        """Edges of the citation graph."""
        return Topology(self.edge_index, self.y.numel())


def cora() -> Citations:
    """Load Cora with its public split, in which each row of features is divided by its sum."""
    data: Any = gattn.data.load_citation("cora", root(), normalize_features=True)
    return Citations(data.x, data.edge_index, data.y, data.train_mask)
