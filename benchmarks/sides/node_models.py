"""Models of nodes by other libraries, on the graph and the parts of a run of ``gattn nodes train``.

    python -m benchmarks.sides.node_models RUN lightgbm gcn gat

RUN is the folder of a finished run with one split. The command reads its ``config.toml``, loads
the same graph, draws the same parts, and prints a JSON object with the accuracy of each model on
the validation part and on the test part, and the seconds that its training took.

=============  =================================================================================
``lightgbm``   LightGBM on the features of a node, and on their means over neighbours within one
               to three steps; scikit-learn's histogram boosting if LightGBM is not installed
``gcn``        PyG's GCNConv with the architecture and settings of tunedGNN
``gat``        GATConv, likewise. gattn's layer takes the place of PyG's: it has the same parameters
               and outputs, and the training needs half of the time
=============  =================================================================================

Reference:
    Luo et al., "Classic GNNs are strong baselines: reassessing GNNs for node classification"
    (NeurIPS 2024); Bazhenov et al., "GraphLand: evaluating graph machine learning models on diverse
    industrial data" (2024).
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

import gattn
from gattn.apps.fitting.settings import read_toml
from gattn.apps.nodes.fields import csr_tensor
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.train import NodeProduct
from gattn.apps.nodes.stack.blocks import Reduction, as_matrix
from gattn.apps.nodes.stack.propagation import Neighbours

MODELS = ("lightgbm", "gcn", "gat")
ROUNDS, LEARNING_RATE, LEAVES, WAIT = 300, 0.06, 31, 20
"""Maximum number of rounds of the trees, factor of a tree, its maximum number of leaves, and number
of rounds after which the training stops if the validation loss has not improved."""
SPARSE = 0.05
"""Maximum share of the entries that are not zero for which the features are a sparse matrix."""
EVERY = 2
"""Number of steps of a network between two evaluations of the validation part. tunedGNN evaluates
it in every step."""


@dataclass(frozen=True)
class Tuned:
    """Settings of a network of tunedGNN.

    Attributes:
        layers: number of convolutions.
        width: number of hidden features.
        dropout: probability with which a hidden feature is set to zero.
        weight_decay: coefficient of the L2 penalty.
        residual: True to add a linear map of the input of each convolution to its output.
        norm: normalisation after each convolution.
        learning_rate: learning rate of Adam.
        epochs: maximum number of steps.
        patience: number of steps after which the training stops if the accuracy on the validation
            part has not improved. tunedGNN computes all steps.
    """

    layers: int
    width: int
    dropout: float
    weight_decay: float
    residual: bool
    norm: Literal["layer", "batch", "none"]
    learning_rate: float = 1e-3
    epochs: int = 500
    patience: int = 100


TUNED = {
    ("cora", "gcn"): Tuned(3, 512, 0.7, 5e-4, False, "none"),
    ("cora", "gat"): Tuned(3, 512, 0.2, 5e-4, True, "none"),
}
"""Settings that tunedGNN chose for a data set and a model."""
OTHERS = Tuned(3, 128, 0.5, 5e-5, True, "layer")
"""Settings for all other networks: those of tunedGNN for most homophilous networks with a large
training part, with a width that is affordable on a processor."""


def main(arguments: Sequence[str]) -> None:
    """Train models by other libraries on the graph and the parts of a run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sides.node_models", description=main.__doc__
    )
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("models", nargs="+", choices=MODELS, help="models to train")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    problem = Problem.read(options.run)
    results = {}
    for name in options.models:
        began = time.perf_counter()
        predicted = trees(problem) if name == "lightgbm" else network(problem, name)
        results[name] = {
            "seconds": time.perf_counter() - began,
            **{part: problem.accuracy(predicted, part) for part in ("val", "test")},
        }
    print(json.dumps(results))


@dataclass(frozen=True, eq=False)
class Problem:
    """Graph, labels and parts of a run.

    Attributes:
        data: name of the data set, or path of the edges.
        x: [n, d] sparse encoded features.
        edge_index: [2, e] edges along which messages are sent.
        neighbours: matrices of means over neighbours.
        y: [n] classes from 0.
        parts: nodes of the parts train, val and test, by name.
        seed: seed of the run.
    """

    data: str
    x: Any
    edge_index: Tensor
    neighbours: Neighbours
    y: NDArray[np.int64]
    parts: dict[str, NDArray[np.int64]]
    seed: int

    @classmethod
    def read(cls, run: Path) -> Problem:
        """Read the graph and the parts of the run in a folder."""
        settings = read_toml(NodeRunSettings, run / "config.toml")
        with tempfile.TemporaryDirectory() as folder:
            product = NodeProduct(settings, folder)
            data = product.load()
            parts = product.split(data)
        graph, split = parts.encoded.graph, parts.splits[0]
        labelled = data.y.isfinite()
        return cls(
            settings.data, as_matrix(parts.encoded.x), graph.edge_index, Neighbours.of(graph),
            data.y.nan_to_num(0).long().numpy(),
            {
                name: part[labelled[part]].numpy()
                for name in ("train", "val", "test")
                for part in [getattr(split, name)]
            },
            settings.model.seed,
        )  # fmt: skip

    def accuracy(self, predicted: NDArray[np.int64], part: str) -> float:
        """Return the share of the nodes of a part whose predicted class [n] is right."""
        nodes = self.parts[part]
        return float((predicted[nodes] == self.y[nodes]).mean())


