"""Data sets and splits on which models of molecules are measured."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.data.datasets import root
from gattn.apps.fitting.metrics import classification_metrics, regression_metrics
from gattn.data import Molecules, Split, load_molecules, random_split, scaffold_split

__all__ = [
    "DATASETS",
    "OTHER_SPLITS",
    "SPLITS",
    "Dataset",
    "load",
    "metrics_of",
    "split",
    "write_table",
]


@dataclass(frozen=True)
class Dataset:
    """Data set with its target and metric (ROC-AUC or RMSE)."""

    name: str
    task: str
    metric: str

    @property
    def sign(self) -> int:
        """Return 1 if a higher metric is better, else -1."""
        return 1 if self.metric == "roc_auc" else -1


DATASETS = {
    "esol": Dataset("esol", "regression", "rmse"),
    "freesolv": Dataset("freesolv", "regression", "rmse"),
    "chembl2321810": Dataset("chembl2321810", "regression", "rmse"),
    "bbbp": Dataset("bbbp", "classification", "roc_auc"),
}
SPLITS = ("0", "1", "2", "scaffold")
"""Names of the splits: three seeds of the random split, and the scaffold split."""
OTHER_SPLITS = ("numpy-0", "numpy-1", "numpy-2")
"""Splits by permutations of NumPy's default generator: the first tenth for testing, the next for
validation.
"""


def load(name: str) -> Molecules:
    """Load the molecules of a data set that RDKit can parse and that have a label."""
    return load_molecules(name, root(), on_error="skip", download=False).labelled()


def split(molecules: Molecules, which: str) -> Split:
    """Return the random split with a seed, or the scaffold split, with parts of 8:1:1."""
    if which == "scaffold":
        return scaffold_split(molecules)
    if which in OTHER_SPLITS:
        seed, count = int(which.removeprefix("numpy-")), len(molecules)
        order = torch.from_numpy(np.random.default_rng(seed).permutation(count))
        test, val, train = order.split([count // 10, count // 10, count - 2 * (count // 10)])
        return Split(train, val, test, f"random 8:1:1 by NumPy (seed {seed})")
    return random_split(molecules, seed=int(which))


def write_table(path: Path, molecules: Molecules, parts: Split) -> None:
    """Write a CSV file with the columns smiles, target and split (train, val or test)."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "target", "split"])
        for name in ("train", "val", "test"):
            for row in getattr(parts, name).tolist():
                writer.writerow([molecules.smiles[row], molecules.y[row, 0].item(), name])


def metrics_of(task: str, y: Tensor, predicted: Tensor) -> dict[str, float]:
    """Compute the metrics of predictions [k, t], which are probabilities in classification."""
    kind = classification_metrics if task == "classification" else regression_metrics
    return kind(y, predicted)
