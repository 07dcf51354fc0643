"""Whether a case may be timed: errors against float64, agreement with the peer, repeatability."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.contenders import Contender, Pair
from benchmarks.graphs import generator

SLACK = 1.25
FLOOR = {torch.float32: 1e-5, torch.bfloat16: 1e-3, torch.float64: 1e-10}
APART = 1e-4
JUMPS = 1e-2
ROUNDING = 100

Outcome = dict[str, Tensor]


class CheckFailed(Exception):
    """A contender computes something else: there is nothing to time."""


def step(contender: Contender) -> Outcome:
    """One forward and backward: the output and every gradient."""
    for tensor in contender.leaves.values():
        tensor.grad = None
    out = contender.forward()
    weights = torch.randn(out.shape, generator=generator(9)).to(out.dtype)
    out.backward(weights)
    grads = {name: t.grad for name, t in contender.leaves.items() if t.grad is not None}
    return {"out": out.detach(), **grads}


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


def error(found: Outcome, exact: Outcome) -> float:
    """Largest difference over the largest magnitude, the worst of output and gradients.

    A gradient that is zero but for rounding (a softmax does not feel a bias of the key) is
    measured against the largest gradient.
    """
    largest = {name: _largest(want) for name, want in exact.items()}
    most = max(largest.values())
    worst = 0.0
    for name, want in exact.items():
        if name not in found:
            raise CheckFailed(f"{name} has no gradient")
        have = found[name]
        if have.shape != want.shape:
            raise CheckFailed(f"{name} has shape {tuple(have.shape)}, not {tuple(want.shape)}")
        difference = _largest(have.double() - want.double())
        rounding = ROUNDING * torch.finfo(want.dtype).eps * most
        scale = largest[name] if largest[name] > rounding else most
        relative = difference / scale if scale > 0 else difference
        worst = max(worst, math.inf if math.isnan(relative) else relative)
    return worst


def _largest(tensor: Tensor) -> float:
    return tensor.double().abs().max().item() if tensor.numel() else 0.0


def against_float64(pair: Pair, exact: Pair, dtype: torch.dtype) -> dict[str, float]:
    """Errors of gattn and of a yardstick against float64; gattn's must be about as small.

    The exact values are those of gattn's reference in float64, which must be the peer's in
    float64 where the peer computes the same. The yardstick is the peer or, in 16 bits or where
    the peer computes something else, gattn's reference in the same precision.
    """
    with on_reference():
        want = step(exact["gattn"])
    if "pyg" in exact:
        apart = error(step(exact["pyg"]), want)
        _require(apart <= FLOOR[torch.float64], f"float64 reference and PyG differ by {apart:.1e}")
    found = error(step(pair["gattn"]), want)
    if "pyg" in pair and dtype == torch.float32:
        yardstick = error(step(pair["pyg"]), want)
    else:
        with on_reference():
            yardstick = error(step(pair["gattn"]), want)
    bound = SLACK * yardstick + FLOOR[dtype]
    _require(found <= bound, f"error {found:.1e} against float64; {bound:.1e} allowed")
    return {"error": found, "yardstick": yardstick}


def against_peer(pair: Pair) -> dict[str, float]:
    """How far gattn's numbers are from PyG's at full size.

    Outputs are compared element by element. Gradients are compared in norm: a LeakyReLU's slope
    jumps at zero, and among hundreds of millions of scores some lie within rounding of it.
    """
    found, want = step(pair["gattn"]), step(pair["pyg"])
    apart = error({"out": found["out"]}, {"out": want["out"]})
    _require(apart <= APART, f"gattn and PyG differ by {apart:.1e}; {APART:.0e} allowed")
    most = max(_norm(gradient) for gradient in want.values())
    for name, gradient in want.items():
        difference = _norm(found[name] - gradient) / max(_norm(gradient), JUMPS * most)
        _require(difference <= JUMPS, f"{name} differs by {difference:.1e}; {JUMPS:.0e} allowed")
    return {"apart": apart}


def _norm(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.double()))


def repeatable(contender: Contender) -> None:
    """Two runs must give the same bits."""
    first, second = step(contender), step(contender)
    for name, tensor in first.items():
        _require(torch.equal(tensor, second[name]), f"two runs differ in {name}")


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise CheckFailed(problem)
