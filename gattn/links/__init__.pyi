from gattn.links.estimator import LinkPredictor
from gattn.links.settings import LinkSettings

__all__ = ["LinkPredictor", "LinkSettings"]
