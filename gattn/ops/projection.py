"""Linear layers and sums with a bias on a CPU that write large results into huge pages.

Newly allocated memory causes a page fault for each page. For the features of a large graph, these
faults take as much time as the matrix product, and small pages slow down a later gather. Huge pages
avoid this. For small tensors, other devices and traced code, torch's functions run unchanged.

On x86, torch uses MKL for fp32 products. On AMD processors MKL uses only half of the vector unit,
so large products use oneDNN, which torch also contains. oneDNN compiles a kernel for each new
shape: the rows are therefore split into blocks of one size. On Intel processors MKL is faster.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.kernels import cpu
from gattn.ops.registration.backend import is_transformed

LARGE = 1 << 20
"""Huge pages are used for a result with at least this number of elements."""
BLOCK = 1 << 19
"""Number of elements in a block of rows that oneDNN computes in one call. A block fits into the
cache.
"""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute the linear layer x W^T + b from x [n, d], W [c, d] and b [c]: [n, c]."""
    if x.dim() == 2 and _uses_huge_pages(x, x.shape[0] * weight.shape[0], weight, bias):
        return _Linear.apply(x, weight, bias)
    return F.linear(x, weight, bias)


def add(x: Tensor, bias: Tensor) -> Tensor:
    """Compute x + b from x [n, c] and b [c]: [n, c]."""
    if x.dim() == 2 and bias.dim() == 1 and _uses_huge_pages(x, x.numel(), bias):
        return _Add.apply(x, bias)
    return x + bias


def _uses_huge_pages(x: Tensor, elements: int, *others: Tensor | None) -> bool:
    """Return True if a result of this many elements should be written into huge pages."""
    return (
        not torch.compiler.is_compiling()
        and elements >= LARGE
        and x.layout == torch.strided
        and cpu.serves(x.device)
        and all(t is None or (t.dtype == x.dtype and t.device == x.device) for t in others)
        and not torch.is_autocast_enabled("cpu")
        and type(x) in (Tensor, torch.nn.Parameter)
        and x.is_floating_point()
        and not is_transformed()
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias, cpu.empty(x, x.shape[0], weight.shape[0]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradients of x, the weight and the bias; None for those that need none."""
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        grad_x = grad_weight = grad_bias = None
        if wants_x:
            if torch.is_grad_enabled():
                # Autograd cannot differentiate a matrix product that writes to out=.
                grad_x = grad @ weight
            else:
                grad_x = _product(grad, weight.t(), None, cpu.empty(grad, *x.shape))
        if wants_weight:
            grad_weight = grad.t() @ x
        if wants_bias:
            grad_bias = grad.sum(0)
        return grad_x, grad_weight, grad_bias


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        return torch.add(x, bias, out=cpu.empty(x, *x.shape))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of x and the bias; None for those that need none."""
        wants_x, wants_bias = ctx.needs_input_grad
        return grad if wants_x else None, grad.sum(0) if wants_bias else None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """Write x W^T + b to ``out`` and return it. x is [n, d], W [c, d], b [c] or None, and ``out``
    [n, c]. If oneDNN is faster, it is used for whole blocks of rows.
    """
    rows = BLOCK // max(weight.shape[0], 1)
    fits = weight.shape[1] == x.shape[1] > 0 and (bias is None or bias.shape == out.shape[1:])
    onednn = _onednn(x) if rows and fits else None
    done = 0 if onednn is None else x.shape[0] // rows * rows
    if onednn is not None and done:
        # The weight is made contiguous, because oneDNN does not support strides.
        weight, bias = weight.contiguous(), None if bias is None else bias.contiguous()
        for block, target in zip(x[:done].split(rows), out[:done].split(rows)):
            target.copy_(onednn(block, weight, bias))
    if bias is None:
        torch.mm(x[done:], weight.t(), out=out[done:])
    else:
        torch.addmm(bias, x[done:], weight.t(), out=out[done:])
    return out


def _onednn(x: Tensor) -> Callable[..., Tensor] | None:
    """Return oneDNN's matrix product if it is available, enabled, and faster for x; otherwise
    None.
    """
    if x.dtype == torch.float32 and torch.backends.mkldnn.enabled and _mkl_is_slow():
        return torch_internals.onednn_linear()
    return None


@functools.cache
def _mkl_is_slow() -> bool:
    """Return True if torch uses MKL on an AMD processor and also contains oneDNN."""
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return has_both and "AuthenticAMD" in _processor()


def _processor() -> str:
    """Return the operating system's description of the processor, which names the vendor."""
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.read_text() if cpuinfo.exists() else platform.processor()
