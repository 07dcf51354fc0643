"""Layouts of edges: CSR and CSC index tensors, their statistics, ranges and dense blocks."""
