"""Registration of the fused operators with torch's dispatcher.

An operator has one kernel function per backend, a fake one for tracing, and an autograd
function. Registering the latter at the dispatcher's Autograd key keeps the operator opaque to
torch.compile and costs less per call than torch.library.register_autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gattn import torch_internals
from gattn.ops.backend import launchers

_library = torch.library.Library("gattn", "DEF")

_TRANSFORMED = (
    "gattn::{name} does not run under torch.func.{transform}. Its plain PyTorch form does: pass "
    "impl='reference' to the function, or set GATTN_BACKEND=reference. (Layers take b sets of "
    "features on one graph without vmap, as [b, n, d].)"
)


def define(
    schema: str, fake: Callable[..., Any], function: type[torch.autograd.Function] | None = None
) -> Callable[..., Any]:
    """Define an operator whose last argument names the backend that runs it.

    Its launcher is the function of the same name in that backend's module. ``function`` is its
    derivative; ``forward`` there calls :func:`below_autograd`.
    """
    name = schema.split("(")[0]
    _library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(torch.ops.gattn, name).default

    def kernel(*args: Any) -> Any:
        return getattr(launchers(args[-1]), name)(*args[:-1])

    def autograd(*args: Any) -> Any:
        if torch_internals.forward_mode_active() and any(map(_has_tangent, args)):
            raise RuntimeError(
                f"gattn::{name} has no forward-mode derivative; impl='reference' has one"
            )
        if function is not None and wants_grad(*args):
            if torch_internals.transforms_active():
                refuse()
            return function.apply(*args)
        return below_autograd(operator, *args)

    def refuse(*args: Any) -> Any:
        raise RuntimeError(
            _TRANSFORMED.format(name=name, transform=torch_internals.innermost_transform())
        )

    _library.impl(name, kernel, "CompositeExplicitAutograd")
    _library.impl(name, autograd, "Autograd")
    _library.impl(name, refuse, "FuncTorchBatched")
    torch.library.register_fake(f"gattn::{name}", fake, lib=_library)
    return operator


def _has_tangent(arg: Any) -> bool:
    """Whether forward-mode differentiation carries a tangent on this argument."""
    return isinstance(arg, Tensor) and torch_internals.has_tangent(arg)


def is_transformed() -> bool:
    """Whether torch.func or forward-mode differentiation is at work."""
    return torch_internals.transforms_active() or torch_internals.forward_mode_active()


def below_autograd(operator: Callable[..., Any], *args: Any) -> Any:
    """Call an operator without recording it."""
    with torch_internals.below_autograd():
        return operator(*args)


def wants_grad(*args: Any) -> bool:
    """Whether autograd will ask for the derivative with respect to one of these."""
    return torch.is_grad_enabled() and any(
        isinstance(arg, Tensor) and arg.requires_grad for arg in args
    )


def value_sum(out: Tensor, out_acc: Tensor) -> Tensor:
    """The sum of the values: ``out_acc`` where out was rounded or added to."""
    return out_acc if out_acc.numel() else out


def reference_gradients(
    function: Callable[..., Any], inputs: tuple[Tensor | None, ...], grads: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients by differentiating the reference, themselves differentiable.

    ``function`` takes the inputs and returns as many outputs as there are ``grads``. A gradient
    that autograd did not ask for, or of an absent input, is None.
    """
    with torch.enable_grad():
        # One tensor may stand for two inputs: an alias of its own tells their gradients apart.
        inputs = tuple(None if t is None else t.view_as(t) for t in inputs)
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        wanted = [t for t in inputs if t is not None and t.requires_grad]
        pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
        found = iter(
            torch.autograd.grad(
                [o for o, _ in pairs], wanted, [g for _, g in pairs],
                create_graph=True, allow_unused=True,
            )
        )  # fmt: skip
    return tuple(next(found) if t is not None and t.requires_grad else None for t in inputs)
