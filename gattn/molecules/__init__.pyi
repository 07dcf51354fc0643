from gattn.molecules.atoms.estimators import AtomClassifier, AtomRegressor
from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.settings import MoleculeSettings

__all__ = [
    "AtomClassifier",
    "AtomRegressor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "MoleculeSettings",
]
