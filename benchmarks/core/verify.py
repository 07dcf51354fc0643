"""Checks before a case is timed: errors against float64, agreement with the peer, and equal
bits.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from benchmarks.core.case import Contender
from benchmarks.core.seeds import normal

SLACK = 1.25
"""Maximum ratio of gattn's error to the error of the yardstick, above the rounding of the dtype."""
FLOOR = {torch.float32: 1e-5, torch.bfloat16: 1e-3, torch.float64: 1e-10}
APART = 1e-4
JUMPS = 1e-2
ROUNDING = 100

Outcome = dict[str, Tensor]


class CheckFailed(Exception):
    """Raised if an implementation computes a different result; the case is then not timed."""


def step(contender: Contender, rounded: torch.dtype | None = None) -> Outcome:
    """Run the forward and backward pass, and return the output and all gradients.

    The gradient of the output is random, with the rounding of dtype ``rounded`` or of the output.
    """
    out = contender.forward()
    weights = normal(*out.shape, seed=9, dtype=rounded or out.dtype, device=out.device)
    return {"out": out.detach(), **contender.gradients(out, weights.to(out.dtype))}


@contextlib.contextmanager
def on_reference() -> Iterator[None]:
    """Run gattn's operators on the reference implementation in plain PyTorch during the block."""
    before = os.environ.get("GATTN_BACKEND")
    os.environ["GATTN_BACKEND"] = "reference"
    try:
        yield
    finally:
        if before is None:
            del os.environ["GATTN_BACKEND"]
        else:
            os.environ["GATTN_BACKEND"] = before


def largest(tensor: Tensor) -> float:
    """Return the largest magnitude of the elements of a tensor."""
    return tensor.double().abs().max().item() if tensor.numel() else 0.0


def norm(tensor: Tensor) -> float:
    """Return the Euclidean norm of a tensor."""
    return float(torch.linalg.vector_norm(tensor.double()))


def error(outcome: Outcome, exact: Outcome, size: Callable[[Tensor], float] = largest) -> float:
    """Return the largest relative error of the output and the gradients.

    The error of a gradient that is zero up to rounding is divided by the largest gradient. For
    example, the bias of the keys does not change a softmax, so its gradient is zero.
    """
    sizes = {name: size(want) for name, want in exact.items()}
    most = max(sizes.values())
    worst = 0.0
    for name, want in exact.items():
        if name not in outcome:
            raise CheckFailed(f"{name} has no gradient")
        have = outcome[name]
        if have.shape != want.shape:
            raise CheckFailed(f"{name} has shape {tuple(have.shape)}, not {tuple(want.shape)}")
        difference = size(have.double() - want.double())
        rounding = ROUNDING * torch.finfo(want.dtype).eps * most
        scale = sizes[name] if sizes[name] > rounding else most
        relative = difference / scale if scale > 0 else difference
        worst = max(worst, math.inf if math.isnan(relative) else relative)
    return worst


def against_float64(
    sides: Mapping[str, Contender], exact: Mapping[str, Contender], dtype: torch.dtype
) -> dict[str, float]:
    """Check that the error of gattn against float64 is not much larger than the error of a
    yardstick.

    The exact values are computed by gattn's reference in float64. If the peer computes the same
    function, its results in float64 must be equal to them. The yardstick is the peer. In 16 bits,
    or if the peer computes another function, it is gattn's reference in the same precision.
    """
    with on_reference():
        want = step(exact["gattn"])
    if "pyg" in exact:
        apart = error(step(exact["pyg"]), want)
        require(apart <= FLOOR[torch.float64], f"float64 reference and PyG differ by {apart:.1e}")
    deviation = error(step(sides["gattn"]), want)
    if "pyg" in sides and dtype == torch.float32:
        yardstick = error(step(sides["pyg"]), want)
    else:
        with on_reference():
            yardstick = error(step(sides["gattn"]), want)
    bound = SLACK * yardstick + FLOOR[dtype]
    require(deviation <= bound, f"error {deviation:.1e} against float64; {bound:.1e} allowed")
    return {"error": deviation, "yardstick": yardstick}


def against_peer(outcome: Outcome, want: Outcome, apart: float = APART) -> dict[str, float]:
    """Return the differences between the results of gattn and of a peer at full size.

    Outputs are compared element by element. Gradients are compared by the norm of their difference,
    because the slope of a LeakyReLU is discontinuous at zero, and some of the hundreds of millions
    of scores are so close to zero that rounding changes their sign.
    """
    difference = error({"out": outcome["out"]}, {"out": want["out"]})
    require(difference <= apart, f"outputs differ by {difference:.1e}; {apart:.0e} allowed")
    most = max(norm(gradient) for gradient in want.values())
    for name, gradient in want.items():
        jumps = norm(outcome[name] - gradient) / max(norm(gradient), JUMPS * most)
        require(jumps <= JUMPS, f"{name} differs by {jumps:.1e}; {JUMPS:.0e} allowed")
    return {"apart": difference}


def differing(contender: Contender) -> list[str]:
    """Return the names of the results whose bits differ between two runs."""
    first, second = step(contender), step(contender)
    return [name for name, tensor in first.items() if not torch.equal(tensor, second[name])]


def repeatable(contender: Contender) -> None:
    """Raise CheckFailed unless two runs give the same bits."""
    names = differing(contender)
    require(not names, f"two runs differ in {', '.join(names)}")


def within_rounding(deviation: float, problem: str, dtype: torch.dtype = torch.float32) -> float:
    """Return an error, or raise ``problem`` if it exceeds the rounding of this dtype."""
    require(deviation <= FLOOR[dtype], f"{problem} by {deviation:.1e}")
    return deviation


def require(condition: bool, problem: str) -> None:
    """Raise :class:`CheckFailed` unless the condition holds."""
    if not condition:
        raise CheckFailed(problem)
