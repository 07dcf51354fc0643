"""Settings of a training run: the options of ``gattn nodes train``, as in config.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gattn.apps.fitting.settings import (
    Coverage,
    SettingsError,
    TaskChoice,
    document,
    read_toml,
    updated,
)
from gattn.apps.nodes.graph_settings import GraphSettings
from gattn.apps.nodes.settings import PRESETS, NodeSettings
from gattn.apps.nodes.typed.relations import parse_sources, table_files
from gattn.apps.run.split_rule import SplitRule, read_rule

if TYPE_CHECKING:
    from gattn.apps.nodes.files import GraphReading

UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)", re.IGNORECASE)
SPLITS = ("auto", "public", "random", "random-per-class", "time")


@document
@dataclass(frozen=True, kw_only=True)
class NodeRunSettings(GraphSettings):
    """Settings of a training run: the graph and its format, the split, and the model.

    Attributes:
        {settings}
        model: the settings of the model and its training.

    Raises:
        ValueError: a value out of its range; the message names the setting.
    """

    nodes: str | tuple[str, ...] = ""
    """Table with one row of attributes for each node. Use it if the graph is a list or table of
    edges, which contains no attributes of nodes. For nodes of several types, repeat the option with
    TYPE=FILE, for example papers=papers.csv, and use --edges instead of a graph.
    """
    edges: tuple[str, ...] = ()
    """Table of the edges of one relation between nodes of several types, as
    SOURCE-RELATION-DESTINATION=FILE, for example authors-writes-papers=writes.csv. Repeat the
    option for several relations.
    """
    label: Annotated[str, Meta(extra={"default": "y or label"})] = ""
    """Name of the node attribute to predict."""
    label_type: Annotated[str, Meta(extra={"default": "the type with the label"})] = ""
    """Type of the nodes to predict, for a network with several tables of nodes."""
    names: Annotated[bool, Meta(extra={"flag": "--names/--no-names"})] = False
    """Use the words in the names of the nodes as features, for example in a network of software
    packages. Leave it off if the names contain the label.
    """
    task: TaskChoice = "auto"
    split: str = "auto"
    """Rule that divides the labelled nodes into training, validation and test parts. With public,
    they are the parts that the data set defines. With random, they contain 60 %, 20 % and 20 % of
    each class. With random-per-class, 20 nodes of each class are used for training, 30 for
    validation and all others for testing. With column:NAME, the parts (train, val or test) are read
    from the attribute NAME. With time, the oldest 60 % of the nodes are used for training and the
    newest 20 % for testing; this needs the option --time. With auto, the rule is time if --time is
    set, public if the data set defines parts, and otherwise random.
    """
    directed: Annotated[
        bool | None, Meta(extra={"default": "both directions", "flag": "--directed/--undirected"})
    ] = None
    """Send messages only in the direction of the edges. Without this option, messages are sent in
    both directions.
    """
    time: str = ""
    """Name of the column of the nodes or edges that contains their times: numbers, or dates such as
    2024-01-31. The test part is newer than the training part. If the nodes have times, the
    prediction of a node does not depend on newer nodes or edges. If only the edges have times, it
    does not depend on edges that are newer than the node's part.
    """
    memory: Annotated[str, Meta(extra={"default": "half of the free memory"})] = ""
    """Memory budget, for example 12GiB or 500MB. If training on the whole graph is estimated to
    need more, the training samples neighbours. Lower it to train on samples; raise it to train on
    the whole graph.
    """
    runs: Annotated[int, Meta(ge=1)] = 1
    """Number of trainings with different initial weights and, if the split is random, different
    splits. Raise it to report the mean and the standard deviation of the results.
    """
    coverage: Coverage = 0.9
    workers: Annotated[int, Meta(ge=1)] = 2
    """Number of processes that train networks in parallel. It has an effect only if runs is above
    1.
    """
    model: NodeSettings = field(default_factory=NodeSettings)

    @property
    def reading(self) -> GraphReading:
        """Rules for reading the files of the graph."""
        from gattn.apps.nodes.files import GraphReading

        return GraphReading.of(self)

    @property
    def split_rule(self) -> SplitRule:
        """Value of ``split``, read."""
        return read_rule(self.split)

    @property
    def is_typed(self) -> bool:
        """True for a network with several tables of nodes."""
        return bool(self.edges) or not isinstance(self.nodes, str)

    @property
    def tables(self) -> list[str]:
        """Files of the tables of nodes and, for a network with several, of the edges."""
        return table_files(self.nodes, self.edges)

    @property
    def title(self) -> str:
        """Name of the graph in reports: its file, or the names of its relations."""
        return self.data or ", ".join(edges.partition("=")[0] for edges in self.edges)

    def check(self) -> None:
        """Raise SettingsError if the tables do not describe one network, the memory is no size, the
        split is unknown, or a split by time lacks the column of times.
        """
        super().check()
        self._check_tables()
        if self.memory:
            parse_memory(self.memory)
        if self.split and (problem := self.split_rule.problem):
            raise SettingsError(problem)
        if self.split not in SPLITS and self.split_rule.column is None:
            choices = ", ".join(SPLITS)
            raise SettingsError(f"split must be {choices} or column:NAME; got {self.split!r}")
        if self.split == "time" and not self.time:
            raise SettingsError("split time needs the column of times: --time COL")

    def _check_tables(self) -> None:
        """Raise SettingsError if a setting needs several tables of nodes and there is one, if the
        options of several tables have another form, or if they exclude a setting.
        """
        if not self.is_typed:
            if self.label_type:
                raise SettingsError(
                    "label_type is for several tables of nodes: --nodes TYPE=FILE for each"
                )
            return
        try:
            parse_sources(self.data, self.nodes, self.edges)
        except ValueError as error:
            raise SettingsError(str(error)) from None
        for name in ("time", "edge_type", "memory"):
            if getattr(self, name):
                raise SettingsError(
                    f"{name} cannot be set for a network with several tables of nodes"
                )


def override(config: str | Path | None, changes: Mapping[str, object]) -> NodeRunSettings:
    """Return the settings of a configuration file after the changes from the command line.

    Args:
        config: the config.toml of a run; None for the defaults.
        changes: settings of the run and of its model by name; ``data`` is required without a
            config.

    Returns:
        The settings.

    Raises:
        ValueError: a setting is unknown or out of its range, no graph is named, or the file is not
            a config file.
        FileNotFoundError: the file does not exist.

    >>> override(None, {"data": "pubmed", "runs": 3}).model.output_heads
    8
    """
    if config is not None:
        graph = {name: changes[name] for name in ("data",) if name in changes}
        return updated(read_toml(NodeRunSettings, config, graph), changes)
    several = "edges" in changes or isinstance(changes.get("nodes", ""), tuple)
    if "data" not in changes and several:
        # The edges of a network with several tables of nodes are in tables of their own.
        changes = {**changes, "data": ""}
    if "data" not in changes:
        raise ValueError(f"a graph is required: a file, or one of {', '.join(PRESETS)}")
    model = PRESETS.get(str(changes["data"]).lower(), NodeSettings())
    return updated(NodeRunSettings(str(changes["data"]), model=model), changes)


def parse_memory(text: str) -> int:
    """Return the number of bytes that a text such as ``12GiB`` or ``500 MB`` denotes.

    Raises:
        SettingsError: the text is not a positive number with a unit.

    >>> parse_memory("1.5 GiB"), parse_memory("500MB")
    (1610612736, 500000000)
    """
    match = SIZE.fullmatch(text.strip())
    unit = "" if match is None else match[2].lower()
    if match is None or unit not in UNITS or not float(match[1]):
        raise SettingsError(
            f"memory must be a positive number with a unit, such as 12GiB or 500MB; got {text!r}"
        )
    return int(float(match[1]) * UNITS[unit])
