"""Which backend runs an operator: chosen by device, or forced and then obeyed or refused."""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from types import ModuleType
from typing import Any

import torch

from gattn.kernels import cpu
from gattn.layout import onnx

NAMES = ("reference", "cpu", "triton")


def select(backend: str | None, device: torch.device) -> str:
    """Name of the backend for tensors on this device.

    ``backend``, else the environment variable ``GATTN_BACKEND``, forces one; otherwise the C++
    kernels serve CPU tensors, Triton serves CUDA tensors (ROCm's, too, go by that name), and the
    reference serves the rest, which is told once. What torch.onnx.export traces is the reference,
    even where another is forced: the model that it writes runs on no backend of ours.

    Raises:
        ValueError: for an unknown name.
        RuntimeError: where the forced backend cannot run, with the reason.
    """
    forced = backend or os.environ.get("GATTN_BACKEND") or None
    if forced is None:
        return "reference" if onnx.exporting() else _default(device.type)
    if forced not in NAMES:
        origin = "" if backend else " from the environment variable GATTN_BACKEND"
        raise ValueError(f"backend must be one of {', '.join(NAMES)}; got {forced!r}{origin}")
    if onnx.exporting():
        return "reference"
    reason = why_not(forced, device.type)
    if reason:
        raise RuntimeError(f"backend {forced!r} cannot run here: {reason}")
    return forced


def _default(device_type: str) -> str:
    if device_type not in _defaults:
        backend, reason = _find_default(device_type)
        if reason:
            warnings.warn(f"gattn runs on its plain PyTorch reference: {reason}", stacklevel=4)
        _defaults[device_type] = backend
    return _defaults[device_type]


# A plain dict, which torch.compile can read; its functions tell it nothing of functools.cache.
# What is known at once stands in it: code traced before the first call would be traced again.
# Tensors on the device "meta" have no numbers: they want no kernels.
_defaults = {"meta": "reference"}
if not cpu.unavailable_reason():
    _defaults["cpu"] = "cpu"


def _find_default(device_type: str) -> tuple[str, str]:
    """The backend for a type of device and, if it is the reference for want of kernels, why."""
    expected = {"cpu": "cpu", "cuda": "triton"}.get(device_type)
    if expected is None:
        return "reference", f"it has no kernels for tensors on {device_type}"
    reason = why_not(expected, device_type)
    return ("reference", reason) if reason else (expected, "")


def reference_reason(device_type: str) -> str:
    """Say why the reference serves this type of device, and what to change."""
    if os.environ.get("GATTN_BACKEND") == "reference":
        return "GATTN_BACKEND=reference forces plain PyTorch: unset it"
    reason = _find_default(device_type)[1]
    if not reason:
        return "the caller passed backend='reference'"
    return f"plain PyTorch, because {reason}; gattn.backend_info() lists what can run here"


def why_not(backend: str, device_type: str) -> str:
    """Why a backend cannot serve a type of device; empty where it can."""
    if backend == "cpu":
        if device_type != "cpu":
            return f"its kernels take CPU tensors, these are on {device_type}"
        return cpu.unavailable_reason()
    if backend == "triton":
        if importlib.util.find_spec("triton") is None:
            return "triton is not installed (the extra gpu brings it)"
        if device_type != "cuda" and not interpreted():
            return f"its kernels take CUDA tensors, not those on {device_type}"
    return ""


def interpreted() -> bool:
    """Whether Triton kernels run in Triton's interpreter, on any device."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def launchers(backend: str) -> ModuleType:
    """The module with the launchers of a compiled backend; triton is imported only here."""
    return importlib.import_module(f"gattn.kernels.{backend}")


def backend_info() -> dict[str, Any]:
    """What runs here and why.

    Returns:
        For each backend its state, beside torch's version, the backend that is forced, and
        ``"devices"``: which backend serves the tensors on each type of device that torch sees,
        where none is forced.

    Example:
        >>> import gattn
        >>> sorted(gattn.backend_info())
        ['cpu', 'devices', 'forced', 'reference', 'torch', 'triton']
    """
    result = torch.accelerator.current_accelerator(check_available=True)
    types = ["cpu"] if result is None else ["cpu", result.type]
    return {
        "torch": torch.__version__,
        "forced": os.environ.get("GATTN_BACKEND") or None,
        "reference": "available",
        "cpu": why_not("cpu", "cpu") or f"available ({cpu.description()})",
        "triton": _why_no_triton() or "available",
        "devices": {name: _find_default(name)[0] for name in types},
    }


def _why_no_triton() -> str:
    """Why nothing here runs on Triton, whatever the tensors; empty where something does."""
    if interpreted() or torch.cuda.is_available():
        return why_not("triton", "cuda")
    built = "" if torch.version.cuda or torch.version.hip else ": it is built without CUDA"
    return f"torch sees no CUDA device{built}"
