"""An epoch of the GAT paper's model on Cora: a training step and an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor, nn

import gattn
from benchmarks import timing, verify
from benchmarks.contenders import Contender, Pair
from benchmarks.graphs import data_root
from benchmarks.settings import Settings

DROPOUT = 0.6


class GAT(nn.Module):
    """Two layers of 8 x 8 and 1 x classes channels."""

    def __init__(self, layer: Any, dropout: Any, features: int, classes: int) -> None:
        super().__init__()
        self.conv1 = layer(features, 8, heads=8, dropout=DROPOUT)
        self.conv2 = layer(64, classes, heads=1, concat=False, dropout=DROPOUT)
        self.drop = dropout(DROPOUT)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.elu(self.conv1(self.drop(x), edge_index))
        return self.conv2(self.drop(h), edge_index)


@dataclass(frozen=True)
class Epoch:
    """The same model of gattn's layers and of PyG's.

    Args:
        sparse: the sides whose features are a sparse matrix, dropped by gattn's SparseDropout;
            the others have them dense, as PyG's own data set and dropout do.
    """

    sparse: tuple[str, ...]

    def measure(self, settings: Settings) -> dict[str, Any]:
        data = gattn.data.load_citation("cora", data_root(), normalize_features=True)
        torch.manual_seed(0)
        models = self._models(data)
        dense = data.x.to_dense()
        inputs = {side: data.x if side in self.sparse else dense for side in models}
        found = self._check(models, inputs, data.edge_index)
        epochs = {
            side: _epoch(model, inputs[side], data.edge_index, data.y, data.train_mask)
            for side, model in models.items()
        }
        return {
            "nodes": data.num_nodes,
            "edges": data.edge_index.shape[1],
            "dtype": "float32",
            "check": found,
            "seconds": {"training": timing.alternate(epochs, settings.seconds)},
        }

    def _models(self, data: Any) -> dict[str, GAT]:
        layers = {"gattn": gattn.nn.GATConv, "pyg": pyg.GATConv}
        models = {}
        for side, layer in layers.items():
            dropout = gattn.nn.SparseDropout if side in self.sparse else nn.Dropout
            models[side] = GAT(layer, dropout, data.x.shape[1], data.num_classes)
        models["gattn"].load_state_dict(models["pyg"].state_dict())
        return models

    @staticmethod
    def _check(
        models: dict[str, GAT], inputs: dict[str, Tensor], edge_index: Tensor
    ) -> dict[str, float]:
        def pair(dtype: torch.dtype) -> Pair:
            sides = {}
            for side, model in models.items():
                model = model.to(dtype).eval()
                x = inputs[side].to(dtype)
                sides[side] = Contender(
                    lambda model=model, x=x: model(x, edge_index), dict(model.named_parameters())
                )
            return sides

        exact = {side: verify.step(contender) for side, contender in pair(torch.float64).items()}
        apart = verify.error(exact["gattn"], exact["pyg"])
        if apart > verify.FLOOR[torch.float64]:
            raise verify.CheckFailed(f"gattn and PyG differ by {apart:.1e} in float64")
        single = pair(torch.float32)
        verify.repeatable(single["gattn"])
        return verify.against_peer(single)


def _epoch(
    model: GAT, x: Tensor, edge_index: Tensor, y: Tensor, train_mask: Tensor
) -> Callable[[], object]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)

    def run() -> Tensor:
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edge_index)[train_mask], y[train_mask])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            return model(x, edge_index).argmax(-1)

    return run
