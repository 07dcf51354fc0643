"""Graph attention for PyTorch: one operator on some graph."""

from gattn import data, functional, graphs, nn
from gattn.graph import Graph
from gattn.ops.backend import backend_info

__version__ = "0.1.0"

__all__ = ["Graph", "__version__", "backend_info", "data", "functional", "graphs", "nn"]
