"""Models composed of gattn's layers."""

from gattn.models.attentive_fp import AttentiveFP
from gattn.models.gat import GAT
from gattn.models.layerwise import inference

__all__ = ["GAT", "AttentiveFP", "inference"]
