"""Baselines with trees on descriptors and fingerprints."""

from __future__ import annotations

import torch
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from torch import Tensor

from gattn.apps.molecules.inputs import MoleculeInputs

TREES = 300
KINDS = {
    ("forest", "regression"): lambda seed: RandomForestRegressor(
        TREES, max_features=1 / 3, random_state=seed
    ),
    ("forest", "classification"): lambda seed: RandomForestClassifier(TREES, random_state=seed),
    ("boosting", "regression"): lambda seed: HistGradientBoostingRegressor(
        max_iter=TREES, learning_rate=0.05, random_state=seed
    ),
    ("boosting", "classification"): lambda seed: HistGradientBoostingClassifier(
        max_iter=TREES, learning_rate=0.05, random_state=seed
    ),
}


def fit(kind: str, inputs: MoleculeInputs, y: Tensor, task: str, seed: int) -> BaseEstimator:
    """Train a model of trees on one target [k, 1] without missing labels; boosting reads only
    descriptors.
    """
    return KINDS[kind, task](seed).fit(_features(kind, inputs), y[:, 0].numpy())


def predict(model: BaseEstimator, inputs: MoleculeInputs, task: str) -> Tensor:
    """Predict numbers or the probability of class 1: [k, 1] float64."""
    kind = "boosting" if "Boosting" in type(model).__name__ else "forest"
    features = _features(kind, inputs)
    if task == "classification":
        return torch.from_numpy(model.predict_proba(features)[:, 1:])
    return torch.from_numpy(model.predict(features))[:, None]


def _features(kind: str, inputs: MoleculeInputs):
    if kind == "boosting":
        return inputs.descriptors.numpy()
    return torch.cat([inputs.descriptors, inputs.counts.float()], 1).numpy()
