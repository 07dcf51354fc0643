"""Encodings as transforms: what is worth computing once per graph and storing with it.

Names, arguments and attributes are those of ``torch_geometric.transforms`` where it has the same.
"""

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
