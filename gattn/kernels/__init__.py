"""Kernels: functions of tensors, without autograd and without checks of their inputs."""
