"""Settings for reading a graph, which are common to nodes and links, and to commands and
estimators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from gattn.apps.fitting.settings import Settings, Threads

ALL_OF_EDGES = "all columns except the weight, the type and the time"
BY_NAMES = "chosen by the names of the columns"

_EDGE_WEIGHT = Meta(
    description="Name of the column of the edges that contains their weights, which "
    "must be at least 0. Attention and means over neighbours are proportional to the "
    "weights."
)
_EDGE_TYPE = Meta(
    description="Name of the column of the edges that contains their types. The "
    "means over neighbours are computed separately for each type. Set it if edges of "
    "different types have a different meaning."
)
EdgeWeightName: TypeAlias = Annotated[str | None, _EDGE_WEIGHT]
EdgeTypeName: TypeAlias = Annotated[str | None, _EDGE_TYPE]
FeatureNames: TypeAlias = Annotated[
    Sequence[str] | None,
    Meta(
        description="Names of the node attributes to use as features. Numbers are "
        "standardised, categories are one-hot encoded, and texts become TF-IDF vectors. "
        "If there are no attributes, degrees and random-walk probabilities are used.",
        extra={"default": "all other attributes, or the ``x`` of PyG's ``Data``"},
    ),
]
EdgeFeatureNames: TypeAlias = Annotated[
    Sequence[str] | None,
    Meta(
        description="Names of the columns of the edges to use as features. Attention "
        "reads the features of each edge, and the other models read their means over the "
        "edges of a node. With an empty list, no column is used.",
        extra={"default": ALL_OF_EDGES},
    ),
]


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Settings):
    """Settings of a command that reads a graph from files."""

    data: Annotated[str, Meta(extra={"default": "none, it is required"})] = field(kw_only=False)
    """Graph to read: the name of a data set (cora, citeseer or pubmed) or a file (GraphML, GML,
    GEXF, or a list or table of edges).
    """
    features: Annotated[tuple[str, ...], Meta(extra={"default": "all other attributes"})] = ()
    """Name of a node attribute to use as a feature; TYPE.NAME for a type that is not predicted.
    Repeat the option to use several attributes.
    """
    edge_features: Annotated[tuple[str, ...], Meta(extra={"default": ALL_OF_EDGES})] = ()
    """Name of a column of the edges to use as a feature. Attention reads the features of each edge,
    and the other models read their means over the edges of a node. Repeat the option to use several
    columns. An empty name means that no column is used.
    """
    edge_weight: Annotated[str, _EDGE_WEIGHT] = ""
    edge_type: Annotated[str, _EDGE_TYPE] = ""
    source: Annotated[str, Meta(extra={"default": BY_NAMES})] = ""
    """Name of the column of the edges with the source nodes. In a list of edges without a header,
    it is the number of the field, from 1. Set it with --target if the columns have other names than
    source and target.
    """
    target: Annotated[str, Meta(extra={"default": BY_NAMES})] = ""
    """Name of the column of the edges with the destination nodes, or the number of the field."""
    encoding: Annotated[
        str | None, Meta(extra={"default": "the encoding of the byte order mark, else UTF-8"})
    ] = None
    """Text encoding of the files, for example latin-1. Set it if the files are not UTF-8."""
    decimal: Annotated[
        Literal[".", ","] | None,
        Meta(extra={"default": "a point; a comma if semicolons separate the cells"}),
    ] = None
    """Decimal separator of the numbers in tables: a point or a comma. Set it if the table contains
    numbers such as 3,2.
    """
    thousands: Literal["", ",", ".", " ", "'"] = ""
    """Character between groups of three digits in tables, for example the comma in 1,008."""
    missing: Annotated[
        tuple[str, ...],
        Meta(extra={"default": "empty cells; in columns of numbers also NA and similar texts"}),
    ] = ()
    """Text that marks a missing value, for example NA. Repeat the option for several texts."""
    threads: Threads = 0

    @property
    def columns(self) -> dict[str, Any]:
        """Parameters of an estimator that name columns. None stands for the columns that an
        estimator chooses, and an empty list of ``edge_features`` for no column.
        """
        of_edges = [name for name in self.edge_features if name] if self.edge_features else None
        return {
            "features": list(self.features) or None, "edge_features": of_edges,
            "edge_weight": self.edge_weight or None, "edge_type": self.edge_type or None,
        }  # fmt: skip

    def check(self) -> None:
        """Check that the decimal separator and the thousands separator differ. Raises ValueError
        otherwise.
        """
        super().check()
        if self.thousands:
            # This module is imported only if it is needed, because its import is slow.
            from gattn.apps.tables.numbers import NumberFormat

            NumberFormat(decimal=self.decimal or ".", thousands=self.thousands)
