"""Matplotlib with a file backend, or an error that explains how to install it."""

try:
    import matplotlib as mpl
except ImportError as error:
    raise ImportError(
        "the documentation's pictures need matplotlib, of the dependency group docs: "
        "pip install --group docs"
    ) from error

mpl.use("agg")
import matplotlib.pyplot as plt

__all__ = ["mpl", "plt"]
