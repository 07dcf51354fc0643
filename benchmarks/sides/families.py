"""Score families that are measured, with one entry for each family, which all suites and tools
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Floor(NamedTuple):
    """Minimum memory traffic of forward and backward: rows per node, numbers per head, and
    bytes.
    """

    once: tuple[int, int, int]
    """Traffic of a node if each tensor is read or written once: rows, bytes per head, and bytes."""
    gathered: tuple[int, int, int]
    """Traffic of an edge for each row that it gathers: rows, bytes per head, and bytes."""
    written: int
    """Number of rows per node that are written in addition to those that are gathered."""


@dataclass(frozen=True)
class Family:
    """Score family that is measured."""

    attention: str
    """Function of ``gattn.functional`` that computes the attention."""
    shapes: Mapping[str, str]
    """Shapes of the inputs in letters: n nodes, h heads, c channels."""
    floor: Floor
    takes_edge_features: bool = True
    """True if edge_attr and edge_proj are also inputs."""
    shared: Mapping[str, str] = field(default_factory=dict)
    """Inputs that use the tensor of another input unless they are passed."""


FAMILIES = {
    "gat": Family(
        "gat_attention",
        {"query_score": "nh", "key_score": "nh", "value": "nhc"},
        floor=Floor(once=(7, 40, 8), gathered=(2, 16, 8), written=6),
        takes_edge_features=False,
    ),
    "gatv2": Family(
        "gatv2_attention",
        {"query": "nhc", "key": "nhc", "weight": "hc"},
        floor=Floor(once=(9, 24, 8), gathered=(4, 8, 12), written=8),
        shared={"value": "key"},
    ),
    "dot_product": Family(
        "dot_product_attention",
        {"query": "nhc", "key": "nhc", "value": "nhc"},
        floor=Floor(once=(12, 24, 8), gathered=(6, 8, 12), written=10),
    ),
}
"""Families by the name of their operators; the file of each peer defines which families it
computes.
"""

EDGES = "+edges"
"""Suffix of an operator's name if edges have features."""
OPERATORS = tuple(
    f"{name}{edges}"
    for name, family in FAMILIES.items()
    for edges in ("", EDGES)[: 1 + family.takes_edge_features]
)
"""Names of all operators that are measured."""
