"""Tests for whether a function processes each row, or each element, independently of the others.

Only such a function may be applied to the edges in chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Module
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import MLP, BatchNorm
from torch_geometric.nn.dense.linear import Linear

from gattn.compat.torch import has_local_hooks
from gattn.nn.common.features import is_untouched

_MODULES = (
    nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity,
    nn.LeakyReLU, nn.LogSigmoid, nn.Mish, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid,
    nn.Softplus, nn.Softshrink, nn.Softsign, nn.Tanh, nn.Tanhshrink, nn.Threshold,
)  # fmt: skip
_FUNCTIONS = (
    torch.relu, torch.selu, torch.sigmoid, torch.tanh, torch.exp, torch.abs, torch.celu,
    F.celu, F.elu, F.gelu, F.hardshrink, F.hardsigmoid, F.hardswish, F.hardtanh, F.leaky_relu,
    F.logsigmoid, F.mish, F.relu, F.relu6, F.selu, F.sigmoid, F.silu, F.softplus, F.softshrink,
    F.softsign, F.tanh, F.tanhshrink,
)  # fmt: skip
"""Activation functions of torch that are applied elementwise and have no parameters."""
_CONTAINERS = nn.Sequential, nn.ModuleList, MLP, BatchNorm
_PLAIN = Linear, nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.PReLU, *_MODULES
_ROW_WISE_IN_EVALUATION = nn.BatchNorm1d, nn.Dropout
"""Modules that process rows independently only in evaluation mode.

In training they compute statistics over all rows, or draw random numbers.
"""


def is_elementwise(act: Callable[[Tensor], Tensor]) -> bool:
    """Return True if a function is one of torch's elementwise activation functions."""
    if isinstance(act, Module):
        return type(act) in _MODULES and not has_local_hooks(act)
    return any(act is function for function in _FUNCTIONS)


def why_not_row_wise(network: object) -> str:
    """Return the reason why a network may combine several rows; "" if it processes each row
    independently.
    """
    if not isinstance(network, Module):
        return f"{network} may combine several rows"
    if any(isinstance(parameter, UninitializedParameter) for parameter in network.parameters()):
        return f"{type(network).__name__} takes its widths from its first input"
    for module in network.modules():
        if not _is_row_wise(module):
            return f"{type(module).__name__} may combine several rows"
    return ""


def _is_row_wise(module: Module) -> bool:
    """Return True if each output row of a module depends on the same row of the input alone, so
    that the module can be applied to a part of the rows. A module with hooks or other changes is
    not.
    """
    cls = type(module)
    if not is_untouched(module):
        return False
    if cls in _ROW_WISE_IN_EVALUATION:
        uses_batch_statistics = cls is nn.BatchNorm1d and module.running_mean is None
        return not module.training and not uses_batch_statistics
    if isinstance(module, MLP) and module.training and any(cast("list[float]", module.dropout)):
        return False
    return cls in _CONTAINERS or cls in _PLAIN
