from gattn.transforms.expanders import AddExpander
from gattn.transforms.structures import (
    AddRelativeRandomWalkPE,
    AddShortestPaths,
)

__all__ = [
    "AddExpander",
    "AddRelativeRandomWalkPE",
    "AddShortestPaths",
]
