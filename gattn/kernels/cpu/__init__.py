"""Launchers of the C++ kernels: from tensors to raw pointers."""

from __future__ import annotations

import torch

try:
    from gattn.kernels.cpu import _kernels
except ImportError as error:
    _kernels = None
    _reason = f"the C++ extension is not built ({error})"


def unavailable_reason() -> str:
    """Why the kernels cannot run; empty where they can."""
    return "" if _kernels is not None else _reason


def serves(device: torch.device) -> bool:
    """Whether the kernels can work on this device's memory."""
    return _kernels is not None and device.type == "cpu"


def description() -> str:
    """The instruction set in use."""
    return "C++" if _kernels is None else _kernels.isa()
