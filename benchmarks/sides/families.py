"""The families of scores that are measured: one entry each, which every suite and tool reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Floor(NamedTuple):
    """Minimum memory traffic of forward + backward: rows of a node, numbers per head, bytes."""

    once: tuple[int, int, int]
    """For a node, each tensor once: rows, bytes a head, bytes."""
    gathered: tuple[int, int, int]
    """For an edge, each row that it gathers: likewise."""
    written: int
    """Rows of a node beside those gathers."""


@dataclass(frozen=True)
class Family:
    """A family of scores."""

    attention: str
    """Its function in ``gattn.functional``."""
    shapes: Mapping[str, str]
    """Inputs in letters: n nodes, h heads, c channels."""
    rows_per_edge: int
    """Rows that an edge gathers in forward."""
    floor: Floor
    takes_edge_features: bool = True
    """True if edge_attr and edge_proj are also inputs."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Inputs that are another one's tensor unless they are given."""


FAMILIES = {
    "gat": Family(
        "gat_attention",
        {"query_score": "nh", "key_score": "nh", "value": "nhc"},
        rows_per_edge=1,
        floor=Floor(once=(7, 40, 8), gathered=(2, 16, 8), written=6),
        takes_edge_features=False,
    ),
    "gatv2": Family(
        "gatv2_attention",
        {"query": "nhc", "key": "nhc", "weight": "hc"},
        rows_per_edge=1,
        floor=Floor(once=(9, 24, 8), gathered=(4, 8, 12), written=8),
        shared={"value": "key"},
    ),
    "dot_product": Family(
        "dot_product_attention",
        {"query": "nhc", "key": "nhc", "value": "nhc"},
        rows_per_edge=2,
        floor=Floor(once=(12, 24, 8), gathered=(6, 8, 12), written=10),
    ),
}
"""By the name that its operators have. Whether a peer computes the same, its own file says."""

EDGES = "+edges"
"""Suffix of an operator's name if edges have features."""
OPERATORS = tuple(
    f"{name}{edges}"
    for name, family in FAMILIES.items()
    for edges in ("", EDGES)[: 1 + family.takes_edge_features]
)
"""Every operator that is measured."""
