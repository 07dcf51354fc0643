"""Encodings of positions and structure, and score biases from relative positions."""
