"""Model card of a run: what the model predicts, its data, its errors and its limits."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from gattn.apps.report.plots.style import METRICS, number
from gattn.apps.run.model_io import CARD, read_card
from gattn.apps.serve.answers import AnyRun, describe_run
from gattn.apps.serve.paths import data_files, run_paths, without_paths
from gattn.apps.serve.schemas import ModelDescription

__all__ = ["card_page", "model_card"]

REPLACEMENT = "card.md"
"""Name of the file in the folder of a run that replaces the generated card."""
RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
"""Pattern of a link that does not lead to another site, which the card's address would break."""
PARTS = {"train": "training", "val": "validation", "test": "test", "left_out": "left out"}
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 2rem auto; padding: 0 1rem; max-width: 52rem; overflow-wrap: break-word;
  font: 1rem/1.5 system-ui, sans-serif; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .35rem .8rem; border-top: 1px solid #8886; text-align: left;
  vertical-align: top; }}
thead th:empty {{ padding: 0; border: 0; }}
pre {{ overflow-x: auto; }}
</style>
<main>
{body}</main>
</html>
"""


def model_card(run: AnyRun) -> str:
    """Return the model card of a run in Markdown.

    If the folder of the run contains ``card.md``, the card is this file, without links to other
    files. Otherwise it is created from the model file: task, targets, data, parts, split, errors of
    the test part, coverage and versions.
    """
    replacement = run.folder / REPLACEMENT
    if replacement.is_file():
        text = RELATIVE.sub(r"\1", replacement.read_text("utf-8", errors="replace"))
    else:
        text = _created(run, read_card(run.folder))
    return without_paths(text, run_paths(run.folder))


def card_page(title: str, text: str) -> str:
    """Return the HTML page of a model card.

    Args:
        title: the title of the page.
        text: the card in Markdown. HTML in it is shown as text.
    """
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return PAGE.format(title=html.escape(title), body=body)


def _created(run: AnyRun, card: Mapping[str, Any]) -> str:
    """Return the card that is created from the content of a model file."""
    described = describe_run(run)
    metrics: Mapping[str, Any] = card.get("metrics") or {}
    blocks = [
        f"# The model {_code(run.name)}",
        f"A model of {described.kind}, trained with gattn.",
        _table(("", ""), _facts(run, card, described, metrics)),
        "## Errors on the test part",
        *_errors(described, metrics),
        "## Limits",
        *_limits(described, metrics),
    ]
    return "\n\n".join(blocks) + "\n"


def _facts(
    run: AnyRun, card: Mapping[str, Any], described: ModelDescription, metrics: Mapping[str, Any]
) -> Iterable[tuple[str, ...]]:
    """Yield rows of names and values about the model and its data."""
    yield "task", described.task
    yield (
        "targets",
        ", ".join(
            f"{_code(name)} in {_code(unit)}" if unit else _code(name)
            for name, unit in zip(described.targets, described.units)
        ),
    )
    classes = card.get("labels", {}).get("classes", [])
    if classes:
        groups = classes if isinstance(classes[0], list) else [classes]
        yield "classes", "; ".join(", ".join(map(_code, map(str, group))) for group in groups)
    if described.kind == "molecules":
        several = f"{len(described.smiles_columns)} molecules in a row"
        one = "reactions" if described.reaction else "single molecules"
        yield "input", several if len(described.smiles_columns) > 1 else one
    if described.descriptors:
        yield "descriptor columns", ", ".join(map(_code, described.descriptors))
    files = [Path(name).name for name in data_files(card)]
    if files:
        yield "data", ", ".join(map(_code, files))
    sizes = metrics.get(described.kind, {})
    parts = [f"{sizes[key]:,} {name}" for key, name in PARTS.items() if key in sizes]
    if parts:
        yield f"{described.kind} of each part", ", ".join(parts)
    if metrics.get("split"):
        yield "split", _cell(str(metrics["split"]))
    written = datetime.fromtimestamp((run.folder / CARD).stat().st_mtime, timezone.utc)
    yield "date of the model file", f"{written:%Y-%m-%d}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in card["versions"].items())


def _errors(described: ModelDescription, metrics: Mapping[str, Any]) -> Iterable[str]:
    """Yield the tables of the metrics of the test part."""
    test: Mapping[str, Any] = metrics.get("test", {})
    if not test:
        yield "The errors of this model were not measured in its training."
        return
    baselines: Mapping[str, Any] = metrics.get("baselines", {})
    columns = ("metric", "model", *(name.replace("_", " ") for name in baselines))
    yield _table(
        columns,
        (
            (
                METRICS.get(key, key),
                number(value),
                *(number(b.get(key)) for b in baselines.values()),
            )
            for key, value in test.items()
        ),
    )
    for key, reason in metrics.get("undefined", {}).get("test", {}).items():
        yield _cell(f"{METRICS.get(key, key)}: {reason}.")
    targets: Mapping[str, Any] = metrics.get("targets", {})
    if len(targets) > 1:
        names = ("target", *(METRICS.get(key, key) for key in test))
        yield _table(
            names,
            (
                (_code(name), *(number(values.get(key)) for key in test))
                for name, values in targets.items()
            ),
        )
    unit = described.units[0] if described.task == "regression" and described.units else ""
    if unit:
        yield f"RMSE and MAE are in {_code(unit)}."


def _limits(described: ModelDescription, metrics: Mapping[str, Any]) -> Iterable[str]:
    """Yield sentences about the coverage, the applicability domain and unsuitable uses."""
    intervals: Mapping[str, Any] = metrics.get("intervals", {})
    if intervals.get("held") is not None:
        regression = described.task == "regression"
        sets, values = ("Intervals", "values") if regression else ("Sets", "classes")
        sentence = (
            f"{sets} with a requested coverage of {intervals['coverage']:.0%} contain "
            f"{intervals['held']:.1%} of the {values} of the test part."
        )
        size = intervals.get("mean_width" if regression else "mean_size")
        if size is not None:
            what = "Their mean width" if regression else "The mean number of classes in a set"
            sentence += f" {what} is {number(size)}."
        yield sentence
    if described.domain_threshold is not None:
        yield (
            "A molecule whose similarity to the nearest training molecule is below "
            f"{number(described.domain_threshold)} is outside the applicability domain, where "
            "errors were hardly measured."
        )
    yield (
        "The errors and the coverage hold on average for rows that resemble the test part. They "
        "can be worse for others."
    )
    yield "The run contains no statement about unsuitable uses."


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """Return a text for a cell of a table, on one line and with escaped bars."""
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    """Return a name for a cell of a table, in which no character has a meaning in Markdown."""
    return f"`{_cell(text).replace('`', chr(39))}`"
