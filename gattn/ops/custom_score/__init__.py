"""Attention with a score function that the user defines."""
