from gattn.apps.molecules.atoms.estimators import AtomClassifier, AtomRegressor
from gattn.apps.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.settings import MoleculeSettings

__all__ = [
    "AtomClassifier",
    "AtomRegressor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "MoleculeSettings",
]
