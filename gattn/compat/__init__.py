"""Internals of PyTorch and PyTorch Geometric that gattn relies on, in one file each."""
