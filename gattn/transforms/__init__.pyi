from gattn.transforms.expanders import AddExpander
from gattn.transforms.structures import (
    AddLaplacianEigenvectorPE,
    AddRandomWalkPE,
    AddRelativeRandomWalkPE,
    AddShortestPaths,
)

__all__ = [
    "AddExpander",
    "AddLaplacianEigenvectorPE",
    "AddRandomWalkPE",
    "AddRelativeRandomWalkPE",
    "AddShortestPaths",
]
