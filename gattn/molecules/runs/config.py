"""The settings of a run: what a ``train`` command was asked for, and what config.toml holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gattn.data.tables.numbers import NumberFormat
from gattn.molecules.settings import MoleculeSettings
from gattn.training.checks import check_share
from gattn.training.settings import overridden, read_toml

__all__ = ["RunSettings", "override"]


@dataclass(frozen=True)
class RunSettings:
    """What a model is trained on and how.

    Attributes:
        data: a CSV file; empty for the 1,017 measured compounds of CHEMBL2321810.
        smiles: its column of SMILES.
        target: its columns of labels.
        task: what the labels are; ``"auto"`` reads it from them.
        split: ``"random"``, ``"scaffold"``, ``"column:NAME"`` for a column that says train, val
            or test, or a JSON file of rows such as the ``splits.json`` of another run.
        encoding: of the file; otherwise what its byte order mark says, and UTF-8 without one.
        decimal: the decimal sign of the labels.
        thousands: the separator between groups of three digits of the labels.
        censored: whether labels such as ``>10`` are refused, taken as missing, or taken for their
            bound.
        uncertainty: whether ``3.2 ± 0.1`` is refused, or read as 3.2.
        unit: what may stand behind the numbers.
        skip_bad_labels: leave out every label that cannot be read, however many there are.
        coverage: the promise of the intervals in the run's tables and report.
        tune: how many settings to try before the model is trained.
        workers: processes that read SMILES.
        cache: a folder that keeps what was read of the SMILES, so that the next run on the same
            ones does not read them again; empty for the folder ``.gattn`` beside the run.
        model: what the model is made of and trained by.

    Raises:
        ValueError: a value out of its range; the message names the setting.
    """

    data: str = ""
    smiles: str = "smiles"
    target: tuple[str, ...] = ()
    task: Literal["auto", "regression", "classification"] = "auto"
    split: str = "random"
    encoding: str | None = None
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""
    censored: Literal["refuse", "drop", "bound"] = "refuse"
    uncertainty: Literal["refuse", "drop"] = "refuse"
    unit: str = ""
    skip_bad_labels: bool = False
    coverage: float = 0.9
    tune: int = 0
    workers: int = 2
    cache: str = ""
    model: MoleculeSettings = field(default_factory=MoleculeSettings)

    def __post_init__(self) -> None:
        check_share("coverage", self.coverage)
        _ = self.style  # refuses settings that contradict
        if self.tune < 0:
            raise ValueError(f"tune must be at least 0; got {self.tune}")
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1; got {self.workers}")
        column = self.split.removeprefix("column:")
        is_file = column.lower().endswith(".json")
        if self.split not in ("random", "scaffold") and column == self.split and not is_file:
            raise ValueError(
                f"split must be random, scaffold, column:NAME or FILE.json; got {self.split!r}"
            )
        if len(set(self.target)) < len(self.target):
            raise ValueError(f"each target must be named once; got {', '.join(self.target)}")
        if self.target and not self.data:
            raise ValueError("a target was named, but no DATA to find it in")

    @property
    def style(self) -> NumberFormat:
        """The way in which the numbers of the labels are written."""
        return NumberFormat(
            self.decimal, self.thousands, self.censored, self.uncertainty, self.unit
        )


def override(config: str | Path | None, given: Mapping[str, Any]) -> RunSettings:
    """Read the settings of a config file, and let those of the command line win.

    Args:
        config: what :func:`gattn.training.settings.write_toml` wrote; None for the defaults.
        given: settings of a run and of its model, by name.

    Returns:
        The settings.

    Raises:
        ValueError: a setting that there is not, or that is out of its range; a file that is no
            such config.

    >>> override(None, {"epochs": 5, "split": "scaffold"}).model.epochs
    5
    """
    before = RunSettings() if config is None else read_toml(RunSettings, config)
    return overridden(before, given)
