"""Dropout of features and of edge weights with a counter-based random number generator."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.ops.registration import checks
from gattn.ops.registration.backend import is_transformed, select
from gattn.ops.registration.operator import Gradients, Operator, SavedValues
from gattn.ops.registration.shapes import Out


def dropout(x: Tensor, p: float) -> Tensor:
    r"""Apply dropout without storing the mask, which the backward pass draws again.

    .. math:: y = \frac{m}{1 - p} x, \qquad m \sim \mathrm{Bernoulli}(1 - p)

    On a CPU, torch draws one random number after the other. This function uses the counter-based
    generator of attention dropout, which draws many at a time; torch's generator draws its key. On
    other devices, for other dtypes than fp32, fp64, bf16 and fp16, and inside transforms, it calls
    torch.nn.functional.dropout.

    Args:
        x: dense tensor [*].
        p: probability of dropping an element.

    Returns:
        [*] in the dtype of x: on a CPU contiguous, or x itself if p is 0.

    Raises:
        ValueError: ``GATTN_BACKEND`` has an unknown value.
        RuntimeError: the backend that ``GATTN_BACKEND`` selects cannot run.
    """
    if x.dtype not in checks.FLOATS or is_transformed() or select(None, x.device) != "cpu":
        return F.dropout(x, p)
    seed = checks.new_seed(p, x.device)
    if seed is None:
        return x
    return _dropout.overload(x.reshape(-1), seed, p, "cpu").view(x.shape)


def dropout_of_weights(weight: Tensor, graph: Graph, p: float) -> Tensor:
    r"""Apply dropout to edge weights [e, h] on any device. The edges are in CSR order.

    As in fused attention, the mask of an edge depends on its index in the whole graph, so that a
    part of a graph has the same mask as the whole graph. torch's generator draws the key of the
    mask. If p is 0, the weights themselves are returned. Raises the errors of :func:`select`.
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
    """Compute the gradient of dropout by applying the same mask to the gradient of the output."""
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
