"""Variants of ``gattn nodes`` for comparisons, with changes that its options cannot make.

    python -m benchmarks.sides.nodes LAYERS STACK nodes train cora --workers 1 --out run

LAYERS is ``gattn`` or ``pyg``; with ``pyg``, the networks use PyG's GATConv. STACK is the number of
networks that are trained together; networks with PyG's layers are always trained one after the
other. Child processes do not get these changes, so the number of workers must be 1.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

import gattn
from gattn.cli import main
from gattn.nodes import network
from gattn.nodes.runs import trials


class Dropping(pyg.GATConv):
    """PyG's layer with additional dropout of the values, as in :mod:`gattn.nodes.network`."""

    def propagate(self, edge_index: Any, size: Any = None, **options: Any) -> Tensor:
        """Sum the weighted values."""
        value, of_destination = options.pop("x")
        value = F.dropout(value, self.dropout, self.training)
        return super().propagate(edge_index, size, x=(value, of_destination), **options)


class GATConv(nn.Module):
    """PyG's layer with the arguments that the networks of nodes pass to gattn's layer."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        self.layer = Dropping(*args, **options)

    def forward(self, x: Tensor, graph: gattn.Graph, **options: Any) -> Any:
        """Compute the attention along the edges of a graph, from dense features."""
        dense = x if x.layout == torch.strided else x.to_dense()
        return self.layer(dense, graph.edge_index, **options)


if __name__ == "__main__":
    layers, stack = sys.argv[1], int(sys.argv[2])
    del sys.argv[1:3]
    if layers == "pyg":
        network.CONVOLUTIONS["gat"] = GATConv  # pyright: ignore[reportArgumentType]
    trials.batch_size = lambda settings, x, runs: stack
    main()
