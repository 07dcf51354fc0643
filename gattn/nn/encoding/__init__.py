"""Positional and structural encodings of nodes, and score biases from relative positions."""
