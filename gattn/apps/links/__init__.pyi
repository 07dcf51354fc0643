from gattn.apps.links.estimator import LinkPredictor
from gattn.apps.links.settings import LinkSettings

__all__ = ["LinkPredictor", "LinkSettings"]
