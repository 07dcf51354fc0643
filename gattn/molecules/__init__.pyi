from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.settings import MoleculeSettings

__all__ = ["MoleculeClassifier", "MoleculeRegressor", "MoleculeSettings"]
