"""Derivatives of operators, computed by a backward kernel or by differentiating the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from gattn.compat import torch as torch_internals
from gattn.ops.registration.operator import (
    Derivative,
    Gradients,
    Operator,
    SavedValues,
    below_autograd,
)


def by_reference(
    operator: Operator, grad: Tensor, saved: SavedValues, requested: frozenset[str]
) -> Gradients:
    """Compute the gradients of an operator by differentiating its reference implementation. The
    result has every input by name, with None for one that requires no gradient.
    """
    rest = [saved[name] for name in operator.reference_args]
    reference = operator.reference
    assert reference is not None
    inputs = tuple(saved[name] for name in operator.inputs)
    result = reference_gradients(lambda *inputs: reference(*inputs, *rest), inputs, (grad,))
    return dict(zip(operator.inputs, result))


def by_kernel(
    backward: Operator, gradients: Iterable[str], wants: Iterable[str] = (), **called: str
) -> Derivative:
    """Return a derivative whose first order is computed by a kernel, and whose higher orders are
    computed from the reference.

    Args:
        backward: operator whose first input is the gradient of the output, and whose other
            parameters have the names that they have in forward.
        gradients: names of the inputs whose gradients ``backward`` returns, in the order in which
            it returns them.
        wants: names of the inputs whose gradients are computed only if ``wants_NAME`` is set.
        **called: name in forward of each parameter of ``backward`` whose names differ.
    """
    gradients, flags = tuple(gradients), {f"wants_{name}": name for name in wants}
    names = tuple(called.get(name, name) for name in backward.parameters)

    def derivative(
        operator: Operator, grad: Tensor, saved: SavedValues, requested: frozenset[str]
    ) -> Gradients:
        """Return the gradients of the inputs by the backward operator, or by the reference if a
        second derivative may follow. The gradient of the output and the flags are stored in
        ``saved``. Raises RuntimeError in forward-mode differentiation.
        """
        if torch.is_grad_enabled():
            return by_reference(operator, grad, saved, requested)
        saved[backward.inputs[0]] = grad
        for flag, name in flags.items():
            saved[flag] = name in requested
        args = map(saved.__getitem__, names)
        if torch_internals.forward_mode_active():
            # The operator does not support forward-mode differentiation, so this call raises an
            # error.
            result = backward.overload(*args)
        else:
            result = below_autograd(backward.overload, *args)
        return dict(zip(gradients, result if len(gradients) > 1 else (result,)))

    return derivative


def reference_gradients(
    function: Callable[..., Any], inputs: tuple[Tensor | None, ...], grads: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Compute the gradients of a function by autograd.

    ``function`` takes the inputs and returns one output for each of ``grads``. The gradient is None
    for an input that is None or requires no gradient. In grad mode, the gradients are
    differentiable.
    """
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Each input gets a separate view, so that two inputs that are the same tensor have separate
        # gradients.
        inputs = tuple(None if t is None else t.view_as(t) for t in inputs)
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        requested = [t for t in inputs if t is not None and t.requires_grad]
        pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
        result = iter(
            torch.autograd.grad(
                [o for o, _ in pairs], requested, [g for _, g in pairs],
                create_graph=create_graph, allow_unused=True,
            )
        )  # fmt: skip
    return tuple(next(result) if t is not None and t.requires_grad else None for t in inputs)
