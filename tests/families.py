"""The table of score families that the generic tests use.

The tests of ``tests/ops`` with a fixture ``operator`` or ``attention``, the tests of the Triton
kernels, of the theorem and of memory use it. Each score is written here independently of the code
under test, from its paper.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import torch

from gattn import functional as F
from gattn.ops.registration.operator import OPERATORS as DECLARED
from gattn.ops.registration.operator import Setting


@dataclasses.dataclass(frozen=True)
class Operator:
    """A function of gattn.functional with the shapes of its tensors.

    Letters: n, m, e, h, c, d as everywhere, u heads of value, w channels of value, b heads of bias.
    """

    function: Callable[..., Any]
    shapes: dict[str, str]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    shared: dict[str, str] = dataclasses.field(default_factory=dict)
    """Names of the arguments that are the same tensor as another argument."""
    family: str = ""
    """Name of the family of scores; empty for an operator without a score."""

    def but(self, **fields: Any) -> Operator:
        """Return a copy with some fields replaced."""
        return dataclasses.replace(self, **fields)

    def inputs(
        self, graph, heads=2, channels=4, *, dtype=torch.float64, seed=0, grad=True, **dims
    ) -> dict[str, torch.Tensor]:
        """Return normal random tensors on the graph's device, as leaves of autograd."""
        sizes = {"n": graph.num_dst, "m": graph.num_src, "e": graph.num_edges}
        sizes |= {"h": heads, "c": channels, "d": 3, "u": heads, "w": channels + 1}
        sizes |= {"b": heads} | dims
        generator = torch.Generator().manual_seed(seed)
        return {
            name: torch.randn([sizes[x] for x in letters], generator=generator, dtype=torch.float64)
            .to(graph.device, dtype)
            .requires_grad_(grad)
            for name, letters in self.shapes.items()
        }

    def __call__(self, tensors, graph, **options) -> torch.Tensor:
        shared = {name: tensors[other] for name, other in self.shared.items()}
        return self.function(**tensors, **shared, graph=graph, **{**self.options, **options})

    def gradients(self, tensors, graph, grad=None, **options) -> dict[str, torch.Tensor]:
        """Return the output and the gradients of <grad, output>, by name."""
        out = self(tensors, graph, **options)
        if grad is None:
            generator = torch.Generator().manual_seed(5)
            grad = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out)
        leaves = {name: t for name, t in tensors.items() if t.requires_grad}
        grads = torch.autograd.grad(out, list(leaves.values()), grad, allow_unused=True)
        return {"out": out.detach(), **dict(zip(leaves, grads))}


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of scores, with the name in the declarations of its operators."""

    attention: Callable[..., Any]
    weights: Callable[..., Any]
    """Function that returns the attention weights of the family."""
    score: Callable[..., torch.Tensor]
    """Function that computes the score [e, h] without the bias, from tensors with a row for each
    edge, and settings.
    """
    variants: dict[str, Operator]
    """Sets of arguments to test: "" without optional arguments, "edges" with all of them."""
    drops: tuple[str, ...] = ("attn_bias",)
    """Inputs in which the value -inf removes an edge."""
    edges_in_value: bool = False
    """True if W a_ij is also added to the values."""
    gradients_apart: tuple[str, ...] = ()
    """Inputs whose gradient is computed by a separate kernel in Triton."""


def _edges(edge_attr, edge_proj):
    """Compute W a_ij, [e, h, c], for every edge."""
    return 0.0 if edge_attr is None else torch.einsum("ed,hcd->ehc", edge_attr, edge_proj)


def _leaky(x, slope):
    return torch.where(x > 0, x, slope * x)


def additive_score(query_score, key_score, edge_score=0.0, *, negative_slope):
    return _leaky(query_score + key_score + edge_score, negative_slope)


def dot_product_score(query, key, edge_attr=None, edge_proj=None, *, scale):
    return scale * (query * (key + _edges(edge_attr, edge_proj))).sum(-1)


def gatv2_score(query, key, weight, edge_attr=None, edge_proj=None, *, activation, negative_slope):
    hidden = query + key + _edges(edge_attr, edge_proj)
    hidden = hidden.tanh() if activation == "tanh" else _leaky(hidden, negative_slope)
    return (weight * hidden).sum(-1)


SCALARS = {"query_score": "nh", "key_score": "mh"}
QKV = {"query": "nhc", "key": "mhc", "value": "mhc"}
QKW = {"query": "nhc", "key": "mhc", "weight": "hc"}
EDGES = {"edge_attr": "ed", "edge_proj": "hcd"}
TERMS = {"attn_bias": "eb", "edge_weight": "e"}

FAMILIES = {
    "gat": Family(
        F.gat_attention,
        F.gat_attention_weights,
        additive_score,
        {
            "": Operator(F.gat_attention, SCALARS | {"value": "mhc"}),
            "edges": Operator(
                F.gat_attention, SCALARS | {"value": "muc", "edge_score": "eh"} | TERMS
            ),
        },
        drops=("edge_score", "attn_bias"),
    ),
    "dot_product": Family(
        F.dot_product_attention,
        F.dot_product_attention_weights,
        dot_product_score,
        {
            "": Operator(F.dot_product_attention, QKV),
            "wide": Operator(F.dot_product_attention, QKV | {"value": "mhw", "attn_bias": "eb"}),
            "edges": Operator(F.dot_product_attention, QKV | EDGES | TERMS),
        },
        edges_in_value=True,
        gradients_apart=("edge_proj",),
    ),
    "gatv2": Family(
        F.gatv2_attention,
        F.gatv2_attention_weights,
        gatv2_score,
        {
            "": Operator(F.gatv2_attention, QKW, shared={"value": "key"}),
            "wide": Operator(F.gatv2_attention, QKW | {"value": "mhw"}),
            "edges": Operator(F.gatv2_attention, QKV | {"weight": "hc"} | EDGES | TERMS),
            "tanh": Operator(
                F.gatv2_attention, QKV | {"weight": "hc"} | EDGES | TERMS, {"activation": "tanh"}
            ),
        },
    ),
}
"""All declared families; a test fails if one is missing here."""

ATTENTION = {
    f"{name}, {variant}" if variant else name: operator.but(family=name)
    for name, family in FAMILIES.items()
    for variant, operator in family.variants.items()
}
"""All variants of all families."""

OPERATORS = {
    **ATTENTION,
    "edge_softmax": Operator(F.edge_softmax, {"score": "eh"}),
    "aggregate": Operator(F.aggregate, {"weight": "eh", "value": "muc"}),
    "edge_dot": Operator(F.edge_dot, {"query": "nhc", "key": "muc"}),
}
"""All variants of all families, and the building blocks."""


def declared(family: str) -> dict[str, Setting]:
    """Return the declared settings of a family with their types or values, by name."""
    return DECLARED[f"{family}_forward"].settings


def numbers(family: str) -> list[str]:
    """Return the settings of a family that are numbers."""
    return [name for name, kind in declared(family).items() if kind is float]


def distinct_settings(family: str) -> list[dict[str, Any]]:
    """Return the settings except dropout with distinct numbers, one case for each text that a
    setting accepts.
    """
    chosen = {}
    for number, (name, kind) in enumerate(declared(family).items()):
        if name != "dropout":
            chosen[name] = kind if isinstance(kind, tuple) else (0.3 + 0.17 * number,)
            chosen[name] = (False, True) if kind is bool else chosen[name]
    return [dict(zip(chosen, values)) for values in itertools.product(*chosen.values())]
