"""Kernels: functions of tensors that do not check their inputs and that autograd does not
record.
"""
