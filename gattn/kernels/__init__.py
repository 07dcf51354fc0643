"""Kernels: functions from tensors to tensors, without autograd and without checks."""
