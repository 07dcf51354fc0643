from gattn.apps.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.apps.nodes.settings import PRESETS, NodeSettings

__all__ = ["PRESETS", "NodeClassifier", "NodeRegressor", "NodeSettings"]
