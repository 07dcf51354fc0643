"""Whether a case may be timed: errors against float64, agreement with the peer, repeatability."""

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
"""How much larger than its yardstick's an error may be, beside the floor of its type."""
FLOOR = {torch.float32: 1e-5, torch.bfloat16: 1e-3, torch.float64: 1e-10}
APART = 1e-4
JUMPS = 1e-2
ROUNDING = 100

Outcome = dict[str, Tensor]


class CheckFailed(Exception):
    """A contender computes something else: there is nothing to time."""


def step(contender: Contender, rounded: torch.dtype | None = None) -> Outcome:
    """One forward and backward: the output and every gradient.

    The gradient of the output is random, and holds the numbers of ``rounded`` or of the output's
    own dtype.
    """
    out = contender.forward()
    weights = normal(*out.shape, seed=9, dtype=rounded or out.dtype, device=out.device)
    return {"out": out.detach(), **contender.gradients(out, weights.to(out.dtype))}


@contextlib.contextmanager
def on_reference() -> Iterator[None]:
    """Run gattn on its plain PyTorch reference."""
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
    """Largest magnitude."""
    return tensor.double().abs().max().item() if tensor.numel() else 0.0


def norm(tensor: Tensor) -> float:
    """Root of the sum of squares."""
    return float(torch.linalg.vector_norm(tensor.double()))


def error(found: Outcome, exact: Outcome, size: Callable[[Tensor], float] = largest) -> float:
    """Size of the difference over the size of what is exact, the worst of output and gradients.

    A gradient that is zero but for rounding (a softmax does not feel a bias of the key) is
    measured against the largest gradient.
    """
    sizes = {name: size(want) for name, want in exact.items()}
    most = max(sizes.values())
    worst = 0.0
    for name, want in exact.items():
        if name not in found:
            raise CheckFailed(f"{name} has no gradient")
        have = found[name]
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
    """Errors of gattn and of a yardstick against float64; gattn's must be about as small.

    The exact values are those of gattn's reference in float64, which must be the peer's in
    float64 where the peer computes the same. The yardstick is the peer or, in 16 bits or where
    the peer computes something else, gattn's reference in the same precision.
    """
    with on_reference():
        want = step(exact["gattn"])
    if "pyg" in exact:
        apart = error(step(exact["pyg"]), want)
        require(apart <= FLOOR[torch.float64], f"float64 reference and PyG differ by {apart:.1e}")
    found = error(step(sides["gattn"]), want)
    if "pyg" in sides and dtype == torch.float32:
        yardstick = error(step(sides["pyg"]), want)
    else:
        with on_reference():
            yardstick = error(step(sides["gattn"]), want)
    bound = SLACK * yardstick + FLOOR[dtype]
    require(found <= bound, f"error {found:.1e} against float64; {bound:.1e} allowed")
    return {"error": found, "yardstick": yardstick}


def against_peer(found: Outcome, want: Outcome, apart: float = APART) -> dict[str, float]:
    """How far gattn's numbers are from a peer's at full size.

    Outputs are compared element by element. Gradients are compared in norm: a LeakyReLU's slope
    jumps at zero, and among hundreds of millions of scores some lie within rounding of it.
    """
    difference = error({"out": found["out"]}, {"out": want["out"]})
    require(difference <= apart, f"outputs differ by {difference:.1e}; {apart:.0e} allowed")
    most = max(norm(gradient) for gradient in want.values())
    for name, gradient in want.items():
        jumps = norm(found[name] - gradient) / max(norm(gradient), JUMPS * most)
        require(jumps <= JUMPS, f"{name} differs by {jumps:.1e}; {JUMPS:.0e} allowed")
    return {"apart": difference}


def differing(contender: Contender) -> list[str]:
    """What two runs do not give the same bits of."""
    first, second = step(contender), step(contender)
    return [name for name, tensor in first.items() if not torch.equal(tensor, second[name])]


def repeatable(contender: Contender) -> None:
    """Two runs must give the same bits."""
    names = differing(contender)
    require(not names, f"two runs differ in {', '.join(names)}")


def within_rounding(found: float, problem: str, dtype: torch.dtype = torch.float32) -> float:
    """An error, which must be one of rounding in this type; ``problem`` begins what is raised."""
    require(found <= FLOOR[dtype], f"{problem} by {found:.1e}")
    return found


def require(condition: bool, problem: str) -> None:
    """Raise :class:`CheckFailed` unless the condition holds."""
    if not condition:
        raise CheckFailed(problem)
