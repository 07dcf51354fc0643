"""Attention layers over sets, sequences and grids, and transformer blocks."""
