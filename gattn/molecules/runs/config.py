"""Settings of a run: the options of ``gattn molecules train`` and the content of config.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from gattn.molecules.settings import MoleculeSettings
from gattn.training.settings import (
    Coverage,
    Settings,
    SettingsError,
    TaskChoice,
    Threads,
    document,
    read_toml,
    updated,
)

if TYPE_CHECKING:
    from gattn.data.tables.numbers import NumberFormat

__all__ = ["SEARCH", "NumberSettings", "RunSettings", "override"]

SEARCH: dict[str, tuple[float, ...]] = {
    "width": (64, 128, 256),
    "layers": (2, 6),
    "dropout": (0.0, 0.3),
    "learning_rate": (3e-4, 3e-3),
}
"""Settings that ``tune`` searches: all widths to try, and the ranges of the other settings."""


@dataclass(frozen=True, kw_only=True)
class NumberSettings(Settings):
    """Settings of how the numbers of the labels are written."""

    panel: ClassVar[str] = "How the numbers of the labels are written"

    decimal: Annotated[
        Literal[".", ","],
        Meta(description="Decimal sign of the labels. Set it for tables with decimal commas."),
    ] = "."
    thousands: Annotated[
        Literal["", ",", ".", " ", "'"],
        Meta(
            description="Separator between groups of three digits, for example the comma in 1,008."
        ),
    ] = ""
    censored: Annotated[
        Literal["refuse", "drop", "bound"],
        Meta(
            description="Treatment of censored labels such as >10: refuse reports an error, drop "
            "takes them as missing, bound takes the number as the value."
        ),
    ] = "refuse"
    uncertainty: Annotated[
        Literal["refuse", "drop"],
        Meta(
            description="Treatment of labels such as 3.2 ± 0.1: refuse reports an error, drop "
            "reads 3.2."
        ),
    ] = "refuse"
    unit: Annotated[
        str,
        Meta(
            description="Unit that may follow a number, for example nM or %; values are not "
            "converted."
        ),
    ] = ""

    @property
    def style(self) -> NumberFormat:
        """The parser of the numbers of the labels."""
        from gattn.data.tables.numbers import NumberFormat

        return NumberFormat(*(getattr(self, f.name) for f in fields(NumberSettings)))

    def check(self) -> None:
        """Check that the decimal sign, the separator and the unit can be told apart in a number."""
        super().check()
        if self.thousands or self.decimal == "," or self.unit:
            # The number parser checks that the signs differ. Its module is imported only if one of
            # them is set, because the import is slow.
            _ = self.style


@document
@dataclass(frozen=True, kw_only=True)
class RunSettings(NumberSettings):
    """Settings of a training run: the data, how to read and split them, and the model.

    Attributes:
        {settings}
        model: the settings of the model and its training.

    Raises:
        ValueError: a value out of its range; the message names the setting.
    """

    panel: ClassVar[str] = "Options"

    data: Annotated[
        str,
        Meta(
            description="CSV table with a header, SMILES and labels.",
            extra={"default": "the 1,017 measured compounds of CHEMBL2321810"},
        ),
    ] = ""
    smiles: Annotated[str, Meta(description="Column of SMILES.")] = "smiles"
    target: Annotated[
        tuple[str, ...], Meta(description="Column of labels to predict; repeat it for several.")
    ] = ()
    descriptors_columns: Annotated[
        tuple[str, ...],
        Meta(
            description="Column of numbers that the model reads beside the molecule, such as a "
            "temperature or a pH; repeat it for several. A missing number becomes the mean of the "
            "training part. Prediction needs the same columns."
        ),
    ] = ()
    task: TaskChoice = "auto"
    split: Annotated[
        str,
        Meta(
            description="Rule that divides the table into training, validation and test part. "
            "random; scaffold (a harder test, because no scaffold is in two parts); column:NAME, "
            "a column that contains train, val or test; or FILE.json, the splits.json of another "
            "run."
        ),
    ] = "random"
    encoding: Annotated[
        str | None,
        Meta(
            description="Text encoding of the table, for example latin-1. Set it if the table is "
            "not UTF-8.",
            extra={"default": "the byte order mark, else UTF-8"},
        ),
    ] = None
    skip_bad_labels: Annotated[
        bool,
        Meta(
            description="Leave out all labels that cannot be read. By default too many of them are "
            "an error."
        ),
    ] = False
    coverage: Coverage = 0.9
    tune: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of settings to try with Optuna before training; each trial takes "
            "as long as one training. The first trial uses the given settings.",
        ),
    ] = 0
    workers: Annotated[int, Meta(ge=1, description="Number of processes that parse SMILES.")] = 2
    threads: Threads = 0
    cache: Annotated[
        str,
        Meta(
            description="Folder that stores parsed SMILES, so that later runs start faster.",
            extra={"default": ".gattn beside the run"},
        ),
    ] = ""
    model: MoleculeSettings = field(default_factory=MoleculeSettings)

    def check(self) -> None:
        """Check the split, the targets, and the settings from which a search starts."""
        super().check()
        column = self.split.removeprefix("column:")
        is_file = column.lower().endswith(".json")
        if self.split not in ("random", "scaffold") and column == self.split and not is_file:
            raise SettingsError(
                f"split must be random, scaffold, column:NAME or FILE.json; got {self.split!r}"
            )
        if len(set(self.target)) < len(self.target):
            raise SettingsError(f"each target must be named once; got {', '.join(self.target)}")
        if (self.target or self.descriptors_columns) and not self.data:
            raise SettingsError("a column was named, but no DATA to find it in")
        if self.model.bounded and self.censored != "refuse":
            raise SettingsError(
                f"loss_function {self.model.loss_function} reads censored labels as limits; leave "
                f"out censored {self.censored}"
            )
        if self.tune:
            self._check_search()

    @property
    def style(self) -> NumberFormat:
        """The parser of the numbers of the labels; a bounded loss reads censored ones as limits."""
        return replace(super().style, censored="limit") if self.model.bounded else super().style

    def _check_search(self) -> None:
        """Check that these settings are in the ranges that a search tries."""
        for name, values in SEARCH.items():
            value = getattr(self.model, name)
            if name == "width" and value not in values:
                raise SettingsError(
                    f"tune searches width among {', '.join(map(str, values))} and starts from the "
                    f"given one, which must be among them; got {value}"
                )
            if not values[0] <= value <= values[-1]:
                raise SettingsError(
                    f"tune searches {name} from {values[0]} to {values[-1]} and starts from the "
                    f"given one, which must be in this range; got {value}"
                )
        if bad := [width for width in SEARCH["width"] if width % self.model.heads]:
            raise SettingsError(
                f"tune searches width among {', '.join(map(str, SEARCH['width']))}, which heads "
                f"must divide; got heads {self.model.heads} (not a divisor of {bad[0]})"
            )


def override(config: str | Path | None, changes: Mapping[str, object]) -> RunSettings:
    """Return the settings of a config file, with the changes from the command line.

    Args:
        config: a file that :func:`gattn.training.settings.write_toml` wrote; None for the
            defaults.
        changes: settings of the run and of its model by name.

    Returns:
        The settings.

    Raises:
        ValueError: a setting is unknown or out of its range, or the file is not a config file.

    >>> override(None, {"epochs": 5, "split": "scaffold"}).model.epochs
    5
    """
    return updated(RunSettings() if config is None else read_toml(RunSettings, config), changes)
