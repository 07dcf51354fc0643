"""Search for nodes by their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice

from gattn.apps.serve.errors import RequestError

SUGGESTIONS = 20
"""Maximum number of names that a search for nodes returns."""


class NodeNames:
    """Names of the nodes of a graph.

    Args:
        run: name of the run on this server, for error messages.
        names: n names.

    Attributes:
        index: the number of each node by its name as a text.

    Example:
        >>> names = NodeNames("run", ["Cosette", "Marius", 7])
        >>> names.search("m"), names.place("7")
        (['Marius'], 2)
    """

    def __init__(self, run: str, names: Iterable[Hashable]) -> None:
        self.run = run
        self.index = {str(name): number for number, name in enumerate(names)}

    def search(self, text: str) -> list[str]:
        """Return the names that contain a text. Names that begin with the text come first."""
        text = text.casefold()
        first = (name for name in self.index if name.casefold().startswith(text))
        names = list(islice(first, SUGGESTIONS))
        if len(names) < SUGGESTIONS:
            inside = (name for name in self.index if text in name.casefold())
            others = (name for name in inside if not name.casefold().startswith(text))
            names += islice(others, SUGGESTIONS - len(names))
        return names

    def place(self, name: str) -> int:
        """Return the index of the node with this name.

        Raises:
            RequestError: there is no node of this name (404).
        """
        place = self.index.get(name)
        if place is None:
            raise RequestError(404, f"{self.run} has no node {name[:200]!r}")
        return place
