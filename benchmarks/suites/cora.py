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
from benchmarks.core import timing, verify
from benchmarks.core.case import Contender, Settings
from benchmarks.data import datasets
from benchmarks.data.datasets import Citations
from benchmarks.suites.alone import Alone

DROPOUT = 0.6
SIDES = ("gattn", "pyg")


class GAT(nn.Module):
    """Model with two layers, of 8 x 8 and of 1 x classes channels."""

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
    """Epoch of the same model with gattn's layers and with PyG's layers.

    Args:
        name: name of the case.
        sparse: the sides that have sparse features, to which gattn's SparseDropout is applied. The
            other sides have dense features, as in PyG's data set.
    """

    name: str
    sparse: tuple[str, ...]

    def measure(self, settings: Settings) -> dict[str, Any]:
        data = datasets.cora()
        check = self._check(data)
        epochs = {side: self._epoch(side, data) for side in SIDES}
        return {
            **data.topology.sizes(),
            "dtype": "float32",
            "check": check,
            "seconds": {"training": timing.alternate(epochs, settings.seconds)},
        }

    def inputs(self, scale: float) -> Citations:
        """Return the data set, which is the same at any scale."""
        return datasets.cora()

    def alone(self, inputs: Citations) -> Alone:
        """Return gattn's side of the case."""
        return Alone(
            lambda: verify.step(self._evaluation("gattn", inputs, torch.float32)),
            {"training": self._epoch("gattn", inputs)},
        )

    def _check(self, data: Citations) -> dict[str, float]:
        def outcome(side: str, dtype: torch.dtype) -> verify.Outcome:
            return verify.step(self._evaluation(side, data, dtype))

        apart = verify.error(outcome("gattn", torch.float64), outcome("pyg", torch.float64))
        verify.within_rounding(apart, "gattn and PyG differ", torch.float64)
        verify.repeatable(self._evaluation("gattn", data, torch.float32))
        return verify.against_peer(outcome("gattn", torch.float32), outcome("pyg", torch.float32))

    def _features(self, side: str, data: Citations) -> Tensor:
        return data.x if side in self.sparse else data.x.to_dense()

    def _model(self, side: str, data: Citations) -> GAT:
        """Create the model of a side; both sides have the same initial parameters."""
        sizes = data.x.shape[1], int(data.y.max()) + 1
        torch.manual_seed(0)
        parameters = GAT(pyg.GATConv, nn.Dropout, *sizes).state_dict()
        layer = gattn.nn.GATConv if side == "gattn" else pyg.GATConv
        dropout = gattn.nn.SparseDropout if side in self.sparse else nn.Dropout
        model = GAT(layer, dropout, *sizes)
        model.load_state_dict(parameters)
        return model

    def _evaluation(self, side: str, data: Citations, dtype: torch.dtype) -> Contender:
        """Create the model without dropout."""
        model = self._model(side, data).to(dtype).eval()
        x = self._features(side, data).to(dtype)
        return Contender(lambda: model(x, data.edge_index), dict(model.named_parameters()))

    def _epoch(self, side: str, data: Citations) -> Callable[[], object]:
        model, x = self._model(side, data), self._features(side, data)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)

        def run() -> Tensor:
            model.train()
            optimizer.zero_grad()
            out = model(x, data.edge_index)
            F.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                return model(x, data.edge_index).argmax(-1)

        return run
