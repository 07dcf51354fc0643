"""Dense products and sums whose large results lie in huge pages.

On a CPU, fresh memory costs a fault per page: for the features of a large graph as much as the
product that fills it, and once more when rows are gathered from it. These give torch's own
numbers; small tensors, other devices and traced code take torch's own functions.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.kernels import cpu

LARGE = 1 << 20
"""Elements of a result from which it is placed by hand."""


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
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = cpu.empty(x, x.shape[0], weight.shape[0])
        if bias is None:
            return torch.mm(x, weight.t(), out=out)
        return torch.addmm(bias, x, weight.t(), out=out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        grad_x = grad_weight = grad_bias = None
        if wants_x:
            # Without an output of our own the product can be differentiated again.
            out = None if torch.is_grad_enabled() else cpu.empty(grad, *x.shape)
            grad_x = torch.mm(grad, weight, out=out)
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
