"""Choice of the backend that runs an operator, by the device or by a setting of the user."""

from __future__ import annotations

import functools
import importlib.util
import os
import warnings
from types import ModuleType
from typing import Any

import torch

from gattn.compat import torch as torch_internals
from gattn.kernels import cpu
from gattn.layout import onnx

NAMES = ("reference", "cpu", "triton")


def select(backend: str | None, device: torch.device) -> str:
    """Return the name of the backend for tensors on a device.

    ``backend``, or else the environment variable ``GATTN_BACKEND``, forces a backend. Otherwise CPU
    tensors use the C++ kernels, and CUDA tensors, which include ROCm tensors, use Triton. All
    other tensors use the reference, with one warning. Unless a backend is forced, the reference
    also runs inside transforms of torch.func and in forward-mode differentiation, which kernels do
    not support. torch.onnx.export always traces the reference, because the exported model cannot
    call gattn's kernels.

    Raises:
        ValueError: for an unknown name.
        RuntimeError: if the forced backend cannot run; the message gives the reason.
    """
    forced = backend or os.environ.get("GATTN_BACKEND") or None
    if forced is None:
        return "reference" if onnx.exporting() or is_transformed() else _default(device.type)
    if forced not in NAMES:
        origin = "" if backend else " from the environment variable GATTN_BACKEND"
        raise ValueError(f"backend must be one of {', '.join(NAMES)}; got {forced!r}{origin}")
    if onnx.exporting():
        return "reference"
    reason = why_not(forced, device.type)
    if reason:
        raise RuntimeError(f"backend {forced!r} cannot run here: {reason}")
    return forced


def is_transformed() -> bool:
    """Return True inside a transform of torch.func or a forward-mode differentiation."""
    return torch_internals.transforms_active() or torch_internals.forward_mode_active()


def _default(device_type: str) -> str:
    """Return the default backend of a type of device, which is determined once in a process; warn
    if it is the reference although the device could have kernels.
    """
    if device_type not in _defaults:
        backend, reason = _find_default(device_type)
        if reason:
            warnings.warn(f"gattn runs on its plain PyTorch reference: {reason}", stacklevel=4)
        _defaults[device_type] = backend
    return _defaults[device_type]


# The default backends are cached in a dict, because torch.compile can read a dict but not the
# cache of functools.cache. The entry of the CPU is written at import: otherwise the first call
# would change the dict, and torch.compile would trace the code again. Tensors on the device "meta"
# have no values, so their default is the reference backend.
_defaults = {"meta": "reference"}
if not cpu.unavailable_reason():
    _defaults["cpu"] = "cpu"


def _find_default(device_type: str) -> tuple[str, str]:
    """Return the default backend for a type of device, and the reason why it is the reference; ""
    if it is not.
    """
    expected = {"cpu": "cpu", "cuda": "triton"}.get(device_type)
    if expected is None:
        return "reference", f"it has no kernels for tensors on {device_type}"
    reason = why_not(expected, device_type)
    return ("reference", reason) if reason else (expected, "")


def reference_reason(device_type: str) -> str:
    """Return the reason why the slow reference is used on a type of device, and what the user can
    change, such as the environment variable ``GATTN_BACKEND``.
    """
    if os.environ.get("GATTN_BACKEND") == "reference":
        return "GATTN_BACKEND=reference forces plain PyTorch: unset it"
    if onnx.exporting():
        return "plain PyTorch, because ONNX has no kernels of gattn"
    if is_transformed():
        return "plain PyTorch, because kernels do not run inside torch.func"
    reason = _find_default(device_type)[1]
    if not reason:
        return "the caller passed backend='reference'"
    return f"plain PyTorch, because {reason}; gattn.backend_info() lists what can run here"


def why_not(backend: str, device_type: str) -> str:
    """Return the reason why a backend cannot run on a type of device, or "" if it can."""
    if backend == "cpu":
        if device_type != "cpu":
            return f"its kernels take CPU tensors, not those on {device_type}"
        return cpu.unavailable_reason()
    if backend == "triton":
        if importlib.util.find_spec("triton") is None:
            return "triton is not installed (the extra gpu installs it)"
        if device_type != "cuda" and not interpreted():
            return f"its kernels take CUDA tensors, not those on {device_type}"
    return ""


def interpreted() -> bool:
    """Return True if Triton kernels run in Triton's interpreter, which works on any device."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@functools.cache
def launchers(backend: str) -> ModuleType:
    """Return the module with the launchers of a backend; for "triton", this imports triton."""
    return importlib.import_module(f"gattn.kernels.{backend}")


def backend_info() -> dict[str, Any]:
    """Return the backends that can run in this environment, and the reasons why the others cannot.

    Returns:
        A dict with torch's version (``"torch"``), the backend that GATTN_BACKEND forces or None
        (``"forced"``), for each backend (``"reference"``, ``"cpu"``, ``"triton"``) a text that
        begins with "available" or gives the reason why it cannot run, and the default backend for
        each type of device that torch sees (``"devices"``).

    Example:
        >>> import gattn
        >>> sorted(gattn.backend_info())
        ['cpu', 'devices', 'forced', 'reference', 'torch', 'triton']
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    types = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
    return {
        "torch": torch.__version__,
        "forced": os.environ.get("GATTN_BACKEND") or None,
        "reference": "available",
        "cpu": why_not("cpu", "cpu") or f"available ({cpu.description()})",
        "triton": _why_no_triton() or "available",
        "devices": {name: _find_default(name)[0] for name in types},
    }


def _why_no_triton() -> str:
    """Return the reason why Triton cannot run in this environment, or "" if it can."""
    if interpreted() or torch.cuda.is_available():
        return why_not("triton", "cuda")
    built = "" if torch.version.cuda or torch.version.hip else ": it is built without CUDA"
    return f"torch sees no CUDA device{built}"