def trees(problem: Problem) -> NDArray[np.int64]:
    """Predict the classes [n] by boosted trees on features and means over neighbours."""
    z = Reduction.fit(problem.x, problem.seed).apply(problem.x)
    neighbours = problem.neighbours
    hops = [
        z,
        *(one @ z for one in neighbours.one_hop()),
        neighbours.means @ (neighbours.means @ z),
    ]
    features = np.hstack([*hops, neighbours.means @ hops[-1], neighbours.degrees])
    train, val, y = problem.parts["train"], problem.parts["val"], problem.y
    if importlib.util.find_spec("lightgbm") is None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        model: Any = HistGradientBoostingClassifier(
            max_iter=ROUNDS, learning_rate=LEARNING_RATE, max_leaf_nodes=LEAVES,
            early_stopping=True, random_state=problem.seed,
        ).fit(features[train], y[train])  # fmt: skip
        return model.predict(features)
    import lightgbm

    model = lightgbm.LGBMClassifier(
        n_estimators=ROUNDS, learning_rate=LEARNING_RATE, num_leaves=LEAVES, n_jobs=1, verbose=-1,
        min_child_samples=min(20, max(2, len(train) // 50)), random_state=problem.seed,
    )  # fmt: skip
    # LightGBM needs every class of the validation part in the training part.
    seen = val[np.isin(y[val], y[train])]
    model.fit(
        features[train], y[train], eval_set=[(features[seen], y[seen])],
        callbacks=[lightgbm.early_stopping(WAIT, verbose=False)],
    )  # fmt: skip
    return np.asarray(model.predict(features), np.int64)


class Network(nn.Module):
    """Network of tunedGNN: convolutions with residual connections and normalisation, and a linear
    output.

    Args:
        kind: ``"gcn"`` or ``"gat"``.
        features: number of features.
        outputs: number of classes.
        settings: the architecture.
    """

    def __init__(self, kind: str, features: int, outputs: int, settings: Tuned) -> None:
        super().__init__()
        widths = [features, *[settings.width] * settings.layers]
        pairs = list(pairwise(widths))
        self.convolutions = nn.ModuleList(
            pyg.GCNConv(*pair, cached=True)
            if kind == "gcn"
            else gattn.nn.GATConv(*pair, add_self_loops=False, bias=False)
            for pair in pairs
        )
        self.residuals = nn.ModuleList(
            nn.Linear(*pair) if settings.residual else nn.Module() for pair in pairs
        )
        norms = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d, "none": nn.Identity}
        self.norms = nn.ModuleList(norms[settings.norm](width) for width in widths[1:])
        self.out, self.settings = nn.Linear(settings.width, outputs), settings

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits [n, outputs] of all nodes."""
        for convolution, residual, norm in zip(self.convolutions, self.residuals, self.norms):
            message = convolution(x, edge_index)
            message = message + residual(x) if self.settings.residual else message
            x = F.dropout(norm(message).relu(), self.settings.dropout, self.training)
        return self.out(x)


def network(problem: Problem, kind: str) -> NDArray[np.int64]:
    """Predict the classes [n] by a network of PyG's layers at the best epoch of its training."""
    settings = TUNED.get((problem.data, kind), OTHERS)
    train, val = (torch.from_numpy(problem.parts[name]) for name in ("train", "val"))
    y, features = torch.from_numpy(problem.y), _features(problem)
    torch.manual_seed(problem.seed)
    model = Network(kind, features.shape[1], int(problem.y.max()) + 1, settings)
    optimizer = torch.optim.Adam(
        model.parameters(), settings.learning_rate, weight_decay=settings.weight_decay
    )
    best, waited, chosen = -1.0, 0, np.zeros_like(problem.y)
    for epoch in range(settings.epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features, problem.edge_index)[train], y[train])
        loss.backward()
        optimizer.step()
        if epoch % EVERY:
            continue
        model.eval()
        with torch.no_grad():
            guess = model(features, problem.edge_index).argmax(1)
        accuracy = float((guess[val] == y[val]).float().mean())
        waited += EVERY
        if accuracy > best:
            best, waited, chosen = accuracy, 0, copy.deepcopy(guess.numpy())
        if waited >= settings.patience:
            break
    return chosen


def _features(problem: Problem) -> Tensor:
    """Return the features [n, d], as a sparse matrix if few entries are not zero."""
    x = sparse.csr_matrix(problem.x, dtype=np.float32, copy=True)
    if problem.data == "cora":
        # tunedGNN reads Cora's words as zeros and ones.
        x.data[:] = 1
    if x.nnz > SPARSE * x.shape[0] * x.shape[1]:
        return torch.from_numpy(x.toarray())
    pointers, columns = (torch.from_numpy(part.astype(np.int64)) for part in (x.indptr, x.indices))
    return csr_tensor(pointers, columns, torch.from_numpy(x.data), x.shape)


if __name__ == "__main__":
    main(sys.argv[1:])
