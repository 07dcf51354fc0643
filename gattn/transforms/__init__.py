"""Transforms of PyG data that compute structural encodings once and store them with each graph.

Names, arguments and attributes equal those of ``torch_geometric.transforms`` where it has the same
transform.
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
