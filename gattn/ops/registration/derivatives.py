"""How an operator is differentiated: by its reference, or first by a kernel of its own."""

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
    operator: Operator, grad: Tensor, given: SavedValues, wanted: frozenset[str]
) -> Gradients:
    """Differentiate the reference; the gradients are themselves differentiable."""
    rest = [given[name] for name in operator.reference_args]
    reference = operator.reference
    assert reference is not None
    inputs = tuple(given[name] for name in operator.inputs)
    found = reference_gradients(lambda *inputs: reference(*inputs, *rest), inputs, (grad,))
    return dict(zip(operator.inputs, found))


def by_kernel(
    backward: Operator, gradients: Iterable[str], wants: Iterable[str] = (), **called: str
) -> Derivative:
    """First derivatives by an operator, those of higher order by the reference.

    The operator returns the ``gradients`` of these inputs, of those in ``wants`` only where they
    are needed. Its own first input is the gradient that came; the others are called as they were
    in forward, or what ``called`` says was called otherwise there.
    """
    gradients, flags = tuple(gradients), {f"wants_{name}": name for name in wants}
    names = tuple(called.get(name, name) for name in backward.parameters)

    def derivative(
        operator: Operator, grad: Tensor, given: SavedValues, wanted: frozenset[str]
    ) -> Gradients:
        if torch.is_grad_enabled():
            return by_reference(operator, grad, given, wanted)
        given[backward.inputs[0]] = grad
        for flag, name in flags.items():
            given[flag] = name in wanted
        args = map(given.__getitem__, names)
        if torch_internals.forward_mode_active():
            found = backward.overload(*args)  # refuses tangents
        else:
            found = below_autograd(backward.overload, *args)
        return dict(zip(gradients, found if len(gradients) > 1 else (found,)))

    return derivative


def reference_gradients(
    function: Callable[..., Any], inputs: tuple[Tensor | None, ...], grads: tuple[Any, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients by differentiating the reference, in their turn differentiable where grad is on.

    ``function`` takes the inputs and returns as many outputs as there are ``grads``. A gradient
    that autograd did not ask for, or of an absent input, is None.
    """
    create_graph = torch.is_grad_enabled()
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
                create_graph=create_graph, allow_unused=True,
            )
        )  # fmt: skip
    return tuple(next(found) if t is not None and t.requires_grad else None for t in inputs)
