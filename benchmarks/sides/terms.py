"""Layers of gattn with and without a weight or a bias of each edge."""

from __future__ import annotations

import torch
from torch import Tensor

import gattn
from benchmarks.core.case import Contender, Topology
from benchmarks.core.seeds import leaf, normal
from benchmarks.sides.inputs import CHANNELS, HEADS, WIDTH

PLAIN = "gattn"
TERMS: dict[str, tuple[str, bool]] = {
    "weight [e]": ("edge_weight", False),
    "bias [e]": ("attn_bias", False),
    "bias [e, h]": ("attn_bias", True),
}
LEARNT = ", gradient"
SIDES = (PLAIN, *TERMS, *(term + LEARNT for term in TERMS))
"""Variants of a layer: alone, with an edge term, and with an edge term that requires a gradient."""


def layer(side: str, topology: Topology, dtype: torch.dtype, *, name: str) -> Contender:
    """Create a layer on x in one of the variants :data:`SIDES`."""
    torch.manual_seed(0)
    module = getattr(gattn.nn, name)(WIDTH, CHANNELS, HEADS).to(dtype)
    x = leaf(topology.num_nodes, WIDTH, seed=1, dtype=dtype)
    leaves = {"x": x, **dict(module.named_parameters())}
    terms: dict[str, Tensor] = {}
    if side != PLAIN:
        argument, per_head = TERMS[side.removesuffix(LEARNT)]
        shape = (topology.num_edges, HEADS) if per_head else (topology.num_edges,)
        term = normal(*shape, seed=2, dtype=dtype)
        terms[argument] = term
        if side.endswith(LEARNT):
            leaves[argument] = term.requires_grad_()
    return Contender(lambda: module(x, topology.edge_index, **terms), leaves)
