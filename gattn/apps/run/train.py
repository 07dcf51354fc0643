"""Training run of any type, from reading the data to a folder with the model, the metrics and
the report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from gattn.apps.report.report import Cell, Figure, ReportContent, write_report
from gattn.apps.report.run_report import RunFacts, write_plots
from gattn.apps.run import run_folder
from gattn.apps.run.estimator import SerializableEstimator
from gattn.apps.run.measure import PARTS
from gattn.apps.run.model_io import Json, package_versions, write_model
from gattn.apps.run.notes import interval_notes, metric_notes
from gattn.data import Split
from gattn.files import write_rows

PROMISE = (
    "The coverage holds on average over rows from the distribution of the validation rows, not for "
    "each single row or for rows of another kind."
)


def report_facts(
    run: TrainedRun, *, chosen: Mapping[str, Cell], promise: str = PROMISE,
    notes: tuple[str, ...] = (), **special: Any,
) -> RunFacts:  # fmt: skip
    """Collect the results and settings of a run for its report.

    Args:
        run: the trained and evaluated model.
        chosen: values of settings that were chosen from the data; they replace those in the
            settings of the run.
        promise: sentence on the rows to which the coverage of the intervals applies.
        notes: sentences below those on the metrics.
        **special: the other fields of :class:`gattn.apps.report.run_report.RunFacts`.

    Returns:
        The content of the report.
    """
    metrics, item = run.metrics, run.estimator.item
    values: dict[str, Any] = asdict(run.settings)
    values |= values.pop("model")
    about_intervals = interval_notes(metrics, item)
    return RunFacts(
        item=metrics.get("item", item),
        task=run.estimator.task,
        metrics=metrics,
        parts={part: metrics[item][part] for part in PARTS},
        settings={name: _cell(value) for name, value in values.items()} | dict(chosen),
        versions=package_versions(),
        notes=(*metric_notes(metrics, item), *notes),
        interval_notes=(*about_intervals, promise) if about_intervals else (),
        **special,
    )


def _cell(value: Any) -> Any:
    """Return the value of a setting as a table cell; a tuple becomes one text with commas, and a
    bool a text.
    """
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, bool) else value


Log: TypeAlias = Callable[[str], None]
Report: TypeAlias = "tuple[ReportContent, Mapping[str, Figure]]"
Rows: TypeAlias = Iterable[Sequence[object]]


def no_log(line: str) -> None:
    """Discard a line of output; this is the default of :class:`Product`'s argument ``log``."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Training, validation and test parts of a run.

    Attributes:
        record: content of ``splits.json``, with the SHA-256 of the data under ``sha256``.
        left_out: rows of ``left_out.csv``; the first row is the header.
    """

    record: dict[str, Json]
    left_out: Rows


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """Trained model and its evaluation. Subclasses add the fields that their report needs.

    Attributes:
        estimator: the fitted model.
        split: indices of the rows in the training, validation and test parts.
        metrics: content of ``metrics.json``.
        settings: settings of the run, a dataclass with a nested dataclass in the field ``model``.
    """

    estimator: SerializableEstimator
    split: Split
    metrics: dict[str, Any]
    settings: Any


Data = TypeVar("Data")
AnyParts = TypeVar("AnyParts", bound=Parts)
Model = TypeVar("Model")
Run = TypeVar("Run", bound=TrainedRun)


class Product(ABC, Generic[Data, AnyParts, Model, Run]):
    """Base class of the training runs; each subclass implements one type of data.

    :func:`gattn.apps.run.train.train_run` calls the methods in the order of their definition.

    Attributes:
        settings: settings of the run.
        out: folder of the run.
        log: function that is called with each line of output for the user.
        inputs: files that the run reads, by the key of their hash in ``splits.json``; no files for
            a built-in data set.
    """

    def __init__(
        self, settings: run_folder.AnyRunSettings, out: str | Path, log: Log = no_log
    ) -> None:
        self.settings, self.out, self.log = settings, Path(out), log
        self.inputs: Mapping[str, Sequence[str]] = {}

    @abstractmethod
    def load(self) -> Data:
        """Read the data and the labels."""

    @abstractmethod
    def split(self, data: Data) -> AnyParts:
        """Divide the data into training, validation and test parts."""

    @abstractmethod
    def fit(self, data: Data, parts: AnyParts) -> Model:
        """Train a model. If the run's folder contains checkpoints, continue from them."""

    @abstractmethod
    def evaluate(self, data: Data, parts: AnyParts, model: Model) -> Run:
        """Compute the metrics of the model and of the baselines."""

    @abstractmethod
    def report(self, run: Run) -> Report:
        """Return the content of the report page, and a dictionary of its plots (the keys are
        file names without suffix). Raises ImportError if a package that draws them is missing.
        """

    @abstractmethod
    def card(self, run: Run) -> Mapping[str, Json]:
        """Return the entries of ``model.json`` that describe the data."""

    @abstractmethod
    def tables(self, run: Run) -> Mapping[str, Rows]:
        """Return additional CSV files as a dictionary from file names to rows; the first row is
        the header.
        """


def train_run(product: Product[Data, AnyParts, Model, Run]) -> dict[str, Any]:
    """Run all stages of a training run in order: load, split, fit, evaluate, report, write.

    If the folder already contains this run and the run is finished, nothing is changed.

    Args:
        product: the stages that depend on the product, with the settings and the folder.

    Returns:
        The content of ``metrics.json``.

    Raises:
        RunError: the folder contains another run, or other files.
        ValueError: the settings or the data are not suitable for training.
        OSError: a file cannot be read or written.
        ImportError: a package that reads the data or draws the report is missing.
    """
    with run_folder.lock_folder(product.out):
        return _train(product)


def _train(product: Product[Data, AnyParts, Model, Run]) -> dict[str, Any]:
    """Train a model, write the run into its folder and return the metrics.

    If the folder already contains this run, and it is finished, its metrics are returned. Raises
    RunError if the folder contains another run or other files, ValueError for unsuitable data,
    OSError if a file cannot be read or written, ImportError if a package is missing, and the errors
    of the stages.
    """
    out = product.out
    metrics = run_folder.finished_metrics(out, product.settings, product.inputs)
    if metrics is not None:
        product.log(f"{out} already contains this run, and it is finished: nothing to do")
        return metrics
    data = product.load()
    parts = product.split(data)
    run_folder.start_run(out, product.settings, parts.record, parts.left_out)
    model = product.fit(data, parts)
    run = product.evaluate(data, parts, model)
    _write_run(product, run, product.report(run))
    return run.metrics


def _write_run(product: Product[Data, AnyParts, Model, Run], run: Run, report: Report) -> None:
    """Write the files of a run; the metrics are written last, because they mark the run as
    finished. Raises OSError if a file cannot be written.
    """
    out = product.out
    tensors, card = run.estimator.state()
    card |= {**product.card(run), "split": run.split.protocol, "metrics": run.metrics}
    for name, rows in product.tables(run).items():
        write_rows(out / name, rows)
    content, figures = report
    write_plots(out / "plots", figures)
    write_report(out, content)
    files = {
        path.relative_to(out).as_posix(): run_folder.file_hash(path)
        for path in sorted(out.rglob("*"))
        if path.is_file() and run_folder.CHECKPOINTS not in path.parts
    }
    write_model(out, tensors, card, files)
    run_folder.finish_run(out, run.metrics)
