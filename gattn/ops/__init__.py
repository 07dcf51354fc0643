"""Operators: checks, schemas, dispatch and autograd around the kernels."""
