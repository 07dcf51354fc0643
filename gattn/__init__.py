"""Graph attention for PyTorch: layers, functions and models for graphs.

A name is imported at its first use: ``import gattn`` imports neither PyTorch nor its operators.
"""

from gattn.lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
