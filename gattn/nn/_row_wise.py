"""Whether a network gives each row a result of that row alone, so that rows may come in chunks."""

from __future__ import annotations

from typing import cast

from torch import nn
from torch.nn import Module
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import MLP, BatchNorm
from torch_geometric.nn.dense.linear import Linear

from gattn.nn._features import is_untouched
from gattn.nn.res_gated_graph_conv import MODULES

_CONTAINERS = nn.Sequential, nn.ModuleList, MLP, BatchNorm
_PLAIN = Linear, nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.PReLU, *MODULES
_IN_EVALUATION = nn.BatchNorm1d, nn.Dropout
"""In training they look at all rows, or draw random numbers."""


def why_not_row_wise(network: object) -> str:
    """Which part of a network may look at more than one row, in words; empty where none does."""
    if not isinstance(network, Module):
        return f"{network} may look at more than one row"
    if any(isinstance(parameter, UninitializedParameter) for parameter in network.parameters()):
        return f"{type(network).__name__} takes its widths from its first input"
    for module in network.modules():
        if not _is_row_wise(module):
            return f"{type(module).__name__} may look at more than one row"
    return ""


def _is_row_wise(module: Module) -> bool:
    kind = type(module)
    if not is_untouched(module):
        return False
    if kind in _IN_EVALUATION:
        is_by_batch = kind is nn.BatchNorm1d and module.running_mean is None
        return not module.training and not is_by_batch
    if isinstance(module, MLP) and module.training and any(cast("list[float]", module.dropout)):
        return False
    return kind in _CONTAINERS or kind in _PLAIN
