"""Graph transformers that PyG also has: models with two layers of each kind, without dropout."""

from __future__ import annotations

from typing import Any

import torch
import torch_geometric.nn as pyg_nn
from torch import Tensor

import gattn
from benchmarks.core.case import Contender, Topology
from benchmarks.core.seeds import leaf
from benchmarks.sides.inputs import CHANNELS, HEADS, WIDTH

OPTIONS: dict[str, dict[str, Any]] = {
    "SGFormer": {
        "trans_num_heads": HEADS,
        "trans_dropout": 0.0,
        "gnn_num_layers": 2,
        "gnn_dropout": 0.0,
    },
    "Polynormer": {
        "heads": HEADS,
        "local_layers": 2,
        "in_dropout": 0.0,
        "dropout": 0.0,
        "global_dropout": 0.0,
        "local_attn": True,
    },
}


def model(side: str, topology: Topology, dtype: torch.dtype, *, name: str) -> Contender:
    """Create a model on x for a batch of graphs; gattn's model gets the parameters of PyG's."""
    torch.manual_seed(0)
    module = getattr(pyg_nn, name)(WIDTH, WIDTH // HEADS, CHANNELS, **OPTIONS[name])
    if side == "gattn":
        parameters = module.state_dict()
        module = getattr(gattn.models, name)(WIDTH, WIDTH // HEADS, CHANNELS, **OPTIONS[name])
        module.load_state_dict(parameters)
    module = module.to(dtype)
    x = leaf(topology.num_nodes, WIDTH, seed=1, dtype=dtype)
    batch = topology.batch
    if batch is None:
        batch = torch.zeros(topology.num_nodes, dtype=torch.int64)
    leaves = {"x": x, **dict(module.named_parameters())}

    def forward() -> Tensor:
        before = torch.get_default_dtype()
        # PyG's SGFormer creates a tensor of ones in the default dtype.
        torch.set_default_dtype(dtype)
        try:
            return module(x, topology.edge_index, batch)
        finally:
            torch.set_default_dtype(before)

    return Contender(forward, leaves)
