"""Nodes of a network: from a graph and labels of some nodes to predictions for all.

The estimators, and with them scikit-learn, pandas and the other packages of the extra ``nodes``,
are imported at their first use.
"""

import importlib
from typing import TYPE_CHECKING

from gattn.nodes.settings import PRESETS, NodeSettings

if TYPE_CHECKING:
    from gattn.nodes.estimators import NodeClassifier, NodeRegressor

__all__ = ["PRESETS", "NodeClassifier", "NodeRegressor", "NodeSettings"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("gattn.nodes.estimators"), name)
    except ModuleNotFoundError as error:
        message = f'gattn.nodes needs {error.name}: pip install "gattn[nodes]"'
        raise ImportError(message) from error
