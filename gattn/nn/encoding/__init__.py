"""Encodings of positions and of graph structure, and score biases from relative positions."""
