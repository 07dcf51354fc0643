"""Names of the data sets of networks, and a check of the files of a network. PyTorch is not
imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gattn.apps.nodes.typed.relations import typed_files

CITATION = ("cora", "citeseer", "pubmed")
"""Names of the data sets of networks."""


def check_graph_file(path: str | Path) -> None:
    """Check that a graph is the name of a data set, or a file.

    Raises:
        FileNotFoundError: the file does not exist.
    """
    if str(path).lower() not in CITATION and not Path(path).is_file():
        raise FileNotFoundError(
            f"there is no file {path}, and it is not the name of a data set: {', '.join(CITATION)}"
        )


def check_graph_sources(
    data: str, nodes: str | Sequence[str] = (), edges: Sequence[str] = ()
) -> None:
    """Check that the files of a network exist.

    Args:
        data: the graph; empty if the network has several tables of nodes.
        nodes: the table of nodes, or values ``TYPE=FILE``; empty if there is none.
        edges: values ``RELATION=FILE``; empty if there is a graph.

    Raises:
        FileNotFoundError: a file does not exist.
    """
    if data:
        check_graph_file(data)
    tables = [nodes] if isinstance(nodes, str) else list(nodes)
    # Several tables of nodes without tables of edges are an error of the settings.
    if not edges and len(tables) > 1:
        return
    for path in filter(None, typed_files([*tables, *edges]) if edges else tables):
        Path(path.strip()).stat()
