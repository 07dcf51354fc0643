"""Score biases from relative positions."""
