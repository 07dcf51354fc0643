"""Layouts of edges: index tensors in CSR and CSC format, and their statistics."""
