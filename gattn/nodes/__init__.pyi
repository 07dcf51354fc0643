from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.settings import PRESETS, NodeSettings

__all__ = ["PRESETS", "NodeClassifier", "NodeRegressor", "NodeSettings"]
