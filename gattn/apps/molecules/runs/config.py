"""Settings of a training run: the options of ``gattn molecules train``, as in config.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from gattn.apps.fitting.settings import (
    Coverage,
    Settings,
    SettingsError,
    TargetsTask,
    Threads,
    document,
    read_toml,
    updated,
)
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.run.split_rule import SplitRule, read_rule

if TYPE_CHECKING:
    from gattn.apps.tables.numbers import NumberFormat

RULES = ("random", "scaffold", "butina", "time")
"""Values of ``--split`` that divide the molecules of one table."""
OF_MOLECULES = (
    "target", "descriptors_columns", "decimal", "thousands", "relation_column", "error_column",
    "weight_column", "also",
)  # fmt: skip
"""Settings of labels of molecules, which atoms and bonds do not have."""
IN_TABLE = (
    "target", "atom_target", "bond_target", "descriptors_columns", "relation_column",
    "error_column", "weight_column", "time", "test", "validation", "also",
)  # fmt: skip
"""Settings that name a column, or the table of a part."""


@dataclass(frozen=True, kw_only=True)
class NumberSettings(Settings):
    """Settings of the notation of numbers in the label columns."""

    panel: ClassVar[str] = "Notation of the numbers in the labels"

    decimal: Literal[".", ","] = "."
    """Decimal separator of the numbers in the label columns. Set it to a comma if the table
    contains numbers such as 3,2.
    """
    thousands: Literal["", ",", ".", " ", "'"] = ""
    """Character between groups of three digits in the label columns, for example the comma in
    1,008.
    """
    censored: Literal["refuse", "drop", "bound"] = "refuse"
    """Treatment of censored labels, of which only a limit is known, such as >10. With refuse, the
    command stops with an error. With drop, such labels are treated as missing. With bound, the
    number after the sign, here 10, is used as the label.
    """

    @property
    def style(self) -> NumberFormat:
        """Parser for the numbers in the label columns."""
        from gattn.apps.tables.numbers import NumberFormat

        return NumberFormat(self.decimal, self.thousands, self.censored)

    def check(self) -> None:
        """Check that the decimal separator and the thousands separator differ. Raises ValueError
        otherwise.
        """
        super().check()
        if self.thousands or self.decimal == ",":
            # NumberFormat checks that the decimal and the thousands separator differ. Its module is
            # slow to import, so it is imported only if one of these settings was changed.
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

    panel: ClassVar[str] = "Data and run"

    data: Annotated[
        str, Meta(extra={"default": "the 1,017 measured compounds of CHEMBL2321810"})
    ] = ""
    """CSV file with a header line, a column of SMILES and columns of labels."""
    more_data: tuple[str, ...] = ()
    """Further CSV files with the same columns, whose rows are added."""
    validation: Annotated[str, Meta(extra={"default": "a part of DATA"})] = ""
    """CSV file of the validation part, with the same columns. The rows of DATA are then divided
    into a training and a test part only.
    """
    test: Annotated[str, Meta(extra={"default": "a part of DATA"})] = ""
    """CSV file of the test part, with the same columns. The rows of DATA are then divided into a
    training and a validation part only.
    """
    smiles: str | tuple[str, ...] = "smiles"
    """Name of the column that contains the SMILES. Repeat the option for rows of several molecules,
    such as a solute and a solvent. The molecules of a row have the same order as the options.
    """
    target: tuple[str, ...] = ()
    """Name of a column of labels to predict. Repeat the option to predict several columns."""
    atom_target: tuple[str, ...] = ()
    """Name of a column of lists, such as [0.1, -0.2], with a label for each atom in the order of
    the SMILES. null is a missing label. Repeat the option for several columns. The model predicts
    these columns with attention networks and with the mean label of the atoms that have the same
    environment.
    """
    bond_target: tuple[str, ...] = ()
    """Name of a column whose cells contain a list with a label for each bond in RDKit's order.
    Repeat the option for several columns.
    """
    descriptors_columns: tuple[str, ...] = ()
    """Name of a column of numbers that the model reads in addition to the SMILES, such as a
    temperature or a pH. Repeat the option to read several columns. A missing number is replaced by
    the mean of the training part. Tables for prediction must contain the same columns.
    """
    also: Annotated[str, Meta(extra={"default": "none"})] = ""
    """CSV file of other molecules with other labels, such as a cheap screen. A Gaussian process
    predicts these labels for the molecules of DATA, and the model reads the predictions if they
    lower its error for training molecules that are left out. The report states the gain.
    """
    also_target: tuple[str, ...] = ()
    """Name of a column of labels of the file --also. Repeat the option for several columns."""
    unit: str = ""
    """Unit of the labels, for example nM, which the report and the page of the service show. The
    cells contain numbers without the unit.
    """
    relation_column: Annotated[
        str, Meta(extra={"default": "the only column whose cells are all relations"})
    ] = ""
    """Column of relations, such as > and =, which say that a label is a limit."""
    error_column: Annotated[str, Meta(extra={"default": "equal errors"})] = ""
    """Column of the standard errors of the labels of the only target, in the unit of the target. A
    label counts less in the training if its error is large.
    """
    weight_column: Annotated[str, Meta(extra={"default": "equal weights"})] = ""
    """Name of a column of weights above 0. A larger weight makes a row count more in the training.
    Use a weight below 1 for uncertain values. The metrics of the report are not weighted.
    """
    task: TargetsTask = "auto"
    """Type of the labels: regression for numbers, classification for two classes, multiclass for
    more than two classes. With auto, labels that are only 0 and 1, or two texts, are two classes,
    and three to twenty texts that each occur at least twice are several classes. All other labels
    are numbers, including whole numbers such as 0, 1 and 2.
    """
    split: str = "random"
    """Rule that divides the molecules into training, validation and test parts. With random,
    molecules are assigned at random. With scaffold, all molecules with the same scaffold are in the
    same part, which makes the test harder. With molecule:NAME, all rows with the same molecule in
    the SMILES column NAME are in the same part, which tests the prediction for a new solvent, for
    example. With butina, all molecules of a cluster of similar fingerprints are in the same part.
    With time, the test part contains the latest times of the column --time. With column:NAME, the
    parts (train, val or test) are read from the column NAME. With FILE.json, the parts are read
    from the file splits.json of another run.
    """
    time: Annotated[str, Meta(extra={"default": "none"})] = ""
    """Column of numbers or dates, such as 2019 or 2024-01-31, for --split time."""
    encoding: Annotated[
        str | None, Meta(extra={"default": "the encoding of the byte order mark, else UTF-8"})
    ] = None
    """Text encoding of the table, for example latin-1. Set it if the table is not UTF-8."""
    skip_bad_labels: bool = False
    """Leave out every label that cannot be read. Without this option, the command stops with an
    error if two or more labels, and more than 5 % of the labels of a target, are texts.
    """
    coverage: Coverage = 0.9
    workers: Annotated[int, Meta(ge=1)] = 2
    """Number of processes that parse SMILES in parallel. Raise it for large tables if the machine
    has more processors.
    """
    threads: Threads = 0
    model: MoleculeSettings = field(default_factory=MoleculeSettings)

    def check(self) -> None:
        """Check the settings of the split and the targets. A single column of SMILES is stored as a
        text. Raises SettingsError for the first settings that exclude each other.
        """
        super().check()
        if isinstance(self.smiles, tuple) and len(self.smiles) == 1:
            object.__setattr__(self, "smiles", self.smiles[0])
        self.model.check_rows(len(self.smiles_columns))
        rule = self.split_rule
        if self.split and rule.problem:
            raise SettingsError(rule.problem)
        if rule.kind == "rule" and rule.name not in RULES:
            raise SettingsError(
                f"split must be {', '.join(RULES)}, molecule:NAME, column:NAME or FILE.json; got "
                f"{self.split!r}"
            )
        if rule.kind == "molecule" and rule.name not in self.smiles_columns:
            raise SettingsError(
                f"split {self.split} must name a column of SMILES; they are "
                f"{', '.join(self.smiles_columns)}"
            )
        if bool(self.time) != (self.split == "time"):
            raise SettingsError(
                f"--split time needs the column --time, which no other split reads; got split "
                f"{self.split} and time {self.time!r}"
            )
        if (self.test or self.validation) and self.split not in RULES:
            raise SettingsError(
                f"--test and --validation define parts, and --split {self.split} does too: "
                "leave out one of them"
            )
        if self.test and self.validation and self.split != "random":
            raise SettingsError(
                f"--test and --validation leave nothing to split; leave out --split {self.split}"
            )
        names = self.label_columns
        if len(set(names)) < len(names):
            raise SettingsError(f"each target must be listed once; got {', '.join(names)}")
        if self.atom_target and self.bond_target:
            raise SettingsError(
                "a run has --atom-target or --bond-target: train one run for the atoms, and "
                "another one for the bonds"
            )
        if bool(self.also) != bool(self.also_target):
            raise SettingsError(
                f"--also names a file and --also-target its columns of labels, so both are needed; "
                f"got also {self.also!r} and also_target {', '.join(self.also_target)!r}"
            )
        if not self.data and (options := self._changed(IN_TABLE)):
            raise SettingsError(f"{options[0]} was set without DATA, the table that has the column")
        if self.model.bounded and self.censored != "refuse":
            raise SettingsError(
                f"loss_function {self.model.loss_function} reads censored labels as limits; leave "
                f"out censored {self.censored}"
            )
        options = [
            *self._changed(OF_MOLECULES),
            *["several --smiles"] * (type(self.smiles) is tuple),
        ]
        if self.level and options:
            raise SettingsError(f"{options[0]} cannot be used with --atom-target or --bond-target")

    def _changed(self, names: Sequence[str]) -> list[str]:
        """Return the options of those settings that do not have their default."""
        defaults = {field.name: field.default for field in fields(self)}
        changed = (name for name in names if getattr(self, name) != defaults[name])
        return [f"--{name.replace('_', '-')}" for name in changed]

    @property
    def level(self) -> str:
        """Level of the labels: ``"atom"``, ``"bond"``, or "" for labels of molecules."""
        return "atom" if self.atom_target else "bond" if self.bond_target else ""

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of the columns of labels."""
        return self.atom_target or self.bond_target or self.target

    @property
    def split_rule(self) -> SplitRule:
        """Value of ``split``, read."""
        return read_rule(self.split)

    @property
    def smiles_columns(self) -> tuple[str, ...]:
        """Names of the SMILES columns, one for each molecule in a row."""
        return (self.smiles,) if isinstance(self.smiles, str) else self.smiles

    @property
    def style(self) -> NumberFormat:
        """Parser for the numbers in the label columns. With a bounded loss, it reads censored
        labels as limits.
        """
        return replace(super().style, censored="limit") if self.model.bounded else super().style

    @property
    def of_related(self) -> RunSettings:
        """Settings by which the file of ``also`` is read."""
        return RunSettings(
            data=self.also, smiles=self.smiles, target=self.also_target, encoding=self.encoding,
            decimal=self.decimal, thousands=self.thousands, censored=self.censored,
            task="regression" if self.task == "regression" else "auto",
            skip_bad_labels=self.skip_bad_labels, workers=self.workers, threads=self.threads,
            model=replace(self.model, target_transform="none"),
        )  # fmt: skip

    @property
    def files(self) -> list[str]:
        """Paths of all files of the run; empty for the built-in data set."""
        if not self.data:
            return []
        return [self.data, *self.more_data, *filter(None, (self.validation, self.test))]

    @property
    def file_parts(self) -> list[str]:
        """Part that each file forms: "val" or "test", and "" for files that are divided."""
        fixed = {"val": self.validation, "test": self.test}
        return [""] * (1 + len(self.more_data)) + [part for part, file in fixed.items() if file]


def override(config: str | Path | None, changes: Mapping[str, object]) -> RunSettings:
    """Return the settings of a configuration file after the changes from the command line.

    Args:
        config: a file that :func:`gattn.apps.fitting.settings.write_toml` wrote; None for the
            defaults.
        changes: settings of the run and of its model by name.

    Returns:
        The settings.

    Raises:
        ValueError: a setting is unknown or out of its range, or the file is not a config file.
        FileNotFoundError: the file does not exist.

    >>> override(None, {"epochs": 5, "split": "scaffold"}).model.epochs
    5
    """
    return updated(RunSettings() if config is None else read_toml(RunSettings, config), changes)
