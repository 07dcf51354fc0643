"""Attention layers for sets, sequences and grids, and transformer blocks."""
