"""Cases, graphs and comparisons of the tests of backend triton.

Without a device that runs the kernels, the import of this module skips the tests. It also imports
Triton for them, which takes a second.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import torch

from gattn import Graph
from tests.families import EDGES, FAMILIES, OPERATORS, TERMS, Operator, distinct_settings
from tests.kernels import interpreter

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CUDA = torch.cuda.is_available() and not INTERPRETED
DEVICE = "cuda" if CUDA else "cpu"
if not (INTERPRETED or CUDA):
    reason = "needs a CUDA device; without one, test_triton_interpreter.py runs these tests"
    pytest.skip(reason, allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from gattn.kernels.triton import launch, primitives, tiles  # noqa: E402

__all__ = [
    "CASES", "CUDA", "DEVICE", "GRAPHS", "check", "each_attention", "each_case", "gradient_of",
    "graph", "launch", "primitives", "run", "tiles", "tl", "triton",
]  # fmt: skip

interpreter.patch_once()


def graph(name: str) -> Graph:
    generator = torch.Generator().manual_seed(1)

    def random(n, m, e):
        sizes = torch.tensor([[m], [n]])
        return (torch.rand(2, e, generator=generator) * sizes).long(), (m, n)

    if name == "plain":
        edges, size = random(6, 6, 17)
    elif name == "bipartite":
        edges, size = random(3, 7, 11)
    elif name == "hub":  # One row is divided into eight splits, one column into three; some
        # edges are repeated or self-loops.
        edges, size = random(5, 5, 50)
        edges[1, :34], edges[0, 34:] = 2, 1
    elif name == "isolated":
        edges, size = torch.tensor([[4], [0]]), (5, 6)
    elif name == "edgeless":
        edges, size = torch.empty(2, 0, dtype=torch.long), (2, 3)
    else:
        edges, size = torch.empty(2, 0, dtype=torch.long), (0, 0)
    return Graph(edges.to(DEVICE), size)


GRAPHS = ["bipartite", "hub", "isolated", "edgeless", "empty"]
"""Graphs of the tests in double precision; the others use "plain"."""


def run(
    operator: Operator, g: Graph, tensors: dict, options: dict, dtype: torch.dtype, backend: str
) -> list:
    """Return the output and the gradients of all inputs."""
    arguments = {name: t.to(dtype).detach().requires_grad_() for name, t in tensors.items()}
    torch.manual_seed(3)
    out = operator(arguments, g, **options, backend=backend)
    grads = torch.autograd.grad(out, list(arguments.values()), gradient_of(out))
    return [out.detach(), *grads]


def gradient_of(out: torch.Tensor) -> torch.Tensor:
    grad = torch.linspace(-1, 1, out.numel(), dtype=torch.float64, device=out.device)
    return grad.sin().view_as(out).to(out.dtype)


def check(
    operator: Operator, g: Graph, heads: int, channels: int, dtype=torch.float64, *, dims=None,
    **options,
) -> None:  # fmt: skip
    """Compare with the reference in float64; the error may be twice the error of the reference."""
    tensors = operator.inputs(g, heads, channels, seed=2, **(dims or {}))
    exact = run(operator, g, tensors, options, torch.float64, "reference")
    plain = run(operator, g, tensors, options, dtype, "reference")
    actual = run(operator, g, tensors, options, dtype, "triton")
    scale = max([x.abs().max().item() for x in exact if x.numel()], default=0.0)
    for x, p, f in zip(exact, plain, actual, strict=True):
        assert f.dtype == dtype
        assert f.shape == x.shape
        if x.numel():
            error = (f.double() - x).abs().max().item()
            rounding = (p.double() - x).abs().max().item()
            # In float64 the reference also has rounding errors, which grow with the number of edges
            # of a row.
            units = 64 if dtype == torch.float64 else 16
            assert error <= 2 * rounding + units * torch.finfo(dtype).eps * scale


class Case(NamedTuple):
    """Operator with the lengths of its inputs and with options."""

    operator: Operator
    dims: dict
    options: dict


def cases_of_families() -> Iterator[tuple[str, Case]]:
    """Return the plain variant of each family, and its other variants with dropout and other
    settings.

    A variant that takes the same tensors as another one would run the same kernels.
    """
    for name, family in FAMILIES.items():
        settings, seen = distinct_settings(name), []
        for number, (variant, operator) in enumerate(family.variants.items()):
            if operator.shapes not in seen:
                options = {"dropout": 0.4, **settings[number % len(settings)]} if variant else {}
                label = f"{name}, {variant}" if variant else name
                yield label, Case(OPERATORS[label], {}, options)
            seen.append(operator.shapes)


CASES = dict(cases_of_families())
CASES |= {
    "gat, grouped values": Case(OPERATORS["gat, edges"], {"u": 2, "b": 1}, {"negative_slope": 0}),
    "gatv2, edges and shared values": Case(
        OPERATORS["gatv2"].but(shapes=OPERATORS["gatv2"].shapes | EDGES | TERMS), {"b": 1}, {}
    ),
    "edge_softmax": Case(OPERATORS["edge_softmax"], {}, {}),
    "aggregate": Case(OPERATORS["aggregate"], {"u": 2}, {}),
    "edge_dot": Case(OPERATORS["edge_dot"], {}, {}),
}
PLAIN = [family.variants[""].but(family=name) for name, family in FAMILIES.items()]
"""Plain variant of each family."""
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_attention = pytest.mark.parametrize("attention", PLAIN, ids=FAMILIES)
