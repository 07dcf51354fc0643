"""Molecules: from SMILES and measured values to predictions, intervals and explanations.

The estimators are imported when they are first asked for, and with them scikit-learn, RDKit and
what else the extra ``molecules`` brings.
"""

import importlib
from typing import TYPE_CHECKING

from gattn.molecules.settings import MoleculeSettings

if TYPE_CHECKING:
    from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor

__all__ = ["MoleculeClassifier", "MoleculeRegressor", "MoleculeSettings"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("gattn.molecules.estimators"), name)
    except ModuleNotFoundError as error:
        told = f'gattn.molecules needs {error.name}: pip install "gattn[molecules]"'
        raise ImportError(told) from error
