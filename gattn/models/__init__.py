"""Models composed of gattn's layers."""

from gattn.models.attentive_fp import AttentiveFP

__all__ = ["AttentiveFP"]
