from gattn.transforms.expanders import AddExpander
from gattn.transforms.positions import AddPosition, AddSinusoidalPE
from gattn.transforms.structures import (
    AddDegree,
    AddLaplacianEigenvectorPE,
    AddRandomWalkPE,
    AddRelativeRandomWalkPE,
    AddShortestPaths,
)

__all__ = [
    "AddDegree",
    "AddExpander",
    "AddLaplacianEigenvectorPE",
    "AddPosition",
    "AddRandomWalkPE",
    "AddRelativeRandomWalkPE",
    "AddShortestPaths",
    "AddSinusoidalPE",
]
