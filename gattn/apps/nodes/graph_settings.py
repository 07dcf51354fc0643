"""Settings for reading a graph, which are common to nodes and links, and to commands and
estimators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

__all__ = [
    "Bipartite",
    "Decimal",
    "EdgeFeatureNames",
    "EdgeFeatureOptions",
    "EdgeTables",
    "EdgeType",
    "EdgeTypeName",
    "EdgeWeight",
    "EdgeWeightName",
    "Encoding",
    "FeatureNames",
    "FeatureOptions",
    "GraphSource",
    "MissingTexts",
    "NodeNames",
    "NodeTable",
    "NodeTables",
    "SourceColumn",
    "TargetColumn",
    "Thousands",
    "check_number_format",
    "edge_feature_columns",
]

GraphSource: TypeAlias = Annotated[
    str,
    Meta(
        description="Graph to read: the name of a data set (cora, citeseer or pubmed) or a "
        "file (GraphML, GML, GEXF, or a list or table of edges).",
        extra={"default": "none, it is required"},
    ),
]
NodeTable: TypeAlias = Annotated[
    str,
    Meta(
        description="Table with one row of attributes for each node. Use it if the graph is "
        "a list or table of edges, which contains no attributes of nodes."
    ),
]
NodeTables: TypeAlias = Annotated[
    str | tuple[str, ...],
    Meta(
        description="Table with one row of attributes for each node. Use it if the graph is "
        "a list or table of edges, which contains no attributes of nodes. For nodes of several "
        "types, repeat the option with TYPE=FILE, for example papers=papers.csv, and use --edges "
        "instead of a graph."
    ),
]
EdgeTables: TypeAlias = Annotated[
    tuple[str, ...],
    Meta(
        description="Table of the edges of one relation between nodes of several types, as "
        "SOURCE-RELATION-DESTINATION=FILE, for example authors-writes-papers=writes.csv. Repeat "
        "the option for several relations."
    ),
]
FeatureOptions: TypeAlias = Annotated[
    tuple[str, ...],
    Meta(
        description="Name of a node attribute to use as a feature; TYPE.NAME for a type that is "
        "not predicted. Repeat the option to use several attributes.",
        extra={"default": "all other attributes"},
    ),
]
EdgeFeatureOptions: TypeAlias = Annotated[
    tuple[str, ...],
    Meta(
        description="Name of a column of the edges to use as a feature. Attention reads "
        "the features of each edge, and the other models read their means over the edges "
        "of a node. Repeat the option to use several columns. An empty name means that no "
        "column is used.",
        extra={"default": "all columns except the weight, the type and the time"},
    ),
]
NodeNames: TypeAlias = Annotated[
    bool,
    Meta(
        description="Use the words in the names of the nodes as features, for example in a "
        "network of software packages. Leave it off if the names contain the label.",
        extra={"flag": "--names/--no-names"},
    ),
]
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
EdgeWeight: TypeAlias = Annotated[str, _EDGE_WEIGHT]
EdgeWeightName: TypeAlias = Annotated[str | None, _EDGE_WEIGHT]
EdgeType: TypeAlias = Annotated[str, _EDGE_TYPE]
EdgeTypeName: TypeAlias = Annotated[str | None, _EDGE_TYPE]
Encoding: TypeAlias = Annotated[
    str | None,
    Meta(
        description="Text encoding of the files, for example latin-1. Set it if the files "
        "are not UTF-8.",
        extra={"default": "the encoding of the byte order mark, else UTF-8"},
    ),
]
Decimal: TypeAlias = Annotated[
    Literal[".", ","] | None,
    Meta(
        description="Decimal separator of the numbers in tables: a point or a comma. Set it "
        "if the table contains numbers such as 3,2.",
        extra={"default": "a point; a comma if semicolons separate the cells"},
    ),
]
Thousands: TypeAlias = Annotated[
    Literal["", ",", ".", " ", "'"],
    Meta(
        description="Character between groups of three digits in tables, for example the "
        "comma in 1,008."
    ),
]
MissingTexts: TypeAlias = Annotated[
    tuple[str, ...],
    Meta(
        description="Text that marks a missing value, for example NA. Repeat the option for "
        "several texts.",
        extra={"default": "empty cells; in columns of numbers also NA and similar texts"},
    ),
]
SourceColumn: TypeAlias = Annotated[
    str,
    Meta(
        description="Name of the column of the edges with the source nodes. In a list of edges "
        "without a header, it is the number of the field, from 1. Set it with --target if the "
        "columns have other names than source and target.",
        extra={"default": "chosen by the names of the columns"},
    ),
]
TargetColumn: TypeAlias = Annotated[
    str,
    Meta(
        description="Name of the column of the edges with the destination nodes, or the number of "
        "the field.",
        extra={"default": "chosen by the names of the columns"},
    ),
]
Bipartite: TypeAlias = Annotated[
    bool | None,
    Meta(
        description="Treat equal names in the two columns of the edges as different nodes, for "
        "example if users and items are both numbered from 0. The names in the outputs then begin "
        "with the name of the column, such as user_id 7. With --no-bipartite, equal names are the "
        "same node.",
        extra={
            "default": "the same node; numbers in columns of different nouns are refused",
            "flag": "--bipartite/--no-bipartite",
        },
    ),
]
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
        extra={"default": "all columns except the weight, the type and the time"},
    ),
]


def check_number_format(decimal: str | None, thousands: str) -> None:
    """Check that the decimal separator and the thousands separator differ.

    Raises:
        ValueError: they are equal.
    """
    if thousands:
        # This module is imported only if it is needed, because its import is slow.
        from gattn.apps.tables.numbers import NumberFormat

        NumberFormat(decimal=decimal or ".", thousands=thousands)


def edge_feature_columns(names: Sequence[str]) -> list[str] | None:
    """Return the edge columns to read as features; None stands for all columns, and an empty list
    for none.

    Args:
        names: value of the option ``--edge-features``: empty for all columns; an empty name reads
            none.
    """
    return [name for name in names if name] if names else None
