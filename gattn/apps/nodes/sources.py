"""Names of the data sets of networks, and a check of the files of a network. PyTorch is not
imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gattn.apps.nodes.typed.relations import table_files

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
    # Several tables of nodes without tables of edges are an error of the settings.
    if edges or isinstance(nodes, str) or len(nodes) < 2:
        for path in table_files(nodes, edges):
            Path(path.strip()).stat()
