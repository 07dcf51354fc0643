"""Kernels: functions of tensors. They do not check their inputs, and autograd does not record
them.
"""
