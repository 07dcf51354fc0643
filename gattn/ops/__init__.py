"""Operators of torch that call the kernels: checks, schemas, dispatch and autograd."""
