"""Molecules: from SMILES and measured values to predictions, intervals and explanations.

The estimators, and with them scikit-learn, RDKit and the other packages of the extra ``molecules``,
are imported at their first use.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="molecules")
