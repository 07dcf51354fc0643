"""The interface between the stages of a run and a product: what molecules and nodes implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from gattn.data import Split
from gattn.pipeline.run_folder import AnyRunSettings
from gattn.training.estimator import SerializableEstimator
from gattn.training.model_io import Json
from gattn.training.report import Figure, ReportContent

__all__ = ["Log", "Parts", "Product", "Report", "TrainedRun", "no_log"]

Log: TypeAlias = Callable[[str], None]
Report: TypeAlias = "tuple[ReportContent, Mapping[str, Figure]]"
Rows: TypeAlias = Iterable[Sequence[object]]


def no_log(line: str) -> None:
    """Discard a line."""


@dataclass(frozen=True, eq=False)
class Parts:
    """The training, validation and test parts of a run.

    Attributes:
        record: content of ``splits.json``, with ``sha256`` of the data.
        left_out: rows of ``left_out.csv``, a header first.
    """

    record: dict[str, Json]
    left_out: Rows


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """A trained model and its evaluation; a product adds what its report needs.

    Attributes:
        estimator: the fitted model.
        split: positions of the rows in the three parts.
        metrics: content of ``metrics.json``.
    """

    estimator: SerializableEstimator
    split: Split
    metrics: dict[str, Any]


Data = TypeVar("Data")
AnyParts = TypeVar("AnyParts", bound=Parts)
Model = TypeVar("Model")
Run = TypeVar("Run", bound=TrainedRun)


class Product(ABC, Generic[Data, AnyParts, Model, Run]):
    """The stages of a run that depend on the product; :func:`gattn.pipeline.train.train_run` calls
    them in the order of the methods.

    Attributes:
        settings: of the run.
        out: folder of the run.
        log: called with each line that the user should read.
        inputs: files that the run reads; none for a built-in data set.
    """

    def __init__(self, settings: AnyRunSettings, out: str | Path, log: Log = no_log) -> None:
        self.settings, self.out, self.log = settings, Path(out), log
        self.inputs: Sequence[str] = ()

    @abstractmethod
    def load(self) -> Data:
        """Read the data with its labels."""

    @abstractmethod
    def split(self, data: Data) -> AnyParts:
        """Divide the data into a training, a validation and a test part."""

    @abstractmethod
    def fit(self, data: Data, parts: AnyParts) -> Model:
        """Train; where the folder holds checkpoints of this run, continue from them."""

    @abstractmethod
    def evaluate(self, data: Data, parts: AnyParts, model: Model) -> Run:
        """Measure the model and the baselines."""

    @abstractmethod
    def report(self, run: Run) -> Report:
        """Return the content of the report page, and its plots by file name without ending."""

    @abstractmethod
    def card(self, run: Run) -> Mapping[str, Json]:
        """Return the entries of ``model.json`` about the data."""

    @abstractmethod
    def tables(self, run: Run) -> Mapping[str, Rows]:
        """Return the rows of each CSV file, a header first, by file name."""
