"""Settings of a training run: the options of ``gattn links train``, as in config.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gattn.apps.fitting.settings import SettingsError, document, read_toml, updated
from gattn.apps.links.settings import NAMES, LinkSettings, Negatives
from gattn.apps.nodes.graph_settings import GraphSettings


@document
@dataclass(frozen=True, kw_only=True)
class LinkRunSettings(GraphSettings):
    """Settings of a training run: the graph and its format, the split, and the model.

    Attributes:
        {settings}
        model: the settings of the model and its training.

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Example:
        >>> LinkRunSettings("cora", validation_fraction=0.6, test_fraction=0.5)
        Traceback (most recent call last):
            ...
        gattn.apps.fitting.settings.SettingsError: validation_fraction and test_fraction must sum \
to less than 1; got 0.6 and 0.5
    """

    nodes: str = ""
    """Table with one row of attributes for each node. Use it if the graph is a list or table of
    edges, which contains no attributes of nodes.
    """
    names: Annotated[bool, Meta(description=NAMES, extra={"flag": "--names/--no-names"})] = False
    split: Literal["auto", "random", "time"] = "auto"
    """Rule that divides the links into training, validation and test parts. With random, links are
    assigned at random. With time, the newest links are the test part; this needs the option --time.
    With auto, the rule is time if --time is set, and otherwise random.
    """
    validation_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Fraction of the links that are used to choose the epoch and the weights of the model. Raise
    it if the network has fewer than a thousand links.
    """
    test_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Fraction of the links on which the model is evaluated. Raise it if the network has few links.
    """
    negatives: Negatives = 500
    hard_negatives: bool = False
    """Compare the target of each test link with the unlinked targets that heuristics score highest
    for its source, an equal number by each heuristic, instead of random ones. The metrics of ranks
    are then lower; those of random pairs do not change.
    """
    directed: Annotated[
        bool | None,
        Meta(
            extra={
                "default": "directed, unless the graph is undirected or bipartite",
                "flag": "--directed/--undirected",
            }
        ),
    ] = None
    """Treat (a, b) and (b, a) as different links. Set --undirected if the links have no direction
    and the table contains each link once. Messages are always sent in both directions.
    """
    time: str = ""
    """Name of the column of the edges or nodes that contains their times: numbers, or dates such as
    2024-01-31. Validation and test links are newer than training links, and a link is predicted
    from older edges.
    """
    bipartite: Annotated[
        bool | None,
        Meta(
            extra={
                "default": "the same node; numbers in columns of different nouns are refused",
                "flag": "--bipartite/--no-bipartite",
            }
        ),
    ] = None
    """Treat equal names in the two columns of the edges as different nodes, for example if users
    and items are both numbered from 0. The names in the outputs then begin with the name of the
    column, such as user_id 7. With --no-bipartite, equal names are the same node.
    """
    model: LinkSettings = field(default_factory=LinkSettings)

    def check(self) -> None:
        """Raise SettingsError if the fractions sum to 1 or more, or if the links are split by time
        without a column of times.
        """
        super().check()
        if self.validation_fraction + self.test_fraction >= 1:
            raise SettingsError(
                "validation_fraction and test_fraction must sum to less than 1; got "
                f"{self.validation_fraction} and {self.test_fraction}"
            )
        if self.split == "time" and not self.time:
            raise SettingsError("split time needs the column of times: --time COL")


def override(config: str | Path | None, changes: Mapping[str, object]) -> LinkRunSettings:
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

    >>> override(None, {"data": "cora", "epochs": 3}).model.epochs
    3
    """
    if config is not None:
        graph = {name: changes[name] for name in ("data",) if name in changes}
        return updated(read_toml(LinkRunSettings, config, graph), changes)
    if "data" not in changes:
        raise ValueError("a graph is required: a file, or one of cora, citeseer, pubmed")
    return updated(LinkRunSettings(str(changes["data"])), changes)
