"""Table of the accuracy of the stacked model, its components and other models on networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.core.record import Record
from benchmarks.core.tables import markdown
from benchmarks.data.networks import NETWORKS
from benchmarks.data.typed_networks import TYPED_NETWORKS

HEAD = (
    "network", "splits", "stacked", "edges ignored", "best component", "best baseline", "LightGBM",
    "GCN", "GAT", "majority",
)  # fmt: skip
START = "python -m benchmarks.networks "
OTHERS = ("other lightgbm", "other gcn", "other gat")
MAJORITY = "baseline majority"


def table(records: Iterable[Record]) -> str:
    """Return a table with one row for the newest record of each network, kind of split and options.

    Each cell contains the mean accuracy and its standard error over the splits. The models of other
    libraries depend only on the parts, so their cells can come from an earlier record of the same
    network, kind of split and number of splits. The column "edges ignored" contains the accuracy
    of the stacked model that does not read the columns, directions and types of the edges.

    Args:
        records: lines that ``python -m benchmarks.networks`` appended, oldest first. Records of
            other models are left out.
    """
    names = (*NETWORKS, *TYPED_NETWORKS)
    chosen: dict[tuple[str, ...], Record] = {}
    ignored: dict[tuple[str, ...], Record] = {}
    others: dict[tuple[str, str, int], Record] = {}
    for entry in sorted(records, key=lambda entry: names.index(_name(entry))):
        if entry["model"] == "stacked":
            newest = chosen if entry["edges"] == "read" else ignored
            newest[(entry["case"], entry["split"], *entry["options"])] = entry
            if newest is chosen and any(name in entry["accuracy"] for name in OTHERS):
                others[_parts(entry)] = entry
    peers = [others.get(_parts(entry), entry) for entry in chosen.values()]
    rows = [
        _row(entry, ignored.get(key, {}).get("accuracy", {}), peer["accuracy"])
        for (key, entry), peer in zip(chosen.items(), peers)
    ]
    measured = [*chosen.values(), *peers, *(ignored[key] for key in chosen if key in ignored)]
    return "\n\n".join([markdown(HEAD, rows), *_source([e["environment"] for e in measured])])


def _source(environments: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the machines, and the list of commands. Commands with equal options are one line."""
    environments = list(environments)
    machines = dict.fromkeys(
        f"{each['cores']} cores of {each['cpu']}, torch {each['versions']['torch']}"
        for each in environments
    )
    networks: dict[str, dict[str, None]] = {}
    for each in environments:
        names, options = _split(each["command"])
        networks.setdefault(options, {}).update(dict.fromkeys(names))
    listed = [f"- `{START}{' '.join(names)}{options}`" for options, names in networks.items()]
    return f"Measured on {' and '.join(machines)} by the commands", "\n".join(listed)


def _split(command: str) -> tuple[list[str], str]:
    """Return the networks of a command, and its options with a leading space."""
    names, dash, options = command.removeprefix(START).partition(" --")
    return names.split(), dash + options


def _name(entry: Record) -> str:
    return entry["case"].removeprefix("networks/")


def _parts(entry: Record) -> tuple[str, str, int]:
    """Return what the training, validation and test parts of a record depend on."""
    return entry["case"], entry["split"], entry["splits"]


def _row(entry: Record, ignored: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    accuracy = entry["accuracy"]
    components = _named(accuracy, "component ")
    baselines = _named(accuracy, "baseline ")
    title = _name(entry)
    if entry["split"] != "random":
        title += f", {entry['split']}"
    title += "".join(f", `{option}`" for option in entry["options"])
    return [
        title, str(entry["splits"]), _cell(accuracy[entry["model"]]),
        _cell(ignored["stacked"]) if ignored else "", _best(components),
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
