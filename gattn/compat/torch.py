"""Access to the private parts of torch that gattn uses.

| name here            | without it                                                               |
|----------------------|--------------------------------------------------------------------------|
| FakeTensor           | tensors of a FakeTensorMode are read as if they had values               |
| fake_mode            | explain_path raises an error that names this part of torch               |
| dynamic_size         | layers that add self-loops break the graph of torch.compile             |
| has_hooks            | True: maps are called as modules, and edges with one run edge by edge    |
| transforms_active    | False: graphs created inside torch.func are cached like others           |
| innermost_transform  | errors say "transform" instead of the transform's name                   |
| is_wrapped           | edges created inside torch.func are not detected                         |
| transforms_disabled  | nothing is disabled                                                      |
| forward_mode_active  | forward-mode differentiation is detected by tangents alone               |
| dispatch_mode_active | False: a graph of fake tensors may be cached                             |
| uncompiled           | functions from torch.compile are compiled again                          |
| uncompiled_optimizers| the first optimizer imports torch's compiler, which takes seconds         |
| memory_uses          | rows of edges are read into new memory for each chunk                    |
| onednn_linear        | torch's own products, which are slower on AMD processors                 |
| flash_attention      | None, and its derivative computes the forward again                      |
| below_autograd       | gattn cannot be imported: every operator call would be recorded          |

``tests/compat/test_torch.py`` removes each of them and imports gattn.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import _check as assume
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend

below_autograd: Callable[[], contextlib.AbstractContextManager[None]]
below_autograd = torch._C._AutoDispatchBelowAutograd
"""Context manager in which autograd does not record operators."""

transforms_active: Callable[[], bool]
transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
"""Return True inside a transform of torch.func."""

transforms_disabled: Callable[[], contextlib.AbstractContextManager[None]]
transforms_disabled = getattr(torch._C, "_DisableFuncTorch", contextlib.nullcontext)
"""Context manager that disables the transforms of torch.func."""

_functorch: Any = getattr(torch._C, "_functorch", None)

is_wrapped: Callable[[Tensor], bool]
is_wrapped = getattr(_functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
"""Return True if a tensor was created or batched by a transform of torch.func."""

FakeTensor: type = getattr(getattr(torch, "_subclasses", None), "FakeTensor", type(None))
"""Type of the tensors of a FakeTensorMode, which have no memory."""


def fake_mode() -> Any:
    """Return a mode in which operators compute only the shapes of tensors, which use no memory.

    Raises:
        NotImplementedError: if this version of torch has no FakeTensorMode.
    """
    mode = getattr(getattr(torch, "_subclasses", None), "FakeTensorMode", None)
    if mode is None:
        raise NotImplementedError(f"torch {torch.__version__} has no FakeTensorMode")
    return mode(allow_non_fake_inputs=True)


def data_dependent_errors() -> tuple[type[Exception], ...]:
    """Return the types of the errors that torch raises if a value is read from a fake tensor."""
    from torch._subclasses import fake_tensor

    return fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException


def dynamic_size() -> Any:
    """Return a data-dependent size for the result of a custom operator's fake kernel.

    ``get_ctx().new_dynamic_size()`` raises an error under torch.compile without ``fullgraph=True``.
    """
    context = torch.library.get_ctx()
    shapes = getattr(context, "_shape_env", None)
    if shapes is None:
        return context.new_dynamic_size()
    size = shapes.create_unbacked_symint()
    assume(size >= 0)
    return size


_has_any_global_hook: Callable[[], bool]
_has_any_global_hook = getattr(torch.nn.modules.module, "_has_any_global_hook", lambda: True)


def has_hooks(module: torch.nn.Module) -> bool:
    """Return True if calling a module runs one of its own hooks or a global hook."""
    return has_local_hooks(module) or _has_any_global_hook()


def has_local_hooks(module: torch.nn.Module) -> bool:
    """Return True if calling a module runs one of its own hooks."""
    return (
        len(module._forward_hooks) > 0
        or len(module._forward_pre_hooks) > 0
        or len(module._backward_hooks) > 0
        or len(module._backward_pre_hooks) > 0
    )


def innermost_transform() -> str:
    """Return the name of the innermost active transform of torch.func, such as "vmap" or "grad";
    "transform" if there is none or torch does not name it.
    """
    peek = getattr(_functorch, "peek_interpreter_stack", lambda: None)
    layer = peek()
    return "transform" if layer is None else layer.key().name.lower()


def forward_mode_active() -> bool:
    """Return True inside forward-mode differentiation."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def has_tangent(tensor: Tensor) -> bool:
    """Return True if a tensor has a tangent for forward-mode differentiation."""
    return forward_ad.unpack_dual(tensor).tangent is not None


