"""The settings of a run: what a ``train`` command was asked for, and what config.toml holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from gattn.data.tables.numbers import NumberFormat
from gattn.nodes.settings import PRESETS, NodeSettings
from gattn.training.checks import check_choice, check_count, check_share
from gattn.training.settings import overridden, read_toml

__all__ = ["NodeRunSettings", "Task", "override"]

Task = Literal["auto", "classification", "regression"]
SPLITS = ("auto", "public", "random", "random-per-class")


@dataclass(frozen=True)
class NodeRunSettings:
    """What a model is trained on and how.

    Attributes:
        data: ``cora``, ``citeseer``, ``pubmed`` or a file of a graph.
        nodes: a table of its nodes; empty where the file has them.
        label: the attribute to predict; empty for ``y`` or ``label``.
        features: the attributes to read; empty for all others.
        task: what the labels are; ``"auto"`` reads it from them.
        split: ``"public"`` for the parts that come with a data set, ``"random"`` for 6:2:2 of
            every class, ``"random-per-class"`` for 20 nodes a class to train and 30 to validate,
            ``"column:NAME"`` for an attribute that says train, val or test; ``"auto"`` is public
            where there are such parts, else random.
        edges: ``"directed"`` to follow the direction of edges, ``"undirected"`` to go both ways;
            ``"auto"`` goes both ways and says where the graph was directed.
        encoding: of the text in tables and lists of edges; otherwise what the byte order mark
            says, and UTF-8 without one.
        decimal: the decimal sign of numbers in tables, ``"."`` or ``","``; None for a point, but
            for commas where semicolons separate the table.
        thousands: the separator between groups of three digits; empty for none.
        missing: words that stand for a missing attribute, besides empty cells.
        runs: trainings, each with other first weights; where parts are drawn, so are they anew
            for every few trainings.
        coverage: the promise of the sets of labels, or intervals, in the run's tables and report.
        workers: processes that train side by side where there are several runs.
        model: what the model is made of and trained by.

    Raises:
        ValueError: a value out of its range; the message names the setting.
    """

    data: str
    nodes: str = ""
    label: str = ""
    features: tuple[str, ...] = ()
    task: Task = "auto"
    split: str = "auto"
    edges: Literal["auto", "directed", "undirected"] = "auto"
    encoding: str | None = None
    decimal: str | None = None
    thousands: str = ""
    missing: tuple[str, ...] = ()
    runs: int = 1
    coverage: float = 0.9
    workers: int = 2
    model: NodeSettings = field(default_factory=NodeSettings)

    def __post_init__(self) -> None:
        check_choice("task", self.task, get_args(Task))
        check_choice("edges", self.edges, ("auto", "directed", "undirected"))
        for name in ("runs", "workers"):
            check_count(name, getattr(self, name), 1)
        check_share("coverage", self.coverage)
        NumberFormat(decimal=self.decimal or ".", thousands=self.thousands)  # checks both signs
        if self.split not in SPLITS and not self.split.startswith("column:"):
            told = ", ".join(SPLITS)
            raise ValueError(f"split must be {told} or column:NAME; got {self.split!r}")

    @property
    def directed(self) -> bool | None:
        """As :func:`gattn.nodes.reading.read_graph` takes it."""
        return {"directed": True, "undirected": False}.get(self.edges)


def override(
    config: str | Path | None, preset: str | None, given: Mapping[str, object]
) -> NodeRunSettings:
    """Read the settings of a config file, and let those of the command line win.

    Args:
        config: what a run wrote; None for the defaults.
        preset: a name in :data:`gattn.nodes.PRESETS`; None for that of the data set's own, else
            for the defaults. Not beside a config.
        given: settings of a run and of its model, by name; ``data`` where there is no config.

    Returns:
        The settings.

    Raises:
        ValueError: a setting that there is not, or that is out of its range; no data; a file that
            is no such config.

    >>> override(None, None, {"data": "pubmed", "runs": 3}).model.output_heads
    8
    """
    if config is not None:
        if preset is not None:
            raise ValueError("a config has its settings itself; take either it or a preset")
        return overridden(read_toml(NodeRunSettings, config), given)
    if "data" not in given:
        raise ValueError(f"a graph is wanted: a file, or one of {', '.join(PRESETS)}")
    name = preset or str(given["data"]).lower()
    if preset is not None:
        check_choice("preset", preset, tuple(PRESETS))
    model = PRESETS.get(name, NodeSettings())
    return overridden(NodeRunSettings(str(given["data"]), model=model), given)
