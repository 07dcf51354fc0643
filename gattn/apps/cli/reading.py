"""Options for reading a graph, which the commands of nodes and links share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gattn.apps.nodes.sources import check_graph_sources
from gattn.apps.run.model_files import check_model_files

READING = ("nodes", "source", "target", "encoding", "decimal", "thousands", "missing")
"""Names of the settings for reading graph files."""
TYPED_READING = (*READING, "edges")
"""Names of the settings for reading graph files, for commands that also read networks with several
tables of nodes.
"""


def with_tables(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, in which ``nodes`` is a text instead of a tuple if there is a single
    table of nodes and no table of edges.
    """
    nodes = settings.get("nodes", ())
    if isinstance(nodes, str) or len(nodes) != 1 or settings.get("edges"):
        return settings
    return {**settings, "nodes": nodes[0]}


def with_reading(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with those for reading the graph combined in one object under the key
    ``reading``.
    """
    from gattn.apps.nodes.files import GraphReading

    settings = with_tables(settings)
    names = (*TYPED_READING, "bipartite")
    rules = {name: settings[name] for name in names if name in settings}
    others = {name: value for name, value in settings.items() if name not in names}
    return {**others, "reading": GraphReading(**rules)}


def check_unless_finished(
    out: Path, data: str, nodes: str | Sequence[str], edges: Sequence[str] = ()
) -> None:
    """Check that the files of a network exist, unless ``out`` contains a finished run.

    Args:
        out: the folder of the run.
        data: the graph; empty if the network has several tables of nodes.
        nodes: the table of nodes, or values ``TYPE=FILE``.
        edges: values ``RELATION=FILE``.

    Raises:
        FileNotFoundError: a file does not exist.
    """
    if not (out / "metrics.json").exists():
        check_graph_sources(data, nodes, edges)


def check_inputs(run: str | Path, graph: str, settings: Mapping[str, Any]) -> None:
    """Check that the files of a trained model and of a network exist, before PyTorch is imported.

    Args:
        run: the folder of the model.
        graph: the graph; empty if the network has several tables of nodes.
        settings: the options of the command; ``nodes`` and ``edges`` are read.

    Raises:
        RunError: a file of the model is missing.
        FileNotFoundError: a file of the network does not exist.
    """
    check_model_files(Path(run))
    check_graph_sources(graph, settings.get("nodes", ()), settings.get("edges", ()))