def dispatch_mode_active() -> bool:
    """Return True if a dispatch mode intercepts operators, so that results may be fake tensors."""
    from torch.utils import _python_dispatch

    current = getattr(_python_dispatch, "_get_current_dispatch_mode", lambda: None)
    return current() is not None


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function or module that was passed to torch.compile to create the argument. Any
    other function is returned unchanged.
    """
    if getattr(function, "_torchdynamo_disable", False):
        # This attribute marks a wrapper that torch.compiler.disable created. The wrapper is
        # returned unchanged, because without it the function could be compiled.
        return function
    for name in ("_torchdynamo_orig_callable", "_orig_mod"):
        function = getattr(function, name, function)
    return function


@contextlib.contextmanager
def uncompiled_optimizers() -> Iterator[None]:
    """Let the ``with`` block create optimizers of torch.optim without importing torch's compiler.

    The constructor of an optimizer calls a method that is excluded from compilation. The first call
    of this method imports the compiler, which is slow. If no other code has imported the compiler,
    no code is being compiled, so that the exclusion is not needed. During the block, a mark on this
    method disables it in all threads.
    """
    method = getattr(torch.optim.Optimizer.add_param_group, "__wrapped__", None)
    mark = "__dynamo_disable"
    if method is None or hasattr(method, mark) or "torch._dynamo" in sys.modules:
        yield
        return
    setattr(method, mark, method)
    try:
        yield
    finally:
        delattr(method, mark)


def map_one_by_one(operator: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call an operator once for each gradient of a batch of gradients, and stack the results: one
    tensor, or a tuple if the operator has several outputs. The batch must not be empty.

    ``torch.autograd.grad(is_grads_batched=True)`` and ``jacobian(vectorize=True)`` batch gradients
    by an older implementation of vmap, which is independent of torch.func.
    """
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()

    def unwrap(arg: Any) -> Any:
        """Return the argument with the batch dimension first in each of its tensors."""
        if isinstance(arg, Tensor):
            return torch._remove_batch_dim(arg, level, 1, 0)
        return [unwrap(item) for item in arg] if isinstance(arg, (list, tuple)) else arg

    def select(arg: Any, index: int) -> Any:
        """Return the argument for one element of the batch."""
        if isinstance(arg, Tensor):
            return arg[index if arg.shape[0] > 1 else 0]
        return [select(item, index) for item in arg] if isinstance(arg, list) else arg

    batched = [unwrap(arg) for arg in args]
    size = max(arg.shape[0] for arg in batched if isinstance(arg, Tensor))
    results = [operator(*(select(arg, index) for arg in batched)) for index in range(size)]
    if isinstance(results[0], Tensor):
        return torch._add_batch_dim(torch.stack(results), 0, level)
    return tuple(torch._add_batch_dim(torch.stack(outs), 0, level) for outs in zip(*results))


_storage_uses: Any = getattr(torch._C, "_storage_Use_Count", None)
_increasing = itertools.count(1)


def memory_uses(tensor: Tensor) -> int:
    """Return the number of references to a tensor's memory, which increases when another tensor
    starts to share it; if torch has no such count, a number that increases at each call.
    """
    if _storage_uses is None:
        return next(_increasing)
    return _storage_uses(tensor.untyped_storage()._cdata)


def onednn_linear() -> Callable[[Tensor, Tensor, Tensor | None], Tensor] | None:
    """Return oneDNN's function for a linear layer, x W^T + b; return None if this version of
    torch has no such function.
    """
    product = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
    if product is None:
        return None
    return lambda x, weight, bias: product(x, weight, bias, "none", [], "")


class FlashAttention(NamedTuple):
    """Flash attention kernels of torch for the CPU, and torch's rule for when they are used.

    ``forward`` returns the output and the log-sum-exp of the scores, which ``backward`` needs.
    Tensors are [b, h, n, c].
    """

    forward: Callable[..., tuple[Tensor, Tensor]]
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]]
    choice: Callable[..., int]

    def is_chosen(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> bool:
        """Return True if scaled_dot_product_attention would run this kernel."""
        return self.choice(query, key, value, None, 0.0, causal) == SDPBackend.FLASH_ATTENTION.value


def _flash_attention() -> FlashAttention | None:
    """Return torch's flash attention on a CPU, forward and backward; None if this version of torch
    does not have it.
    """
    name = "_scaled_dot_product_flash_attention_for_cpu"
    forward = getattr(torch.ops.aten, name, None)
    backward = getattr(torch.ops.aten, f"{name}_backward", None)
    choice = getattr(torch, "_fused_sdp_choice", None)
    if forward is None or backward is None or choice is None:
        return None
    return FlashAttention(forward.default, backward.default, choice)


flash_attention = _flash_attention()
"""Flash attention kernels of torch for the CPU. Their forward and backward functions have no
public names.
"""
