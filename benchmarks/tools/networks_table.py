"""Table of the accuracy of the stacked model, its components and other models on networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.core.record import Record
from benchmarks.core.tables import markdown

HEAD = (
    "network", "splits", "stacked", "best component", "best baseline", "LightGBM", "GCN", "GAT",
    "majority",
)  # fmt: skip
OTHERS = ("other lightgbm", "other gcn", "other gat")
MAJORITY = "baseline majority"


def table(records: Iterable[Record]) -> str:
    """Return a table with one row for the newest record of each network, kind of split and options.

    Each cell contains the mean accuracy and its standard error over the splits. The models of other
    libraries depend only on the parts, so their cells can come from an earlier record of the same
    network, kind of split and number of splits.

    Args:
        records: lines that ``python -m benchmarks.networks`` appended, oldest first. Records of
            other models and records whose edges were ignored are left out.
    """
    chosen: dict[tuple[str, ...], Record] = {}
    others: dict[tuple[str, str, int], Record] = {}
    for entry in records:
        if entry["model"] == "stacked" and entry["edges"] == "read":
            chosen[(entry["case"], entry["split"], *entry["options"])] = entry
            if any(name in entry["accuracy"] for name in OTHERS):
                others[_parts(entry)] = entry
    peers = [others.get(_parts(entry), entry) for entry in chosen.values()]
    rows = [_row(entry, peer["accuracy"]) for entry, peer in zip(chosen.values(), peers)]
    environments = [entry["environment"] for entry in (*chosen.values(), *peers)]
    machines = dict.fromkeys(
        f"{each['cores']} cores of {each['cpu']}, torch {each['versions']['torch']}"
        for each in environments
    )
    commands = dict.fromkeys(each["command"] for each in environments)
    listed = "\n".join(f"- `{command}`" for command in commands)
    source = f"Measured on {' and '.join(machines)} by the commands"
    return f"{markdown(HEAD, rows)}\n\n{source}\n\n{listed}"


def _parts(entry: Record) -> tuple[str, str, int]:
    """Return what the training, validation and test parts of a record depend on."""
    return entry["case"], entry["split"], entry["splits"]


def _row(entry: Record, others: Mapping[str, Any]) -> list[str]:
    accuracy = entry["accuracy"]
    components = _named(accuracy, "component ")
    baselines = _named(accuracy, "baseline ")
    title = entry["case"].removeprefix("networks/")
    if entry["split"] != "random":
        title += f", {entry['split']}"
    title += "".join(f", `{option}`" for option in entry["options"])
    return [
        title, str(entry["splits"]), f"**{_cell(accuracy[entry['model']])}**", _best(components),
        _best({name: each for name, each in baselines.items() if name != "majority"}),
        *(_cell(others[name]) if name in others else "" for name in OTHERS),
        _cell(accuracy[MAJORITY]) if MAJORITY in accuracy else "",
    ]  # fmt: skip


def _named(accuracy: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the entries whose names begin with a prefix, without the prefix."""
    return {
        name.removeprefix(prefix): each
        for name, each in accuracy.items()
        if name.startswith(prefix)
    }


def _best(cells: Mapping[str, Any]) -> str:
    """Return the cell with the highest mean, and its name."""
    name, cell = max(cells.items(), key=lambda pair: pair[1][0])
    return f"{_cell(cell)} `{name}`"


def _cell(cell: tuple[float, float | None]) -> str:
    mean, error = cell
    return f"{mean:.3f}" if error is None else f"{mean:.3f} ± {error:.3f}"
