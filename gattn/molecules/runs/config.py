"""Settings of a training run: the options of ``gattn molecules train``, as in config.toml."""

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
"""Settings that ``tune`` searches: the widths to try, and the ranges of the other settings."""


@dataclass(frozen=True, kw_only=True)
class NumberSettings(Settings):
    """Settings of the notation of numbers in the label columns."""

    panel: ClassVar[str] = "How the numbers of the labels are written"

    decimal: Annotated[
        Literal[".", ","],
        Meta(
            description="Decimal sign of the numbers in the label columns. Set it to a comma if "
            "the table contains numbers such as 3,2."
        ),
    ] = "."
    thousands: Annotated[
        Literal["", ",", ".", " ", "'"],
        Meta(
            description="Character between groups of three digits in the label columns, for "
            "example the comma in 1,008."
        ),
    ] = ""
    censored: Annotated[
        Literal["refuse", "drop", "bound"],
        Meta(
            description="Treatment of labels that are only a limit, such as >10 (censored "
            "labels). With refuse, the command stops with an error. With drop, such labels are "
            "treated as missing. With bound, the number, here 10, is used as the label."
        ),
    ] = "refuse"
    uncertainty: Annotated[
        Literal["refuse", "drop"],
        Meta(
            description="Treatment of labels with an uncertainty, such as 3.2 ± 0.1. With "
            "refuse, the command stops with an error. With drop, only the number before the sign, "
            "here 3.2, is read."
        ),
    ] = "refuse"
    unit: Annotated[
        str,
        Meta(
            description="Unit that may follow the numbers in the label columns, for example nM "
            "or %. The numbers are read without conversion."
        ),
    ] = ""

    @property
    def style(self) -> NumberFormat:
        """Parser of the numbers in the label columns."""
        from gattn.data.tables.numbers import NumberFormat

        return NumberFormat(*(getattr(self, f.name) for f in fields(NumberSettings)))

    def check(self) -> None:
        """Check that the decimal sign, the thousands separator and the unit are not ambiguous."""
        super().check()
        if self.thousands or self.decimal == "," or self.unit:
            # NumberFormat checks that the decimal sign and the separator differ. Its module is slow
            # to import, so it is imported only if one of these settings was changed.
            _ = self.style


@document
@dataclass(frozen=True, kw_only=True)
class RunSettings(NumberSettings):
    """Settings of a training run: the data and their format, the split, and the model.

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
            description="CSV file with a header line, a column of SMILES and columns of labels.",
            extra={"default": "the 1,017 measured compounds of CHEMBL2321810"},
        ),
    ] = ""
    smiles: Annotated[
        str | tuple[str, ...],
        Meta(
            description="Name of the column that contains the SMILES. Repeat the option for rows "
            "of several molecules, such as a solute and a solvent; their order is that of the "
            "options."
        ),
    ] = "smiles"
    target: Annotated[
        tuple[str, ...],
        Meta(
            description="Name of a column of labels to predict. Repeat the "
            "option to predict several columns."
        ),
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
            description="Rule that divides the molecules into training, validation and test "
            "parts. With random, molecules are assigned at random. With scaffold, all molecules "
            "with the same scaffold are in the same part, which is a harder test. With "
            "molecule:NAME, all rows with the same molecule in the SMILES column NAME are in the "
            "same part, which tests a new solvent, for example. With column:NAME, the parts "
            "(train, val or test) are read from the column NAME. With FILE.json, the parts of "
            "another run are read from its file splits.json."
        ),
    ] = "random"
    encoding: Annotated[
        str | None,
        Meta(
            description="Text encoding of the table, for example latin-1. Set it if the table is "
            "not UTF-8.",
            extra={"default": "the encoding of the byte order mark, else UTF-8"},
        ),
    ] = None
    skip_bad_labels: Annotated[
        bool,
        Meta(
            description="Leave out every label that cannot be read. Without this option, many "
            "such labels are an error."
        ),
    ] = False
    coverage: Coverage = 0.9
    tune: Annotated[
        int,
        Meta(
            ge=0,
            description="Number of combinations of settings that Optuna tries before the final "
            "training; 0 tries none. Each trial takes as long as one training. The first "
            "trial uses the settings of this command.",
        ),
    ] = 0
    workers: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of processes that parse SMILES in "
            "parallel. Raise it for large tables if the machine has more processors.",
        ),
    ] = 2
    threads: Threads = 0
    cache: Annotated[
        str,
        Meta(
            description="Folder in which parsed SMILES are stored, so that later runs with the "
            "same molecules start faster.",
            extra={"default": "the folder .gattn next to the folder of the run"},
        ),
    ] = ""
    model: MoleculeSettings = field(default_factory=MoleculeSettings)

    def check(self) -> None:
        """Check the split, the targets, and the initial settings of a search."""
        super().check()
        if isinstance(self.smiles, tuple) and len(self.smiles) == 1:
            object.__setattr__(self, "smiles", self.smiles[0])
        self.model.check_rows(len(self.smiles_columns))
        component = self.split.removeprefix("molecule:")
        column = self.split.removeprefix("column:")
        is_file = column.lower().endswith(".json")
        is_prefixed = self.split in (f"column:{column}", f"molecule:{component}")
        if self.split not in ("random", "scaffold") and not is_prefixed and not is_file:
            raise SettingsError(
                "split must be random, scaffold, molecule:NAME, column:NAME or FILE.json; got "
                f"{self.split!r}"
            )
        if component != self.split and component not in self.smiles_columns:
            raise SettingsError(
                f"split {self.split} must name a column of SMILES; they are "
                f"{', '.join(self.smiles_columns)}"
            )
        if len(set(self.target)) < len(self.target):
            raise SettingsError(f"each target must be listed once; got {', '.join(self.target)}")
        if (self.target or self.descriptors_columns) and not self.data:
            option = "--target" if self.target else "--descriptors-columns"
            raise SettingsError(f"{option} was set without DATA, the table that has the column")
        if self.model.bounded and self.censored != "refuse":
            raise SettingsError(
                f"loss_function {self.model.loss_function} reads censored labels as limits; leave "
                f"out censored {self.censored}"
            )
        if self.tune:
            self._check_search()

    @property
    def smiles_columns(self) -> tuple[str, ...]:
        """Names of the columns of SMILES, one for each molecule of a row."""
        return (self.smiles,) if isinstance(self.smiles, str) else self.smiles

    @property
    def style(self) -> NumberFormat:
        """The parser of the numbers of the labels; a bounded loss reads censored ones as limits."""
        return replace(super().style, censored="limit") if self.model.bounded else super().style

    def _check_search(self) -> None:
        """Check that these settings are within the ranges of the search."""
        for name, values in SEARCH.items():
            value = getattr(self.model, name)
            if name == "width" and value not in values:
                raise SettingsError(
                    f"tune searches width among {', '.join(map(str, values))} and starts with "
                    f"the setting itself, which must be one of these; got {value}"
                )
            if not values[0] <= value <= values[-1]:
                raise SettingsError(
                    f"tune searches {name} from {values[0]} to {values[-1]} and starts with "
                    f"the setting itself, which must be in this range; got {value}"
                )
        if bad := [width for width in SEARCH["width"] if width % self.model.heads]:
            raise SettingsError(
                f"tune searches width among {', '.join(map(str, SEARCH['width']))}, which heads "
                f"must divide; got heads {self.model.heads} (not a divisor of {bad[0]})"
            )


def override(config: str | Path | None, changes: Mapping[str, object]) -> RunSettings:
    """Return the settings of a configuration file, with the changes from the command line.

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
