"""Options for reading a graph, which the commands of nodes and links share."""

from __future__ import annotations

from typing import Any

__all__ = ["READING", "TYPED_READING", "with_reading", "with_tables"]

READING = ("nodes", "encoding", "decimal", "thousands", "missing")
"""Names of the settings for reading graph files."""
TYPED_READING = ("nodes", "edges", *READING[1:])
"""Names of the settings for reading graph files, for commands that also read networks with several
tables of nodes.
"""


def with_tables(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, in which ``nodes`` is a text if there is a single table of nodes."""
    nodes = settings.get("nodes", ())
    if isinstance(nodes, str) or len(nodes) != 1 or settings.get("edges"):
        return settings
    return {**settings, "nodes": nodes[0]}


def with_reading(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with the settings for reading the graph combined in one object."""
    from gattn.nodes.files import GraphReading

    settings = with_tables(settings)
    rules = {name: settings[name] for name in TYPED_READING if name in settings}
    others = {name: value for name, value in settings.items() if name not in TYPED_READING}
    return {**others, "reading": GraphReading(**rules)}
