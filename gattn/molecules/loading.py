"""The estimator of a folder, of whichever kind it is."""

from __future__ import annotations

import os

from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.saving import from_state
from gattn.training.runs import Json, read_model

__all__ = ["load_estimator"]


def load_estimator(folder: str | os.PathLike[str]) -> tuple[MoleculeEstimator, dict[str, Json]]:
    """Load the regressor or the classifier of a folder, whichever it holds, with its card.

    Raises:
        RunError: a file is missing, truncated or changed, or holds another kind of model.
    """
    tensors, card = read_model(folder)
    kinds = {kind.__name__: kind for kind in (MoleculeRegressor, MoleculeClassifier)}
    kind = kinds.get(str(card.get("estimator")), MoleculeRegressor)
    return from_state(kind, folder, tensors, card), card
