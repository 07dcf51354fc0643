"""Scalars per node and head, from features by fixed vectors: what additive scores are made of."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gattn.ops.backend import select
from gattn.ops.library import below_autograd, define


def node_scores(value: Tensor, vectors: Tensor, *, impl: str | None = None) -> Tensor:
    r"""Dot product of each node's features with each of t vectors, per head.

    .. math:: s_{tih} = \langle v_{ih}, a_{th} \rangle

    Args:
        value: v, [m, h, c]; fp32, fp64, bf16 or fp16.
        vectors: a, [t, h, c] in the same dtype.
        impl: force a backend; all but ``"cpu"`` take plain PyTorch.

    Returns:
        [t, m, h].
    """
    if select(impl, value.device) != "cpu" or value.dtype != vectors.dtype:
        return torch.einsum("mhc,thc->tmh", value, vectors)
    return _scores(value, vectors, "cpu")


class _NodeScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, vectors: Tensor, backend: str) -> Tensor:
        ctx.save_for_backward(value, vectors)
        ctx.backend = backend
        return below_autograd(_scores, value, vectors, backend)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        value, vectors = ctx.saved_tensors
        if torch.is_grad_enabled():
            grad_value = torch.einsum("tmh,thc->mhc", grad, vectors)
            return grad_value, torch.einsum("tmh,mhc->thc", grad, value), None
        return *_backward(grad, value, vectors, ctx.backend), None


_backward = define(
    "node_scores_backward(Tensor grad, Tensor value, Tensor vectors, str backend) "
    "-> (Tensor, Tensor)",
    lambda grad, value, vectors, backend: (
        value.new_empty(value.shape),
        vectors.new_empty(vectors.shape),
    ),
)
_scores = define(
    "node_scores(Tensor value, Tensor vectors, str backend) -> Tensor",
    lambda value, vectors, backend: value.new_empty(
        vectors.shape[0], value.shape[0], value.shape[1]
    ),
    _NodeScores,
)
