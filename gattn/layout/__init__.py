"""Layouts of edges: index tensors in CSR and CSC format, with their statistics."""
