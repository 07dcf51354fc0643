"""Molecules: from SMILES and measured values to predictions, intervals and explanations.

The estimators, and with them scikit-learn, RDKit and the other packages of the extra ``molecules``,
are imported at their first use.
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
        message = f'gattn.molecules needs {error.name}: pip install "gattn[molecules]"'
        raise ImportError(message) from error
