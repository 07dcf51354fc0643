"""Node types and relations: parsing of their names in command-line options and in the keys of
mappings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

Table = TypeVar("Table")

REVERSE = "reverse of "
"""Beginning of the name of a relation for messages against the direction of its edges."""
FORM = "SOURCE-RELATION-DESTINATION=FILE, for example authors-writes-papers=writes.csv"


class Relation(NamedTuple):
    """Relation between the nodes of two types.

    Attributes:
        source: type of the nodes at which the edges begin.
        name: name of the relation.
        destination: type of the nodes at which the edges end.
    """

    source: str
    name: str
    destination: str

    def __str__(self) -> str:
        return "-".join(self)

    def reverse(self) -> Relation:
        """Return the relation for messages that are sent against the direction of the edges."""
        return Relation(self.destination, REVERSE + self.name, self.source)


def table_files(nodes: str | Sequence[str], edges: Sequence[str]) -> list[str]:
    """Return the files of the tables of nodes and of edges.

    Args:
        nodes: a table of nodes, or values ``TYPE=FILE``; empty if there is none.
        edges: values ``RELATION=FILE``; empty for a network with one table of nodes.

    >>> table_files("nodes.csv", []), table_files(["papers=papers.csv"], ["a-cites-a=cites.csv"])
    (['nodes.csv'], ['papers.csv', 'cites.csv'])
    """
    values = [nodes] if isinstance(nodes, str) else [*nodes]
    if edges or len(values) > 1:
        values = [value.partition("=")[2] or value for value in (*values, *edges)]
    return [value for value in values if value]


def parse_types(values: Sequence[str]) -> dict[str, str]:
    """Return the files of the tables of nodes, by type.

    Args:
        values: values ``TYPE=FILE``.

    Raises:
        ValueError: a value has another form, or a type occurs twice.

    >>> parse_types(["papers=papers.csv", "authors=people.csv"])
    {'papers': 'papers.csv', 'authors': 'people.csv'}
    """
    files: dict[str, str] = {}
    for name, path in _named_files(
        values,
        "several tables of nodes must be written as TYPE=FILE, for example papers=papers.csv",
    ):
        if name in files:
            raise ValueError(f"each node type must have one table; {name!r} has two")
        files[name] = path
    return files


def parse_relations(values: Sequence[str], types: Collection[str]) -> dict[Relation, str]:
    """Return the files of the tables of edges, by relation.

    Args:
        values: values ``SOURCE-RELATION-DESTINATION=FILE``.
        types: names of the node types, which may contain hyphens.

    Raises:
        ValueError: a value has another form, names an unknown type, or a relation occurs twice.

    >>> parse_relations(["authors-writes-papers=writes.csv"], ["papers", "authors"])
    {Relation(source='authors', name='writes', destination='papers'): 'writes.csv'}
    """
    return by_relation(_named_files(values, f"a table of edges must be written as {FORM}"), types)


def _named_files(values: Iterable[str], form: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the file in each value ``NAME=FILE``. Raises ValueError, with a message
    that begins with ``form``, if one of them is missing.
    """
    for value in values:
        name, _, path = (part.strip() for part in value.partition("="))
        if not name or not path:
            raise ValueError(f"{form}; got {value!r}")
        yield name, path


def parse_sources(
    data: str | Path, nodes: str | Path | Sequence[str] | None, edges: Sequence[str]
) -> tuple[dict[str, str], dict[Relation, str]]:
    """Return the files of the tables of nodes by type, and of the tables of edges by relation.

    Args:
        data: the graph, which a network with several tables does not have.
        nodes: values ``TYPE=FILE``.
        edges: values ``SOURCE-RELATION-DESTINATION=FILE``.

    Raises:
        ValueError: a value has another form, there is a graph, or there are no tables of nodes or
            of edges.
    """
    values = [nodes] if isinstance(nodes, str | Path) else nodes or ()
    types = parse_types([str(one) for one in values if one])
    if not edges:
        raise ValueError(
            "several tables of nodes need tables of edges: --edges SOURCE-RELATION-DESTINATION=FILE"
        )
    if not types:
        raise ValueError("edges need tables of nodes: --nodes TYPE=FILE for each type")
    if str(data) not in ("", "."):
        raise ValueError(f"a network with several tables of nodes needs no graph; got {data!r}")
    return types, parse_relations(edges, list(types))


def _relation_of(name: str | tuple[str, ...], types: Collection[str]) -> Relation:
    """Return the relation with a name such as ``authors-writes-papers``, or with three names.

    Raises:
        ValueError: the name has another form, contains a type that has no table, or can be divided
            in several ways because names of types contain hyphens.
    """
    splits = [
        Relation(source, name[len(source) + 1 : -len(destination) - 1], destination)
        for source in types
        for destination in types
        if isinstance(name, str)
        and name.startswith(f"{source}-")
        and name.endswith(f"-{destination}")
        and len(name) > len(source) + len(destination) + 2
    ]
    if not isinstance(name, str) and len(name) == 3 and {name[0], name[2]} <= set(types):
        splits = [Relation(*name)]
    if len(splits) != 1:
        raise ValueError(
            "a relation must be SOURCE-NAME-DESTINATION, or three texts in Python, with two types "
            f"of the tables of nodes (--nodes TYPE=FILE), {', '.join(map(repr, types)) or 'none'}; "
            f"got {name!r}, which is {'ambiguous' if splits else 'no such relation'}"
        )
    return splits[0]


def by_relation(
    pairs: Iterable[tuple[object, Table]], types: Collection[str]
) -> dict[Relation, Table]:
    """Return the tables by relation, given pairs of the key of a relation and a table.

    Raises:
        ValueError: a key is not a relation or has a reserved name, or two keys are the same
            relation.
    """
    result: dict[Relation, Table] = {}
    for name, table in pairs:
        if not isinstance(name, str | tuple):
            raise ValueError(f"a relation must be (source, name, destination); got {name!r}")
        relation = _relation_of(name, types)
        if relation in result:
            raise ValueError(f"each relation must have one table; {relation} has two")
        if relation.name.startswith(REVERSE):
            raise ValueError(f"the name of a relation must not begin with {REVERSE!r}; {relation}")
        result[relation] = table
    return result
