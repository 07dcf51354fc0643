"""Scores of nodes for GAT's attention: dot products of their features with learned vectors."""

from __future__ import annotations

from torch import Tensor

from gattn.kernels import reference
from gattn.ops.registration.backend import select
from gattn.ops.registration.checks import FLOATS
from gattn.ops.registration.derivatives import by_kernel
from gattn.ops.registration.operator import Operator
from gattn.ops.registration.shapes import Out


def node_scores(value: Tensor, vectors: Tensor, *, backend: str | None = None) -> Tensor:
    r"""Compute the dot products of the features of each node with each of t vectors, for each head.

    .. math:: s_{tih} = \langle v_{ih}, a_{th} \rangle

    Args:
        value: v, [m, h, c]; fp32, fp64, bf16 or fp16.
        vectors: a, [t, h, c] in the same dtype.
        backend: force a backend: ``"cpu"`` runs the C++ kernel, and the other backends run plain
            PyTorch.

    Returns:
        [t, m, h].

    Raises:
        TypeError: if the values are not in one of these dtypes; vectors in another dtype are an
            error of torch.einsum.
        ValueError: for an unknown backend.
        RuntimeError: if the backend that ``backend`` or ``GATTN_BACKEND`` selects cannot run.
    """
    if value.dtype not in FLOATS:
        raise TypeError(f"x must be float32, float64, bfloat16 or float16; got {value.dtype}")
    if value.dtype != vectors.dtype or select(backend, value.device) != "cpu":
        return reference.node_scores(value, vectors)
    return _scores.overload(value, vectors, "cpu")


_INPUTS = {"value": "m h c", "vectors": "t h c"}
_LENGTHS = {"m": "num_nodes", "t": "num_vectors", "h": "heads", "c": "channels"}
_scores_backward = Operator(
    "node_scores_backward",
    inputs={"grad": "t m h", **_INPUTS},
    layout=False,
    lengths=_LENGTHS,
    outputs={"grad_value": Out("m h c"), "grad_vectors": Out("t h c")},
)
_scores = Operator(
    "node_scores",
    inputs=_INPUTS,
    layout=False,
    lengths=_LENGTHS,
    outputs={"out": Out("t m h")},
    reference=reference.node_scores,
    derivative=by_kernel(_scores_backward, _INPUTS),
    saves=_INPUTS,
)
