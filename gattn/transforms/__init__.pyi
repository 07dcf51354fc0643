from gattn.transforms.expanders import AddExpander
from gattn.transforms.structures import AddShortestPaths

__all__ = [
    "AddExpander",
    "AddShortestPaths",
]
