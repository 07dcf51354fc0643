"""Dropout of single numbers, such as features, by the generator of attention dropout."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.ops.registration import checks
from gattn.ops.registration.backend import select
from gattn.ops.registration.operator import Gradients, Operator, SavedValues, is_transformed
from gattn.ops.registration.shapes import Out


def dropout(x: Tensor, p: float) -> Tensor:
    r"""Dropout that stores no mask: backward draws it again.

    .. math:: y = \frac{m}{1 - p} x, \qquad m \sim \mathrm{Bernoulli}(1 - p)

    On a CPU torch draws one number after the other; here they are drawn by the generator of
    attention dropout, many at a time. Elsewhere this is torch's own.

    Args:
        x: dense, [*].
        p: probability of dropping a number.

    Returns:
        [*], contiguous on a CPU.
    """
    if x.dtype not in checks.FLOATS or is_transformed() or select(None, x.device) != "cpu":
        return F.dropout(x, p)
    seed = checks.new_seed(p, x.device)
    if seed is None:
        return x
    return _dropout.overload(x.reshape(-1), seed, p, "cpu").view(x.shape)


def dropout_of_weights(weight: Tensor, graph: Graph, p: float) -> Tensor:
    r"""Dropout of the weights [e, h] of edges in the layout's order, on every device.

    As in fused attention those of a part of a graph are dropped as in the whole of it.
    """
    heads = weight.shape[1]
    seed = checks.new_seed(p, weight.device, graph.edge_offset * heads)
    on_cpu = select(None, weight.device) == "cpu" and not is_transformed()
    backend = "cpu" if on_cpu else "reference"
    flat = weight.reshape(weight.numel())
    return weight if seed is None else _dropout(flat, seed, p, backend=backend).view(weight.shape)


def _dropout_gradients(
    operator: Operator, grad: Tensor, saved: SavedValues, requested: frozenset[str]
) -> Gradients:
    """The same mask on the gradient."""
    return {"x": operator.overload(grad, saved["seed"], saved["dropout"], saved["backend"])}


_dropout = Operator(
    "dropout",
    inputs={"x": "k"},
    layout=False,
    seed=True,
    settings={"dropout": float},
    lengths={"k": "numel"},
    outputs={"out": Out("k")},
    reference=reference.dropout,
    derivative=_dropout_gradients,
    saves=["seed"],
)
