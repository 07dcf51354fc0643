"""Dense products, sums and stacked rows whose large results lie in huge pages.

On a CPU, fresh memory costs a fault per page: for the features of a large graph as much as the
product that fills it, and once more when rows are gathered from it. Small tensors, other devices
and traced code take torch's own functions.

On x86 torch multiplies fp32 by MKL, which on AMD processors leaves half of the vector unit idle.
There large products go to oneDNN, which torch has, too, in blocks of rows of one size: oneDNN
compiles a kernel for every new shape. On Intel's processors MKL is the faster one.
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
from gattn.ops.registration.operator import is_transformed

LARGE = 1 << 20
"""Elements of a result from which it is placed by hand."""
BLOCK = 1 << 19
"""Elements of a block of rows that oneDNN computes at once; they stay in the cache."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, for x [n, d] and W [c, d]."""
    if x.dim() == 2 and _placed(x, x.shape[0] * weight.shape[0], weight, bias):
        return _Linear.apply(x, weight, bias)
    return F.linear(x, weight, bias)


def add(x: Tensor, bias: Tensor) -> Tensor:
    """x + b, for x [n, c] and b [c]."""
    if x.dim() == 2 and bias.dim() == 1 and _placed(x, x.numel(), bias):
        return _Add.apply(x, bias)
    return x + bias


def fork(x: Tensor) -> tuple[Tensor, Tensor]:
    """x for two uses, [n, c]: the sum of their gradients is placed, which autograd's own is not."""
    if x.dim() == 2 and x.requires_grad and _placed(x, x.numel()):
        return _Fork.apply(x)
    return x, x


def stack(x: Tensor, index: Tensor | None, below: Tensor) -> Tensor:
    """The rows of x [e, d] at these positions, each named once, or all; then those of another."""
    rows = (x if index is None else index).shape[0] + below.shape[0]
    if x.dim() == 2 and _placed(x, rows * x.shape[1], below):
        return _Stack.apply(x, index, below)
    return torch.cat([x if index is None else x[index], below])


def _placed(x: Tensor, elements: int, *others: Tensor | None) -> bool:
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
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        grad_x = grad_weight = grad_bias = None
        if wants_x:
            if torch.is_grad_enabled():  # without an output of our own, to be differentiated again
                grad_x = grad @ weight
            else:
                grad_x = _product(grad, weight.t(), None, cpu.empty(grad, *x.shape))
        if wants_weight:
            grad_weight = grad.t() @ x
        if wants_bias:
            grad_bias = grad.sum(0)
        return grad_x, grad_weight, grad_bias


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """x W^T + b into out, by oneDNN as far as whole blocks go."""
    rows = BLOCK // max(weight.shape[0], 1)
    fits = weight.shape[1] == x.shape[1] > 0 and (bias is None or bias.shape == out.shape[1:])
    onednn = _onednn(x) if rows and fits else None
    done = 0 if onednn is None else x.shape[0] // rows * rows
    if onednn is not None and done:
        # oneDNN reads no strides
        weight, bias = weight.contiguous(), None if bias is None else bias.contiguous()
        for part, to in zip(x[:done].split(rows), out[:done].split(rows)):
            to.copy_(onednn(part, weight, bias))
    if bias is None:
        torch.mm(x[done:], weight.t(), out=out[done:])
    else:
        torch.addmm(bias, x[done:], weight.t(), out=out[done:])
    return out


def _onednn(x: Tensor) -> Callable[..., Tensor] | None:
    """oneDNN's product, where torch has it, may use it, and would take a slower one for fp32."""
    if x.dtype == torch.float32 and torch.backends.mkldnn.enabled and _mkl_is_slow():
        return torch_internals.onednn_linear()
    return None


@functools.cache
def _mkl_is_slow() -> bool:
    """Whether torch multiplies by MKL on a processor of AMD's, and has oneDNN."""
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return has_both and "AuthenticAMD" in _processor()


def _processor() -> str:
    """What the system says of the processor; Windows says it in its name."""
    described = Path("/proc/cpuinfo")
    return described.read_text() if described.exists() else platform.processor()


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        return torch.add(x, bias, out=cpu.empty(x, *x.shape))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, grad.sum(0) if ctx.needs_input_grad[1] else None


class _Fork(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return x.view_as(x), x.view_as(x)

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> Any:
        if first is None or second is None:
            return second if first is None else first
        if torch.is_grad_enabled():
            return first + second
        return torch.add(first, second, out=cpu.empty(first, *first.shape))


class _Stack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor | None, below: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, count = x.shape, (x if index is None else index).shape[0]
        out = cpu.empty(x, count + below.shape[0], x.shape[1])
        if index is None:
            out[:count] = x
        else:
            torch.index_select(x, 0, index, out=out[:count])
        out[count:] = below
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (index,) = ctx.saved_tensors
        count = ctx.shape[0] if index is None else index.shape[0]
        grad_x = grad[:count]
        if index is not None and ctx.needs_input_grad[0]:
            grad_x = cpu.empty(grad, *ctx.shape).zero_().index_copy_(0, index, grad_x)
        return grad_x, None, grad[count:]
