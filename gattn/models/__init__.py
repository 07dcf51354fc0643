"""Models composed of gattn's layers."""

from gattn.models.attentive_fp import AttentiveFP
from gattn.models.gat import GAT

__all__ = ["GAT", "AttentiveFP"]
