"""Settings of a screening, which are the options of ``gattn molecules predict`` for many tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from gattn.apps.fitting.settings import Settings, SettingsError, document
from gattn.files import has_table_ending

JOB = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@document
@dataclass(frozen=True, kw_only=True)
class ScreenSettings(Settings):
    """Settings of a screening: which rows to write, and how to divide the work.

    Attributes:
        {settings}

    Raises:
        SettingsError: a value is out of its range, or two settings contradict each other.
    """

    panel: ClassVar[str] = "Many files (--out is a folder)"

    where: Annotated[str, Meta(extra={"default": "write all rows"})] = ""
    """Condition that a row must meet to be written, for example 'prediction > 7 and std < 0.5'. It
    may use the columns of the output.
    """
    top: Annotated[int, Meta(extra={"default": "all rows"})] = 0
    """Number of best rows to write, at least 1. The best rows of all files are in top.csv, in
    order.
    """
    by: Annotated[str, Meta(extra={"default": "prediction; the probability for classes"})] = ""
    """Expression that is computed from the columns of a row. --top keeps the rows with the largest
    values, for example '-prediction' keeps the lowest predictions.
    """
    keep: Annotated[
        tuple[str, ...], Meta(extra={"default": "the columns that all inputs have"})
    ] = ()
    """Column of the input to copy to the output; repeat it for several, or set it to "" for none.
    """
    rows_per_shard: Annotated[int, Meta(ge=1)] = 16_384
    """Number of rows of a shard, the part of an input that is written at once. After an
    interruption, the rows of an unfinished shard are predicted again.
    """
    shard: Annotated[str, Meta(extra={"default": "0/1, all of the work"})] = ""
    """Part of the work that this job does, written as I/N with I from 0 to N-1, for example 0/4.
    Start N jobs with the same --out on one or several machines.
    """
    engine: Literal["local", "ray"] = "local"
    """Processes that compute the predictions. With local, --workers processes are started on this
    machine. With ray, the machines of a Ray cluster are used, which needs the extra ray.
    """

    def check(self) -> None:
        """Check the job number and the settings of the ranking. Raises SettingsError otherwise."""
        index, count = self.job
        if not 0 <= index < count:
            raise SettingsError(
                f"shard must be I/N with I from 0 to N-1, for example 0/4; got {self.shard!r}"
            )
        if self.by and not self.top:
            raise SettingsError("by ranks the rows of --top, which is not set")
        names = [name for name in self.keep if name]
        if len(set(names)) < len(names):
            raise SettingsError(f"each column to keep must be listed once; got {', '.join(names)}")

    @property
    def job(self) -> tuple[int, int]:
        """Index of this job, and number of jobs; (0, 0) if the setting does not have this form."""
        match = JOB.fullmatch(self.shard or "0/1")
        return (int(match[1]), int(match[2])) if match else (0, 0)


def is_screening(inputs: Sequence[str], out: str, settings: Mapping[str, Any]) -> bool:
    """Return True if predictions are written to a folder of shards instead of one file.

    This is so if ``out`` has no ending of a table, if there are several inputs, a folder or a
    pattern, or if a setting of :class:`ScreenSettings` is set.

    Args:
        inputs: the inputs of the command.
        out: the value of ``--out``.
        settings: the settings that the user set, by name.

    >>> is_screening(["a.csv"], "out.csv", {}), is_screening(["a.csv"], "out/", {})
    (False, True)
    >>> is_screening(["a.smi"], "out.parquet", {}), is_screening(["a.csv"], "o.csv", {"top": 9})
    (False, True)
    """
    if len(inputs) != 1 or Path(out).is_dir() or out.endswith("/") or not has_table_ending(out):
        return True
    if any(field.name in settings for field in fields(ScreenSettings)):
        return True
    path = Path(inputs[0])
    if path.is_dir():
        return True
    return not path.exists() and any(sign in inputs[0] for sign in "*?[")
