"""Nodes of a network: from a graph and what is known of some nodes to predictions for all.

The estimators are imported when they are first asked for, and with them scikit-learn, pandas and
what else the extra ``nodes`` brings.
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
        told = f'gattn.nodes needs {error.name}: pip install "gattn[nodes]"'
        raise ImportError(told) from error
