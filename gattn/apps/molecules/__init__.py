"""Prediction of molecular properties from SMILES, with prediction intervals and explanations.

scikit-learn, RDKit and the other packages of the extra ``molecules`` are imported when an estimator
is first used.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="molecules")
