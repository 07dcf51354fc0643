"""Options for reading a graph, which the commands of nodes and links share."""

from __future__ import annotations

from typing import Any

__all__ = ["READING", "with_reading"]

READING = ("nodes", "encoding", "decimal", "thousands", "missing")
"""Names of the settings for reading graph files."""


def with_reading(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with the settings for reading the graph combined in one object."""
    from gattn.nodes.files import GraphReading

    rules = {name: settings[name] for name in READING if name in settings}
    others = {name: value for name, value in settings.items() if name not in READING}
    return {**others, "reading": GraphReading(**rules)}
