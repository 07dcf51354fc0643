"""Base class of the runs on the server: their description and their files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from markdown_it import MarkdownIt

from gattn.apps.report.report import rendered
from gattn.apps.report.style import METRICS
from gattn.apps.run.model_io import read_card
from gattn.apps.run.notes import baseline_note, interval_warnings
from gattn.apps.serve.paths import run_paths, without_paths
from gattn.apps.serve.schemas import ModelDescription

CARD_FILE = "card.md"
RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
"""Pattern of a link that does not lead to another site, which the card's address would break."""
REPORT, NETWORK = SEALED_FILES = ("report.html", "plots/network.png")
FILES = {"report": REPORT, "card": CARD_FILE, "network": NETWORK}
"""Files of a run that the server sends, by their names in the URL."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ServedRun:
    """Run on the server.

    Attributes:
        name: name of the run on this server.
        folder: the folder of the run.
        notes: sentences about the run or its graph.
    """

    kind: ClassVar[Any]
    name: str
    folder: Path
    notes: tuple[str, ...] = ()
    columns: Sequence[str] = ()

    def details(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the description that depend on the kind of the run.

        Args:
            metrics: the metrics in the model card.
        """
        raise NotImplementedError

    def describe(self) -> ModelDescription:
        """Return the entry for the run in the answer to GET /models. Raises RunError if the card
        was changed.
        """
        # A model that a program saved has no metrics.
        metrics = read_card(self.folder).get("metrics") or {}
        return ModelDescription(
            kind=self.kind, name=self.name, files=self.files, columns=list(self.columns),
            notes=list(self.notes), metrics=METRICS,
            warnings=[*_warnings(metrics), *interval_warnings(metrics, self.kind)],
            test={name: json_value(value) for name, value in metrics.get("test", {}).items()},
            **self.details(metrics),
        )  # fmt: skip

    @property
    def files(self) -> list[str]:
        """Names of the files of the run that exist."""
        return [name for name, path in FILES.items() if (self.folder / path).is_file()]

    def read(self, file: str) -> tuple[bytes | str, str]:
        """Return the content of a file of the run and its media type. The file is a key of
        :data:`FILES`.

        Texts contain the names of files instead of the paths of this machine. Raises OSError if the
        file cannot be read, and RunError if the model card cannot be read.
        """
        path = self.folder / FILES[file]
        if file == "network":
            return path.read_bytes(), "image/png"
        text = path.read_text("utf-8", errors="replace")
        if file == "card":
            text = card_page(f"Model card of {self.name}", text)
        return without_paths(text, run_paths(self.folder)), "text/html; charset=utf-8"


def json_value(cell: Any) -> Any:
    """Return a number or a text for JSON.

    JSON has no infinity and no NaN: the end of an interval without a bound is None. Other objects
    become texts.

    >>> json_value(np.float64(0.5)), json_value(float("inf")), json_value(np.int64(3))
    (0.5, None, 3)
    """
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, int | str) else str(value)


def _warnings(metrics: Mapping[str, Any]) -> list[str]:
    """Return a list with one sentence if the model is not better than a constant or a random order
    on the test part, and an empty list if it is better. Numbers and classes of molecules are
    compared by their first metric.
    """
    if metrics.get("noise"):
        guess = "a random order" if metrics.get("task") == "ranking" else "a constant"
        return [f"On the test part, the model is not significantly better than {guess}."]
    test, mean = metrics.get("test", {}), metrics.get("baselines", {}).get("mean", {})
    first = next(iter(test), "")
    return baseline_note({first: test[first]}, {"mean": mean}) if first in mean else []


def card_page(title: str, text: str) -> str:
    """Return the HTML page of a model card. The text of a link replaces a link to another file.

    Args:
        title: the title of the page.
        text: the card in Markdown. HTML in it is shown as text.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = reader.render(RELATIVE.sub(r"\1", text))
    return rendered("card.html", title=title, body=body)
