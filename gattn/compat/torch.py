"""What gattn uses of torch that torch does not promise to keep, in one place.

| name here            | without it                                                               |
|----------------------|--------------------------------------------------------------------------|
| FakeTensor           | tensors of a FakeTensorMode are read as if they had numbers              |
| fake_mode            | explain_path says that it needs this part of torch                       |
| has_hooks            | taken for hooked: maps are called, and edges with one run edge by edge   |
| transforms_active    | taken for inactive: graphs made inside torch.func are cached as they are |
| innermost_transform  | errors say "transform" in place of the transform's name                  |
| is_wrapped           | edges made inside torch.func are not told from others                    |
| transforms_disabled  | nothing is disabled                                                      |
| forward_mode_active  | forward-mode differentiation is noticed by its tangents alone            |
| dispatch_mode_active | taken for inactive: a graph of fake tensors may be cached                |
| uncompiled           | what torch.compile made is compiled once more                            |
| memory_uses          | rows of edges are read into memory of their own for each chunk           |
| onednn_linear        | products are torch's own, which are slower on AMD processors             |
| flash_attention      | None, and its derivative computes the forward once more                  |
| below_autograd       | gattn does not import: no operator could be called without being recorded |

``tests/compat/test_torch.py`` removes each of them and imports gattn.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend

below_autograd: Callable[[], contextlib.AbstractContextManager[None]]
below_autograd = torch._C._AutoDispatchBelowAutograd
"""A context in which operators are not recorded."""

transforms_active: Callable[[], bool]
transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
"""Whether a transform of torch.func is at work."""

transforms_disabled: Callable[[], contextlib.AbstractContextManager[None]]
transforms_disabled = getattr(torch._C, "_DisableFuncTorch", contextlib.nullcontext)
"""A context in which no transform of torch.func is at work."""

_functorch: Any = getattr(torch._C, "_functorch", None)

is_wrapped: Callable[[Tensor], bool]
is_wrapped = getattr(_functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
"""Whether a transform of torch.func made the tensor, or maps over it."""

FakeTensor: type = getattr(getattr(torch, "_subclasses", None), "FakeTensor", type(None))
"""The tensors of a FakeTensorMode, which have no memory."""


def fake_mode() -> Any:
    """A mode in which operators compute shapes, and its tensors have no memory.

    Raises:
        NotImplementedError: if this version of torch has no FakeTensorMode.
    """
    mode = getattr(getattr(torch, "_subclasses", None), "FakeTensorMode", None)
    if mode is None:
        raise NotImplementedError(f"torch {torch.__version__} has no FakeTensorMode")
    return mode(allow_non_fake_inputs=True)


def data_dependent_errors() -> tuple[type[Exception], ...]:
    """The errors of reading a number of a tensor that has no memory."""
    from torch._subclasses import fake_tensor

    return fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException


_has_any_global_hook: Callable[[], bool]
_has_any_global_hook = getattr(torch.nn.modules.module, "_has_any_global_hook", lambda: True)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether calling a module runs a hook, too: one of its own, or one for all modules."""
    return has_own_hooks(module) or _has_any_global_hook()


def has_own_hooks(module: torch.nn.Module) -> bool:
    """Whether calling a module runs a hook of its own, too."""
    return (
        len(module._forward_hooks) > 0
        or len(module._forward_pre_hooks) > 0
        or len(module._backward_hooks) > 0
        or len(module._backward_pre_hooks) > 0
    )


def innermost_transform() -> str:
    """Name of the innermost transform of torch.func that is at work: "vmap", "grad", ..."""
    peek = getattr(_functorch, "peek_interpreter_stack", lambda: None)
    layer = peek()
    return "transform" if layer is None else layer.key().name.lower()


def forward_mode_active() -> bool:
    """Whether forward-mode differentiation is at work."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def has_tangent(tensor: Tensor) -> bool:
    """Whether forward-mode differentiation carries a tangent on this tensor."""
    return forward_ad.unpack_dual(tensor).tangent is not None


def dispatch_mode_active() -> bool:
    """Whether operators are intercepted, so that their results may not be real."""
    from torch.utils import _python_dispatch

    current = getattr(_python_dispatch, "_get_current_dispatch_mode", lambda: None)
    return current() is not None


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or module itself, of which torch.compile may have made this one."""
    if getattr(function, "_torchdynamo_disable", False):  # which keeps the function likewise
        return function
    for name in ("_torchdynamo_orig_callable", "_orig_mod"):
        function = getattr(function, name, function)
    return function


def map_one_by_one(operator: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call an operator for each gradient of a batch, where autograd computes many at once.

    ``torch.autograd.grad(is_grads_batched=True)`` and ``jacobian(vectorize=True)`` do so by a map
    of their own, which is not the one of torch.func.
    """
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()

    def unwrap(arg: Any) -> Any:
        if isinstance(arg, Tensor):
            return torch._remove_batch_dim(arg, level, 1, 0)
        return [unwrap(one) for one in arg] if isinstance(arg, (list, tuple)) else arg

    def row_of(arg: Any, number: int) -> Any:
        if isinstance(arg, Tensor):
            return arg[number if arg.shape[0] > 1 else 0]
        return [row_of(one, number) for one in arg] if isinstance(arg, list) else arg

    rows = [unwrap(arg) for arg in args]
    size = max(row.shape[0] for row in rows if isinstance(row, Tensor))
    results = [operator(*(row_of(row, number) for row in rows)) for number in range(size)]
    if isinstance(results[0], Tensor):
        return torch._add_batch_dim(torch.stack(results), 0, level)
    return tuple(torch._add_batch_dim(torch.stack(outs), 0, level) for outs in zip(*results))


_storage_uses: Any = getattr(torch._C, "_storage_Use_Count", None)
_looks = itertools.count(1)


def memory_uses(tensor: Tensor) -> int:
    """A number that grows where others came to use the tensor's memory, too."""
    if _storage_uses is None:
        return next(_looks)
    return _storage_uses(tensor.untyped_storage()._cdata)


def onednn_linear() -> Callable[[Tensor, Tensor, Tensor | None], Tensor] | None:
    """x W^T + b by oneDNN, whatever torch itself would multiply by; None where it has no such."""
    product = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if product is None:
        return None
    return lambda x, weight, bias: product(x, weight, bias, "none", [], "")


class FlashAttention(NamedTuple):
    """torch's attention in tiles on a CPU, its derivative, and whether torch itself would take it.

    ``forward`` returns out and the log-sum-exp of the scores, which ``backward`` takes. All are on
    [b, h, n, c].
    """

    forward: Callable[..., tuple[Tensor, Tensor]]
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]]
    choice: Callable[..., int]

    def is_chosen(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> bool:
        """Whether scaled_dot_product_attention would run this kernel."""
        return self.choice(query, key, value, None, 0.0, causal) == SDPBackend.FLASH_ATTENTION.value


def _flash_attention() -> FlashAttention | None:
    name = "_scaled_dot_product_flash_attention_for_cpu"
    forward = getattr(torch.ops.aten, name, None)
    backward = getattr(torch.ops.aten, f"{name}_backward", None)
    choice = getattr(torch, "_fused_sdp_choice", None)
    if forward is None or backward is None or choice is None:
        return None
    return FlashAttention(forward.default, backward.default, choice)


flash_attention = _flash_attention()
"""torch's attention in tiles on a CPU, whose two halves torch does not name in public."""
