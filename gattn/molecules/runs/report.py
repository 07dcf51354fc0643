"""The report and the plots of a run of molecules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gattn.molecules.estimators import MoleculeRegressor
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import Labelled
from gattn.molecules.runs.pictures import worst_molecules
from gattn.training import plots
from gattn.training.calibration import (
    Reliability,
    interval_reliability,
    probability_reliability,
)
from gattn.training.report import Cell, Figure, write_report
from gattn.training.run_report import Intervals, RunFacts, run_report
from gattn.training.runs import read_model
from gattn.training.sections import classification_figures, regression_figures, themed

if TYPE_CHECKING:
    from gattn.molecules.base import MoleculeEstimator
    from gattn.molecules.runs.train import Run

__all__ = ["part_figures", "run_facts", "write_plots", "write_run_report"]


def write_run_report(out: Path, run: Run) -> None:
    """Write ``report.html``, ``report.json`` and ``plots/*.png`` of a run."""
    worst = worst_molecules(run.estimator, run.part("test"), run.predictions["test"])
    versions = read_model(out)[1]["versions"]
    content, figures = run_report(run_facts(run, cast("dict[str, str]", versions)), [worst])
    write_plots(out / "plots", figures)
    write_report(out, content)


def write_plots(folder: Path, figures: Mapping[str, Figure]) -> None:
    """Write the figures of a report, as they are on a light page, as PNG."""
    folder.mkdir(exist_ok=True)
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(figure.picture)


def run_facts(run: Run, versions: Mapping[str, str]) -> RunFacts:
    """What the report says of a run that was made with certain versions."""
    test, made, metrics = run.part("test"), run.predictions["test"], run.metrics
    estimator, source, parts = run.estimator, run.source, metrics["molecules"]
    numbers = estimator.task == "regression"
    return RunFacts(
        title=", ".join(estimator.targets_),
        summary=(
            f"A model ({run.settings.model.model}) of {', '.join(estimator.targets_)}, trained on "
            f"{parts['train']:,} molecules of {source.name}; split: {run.split.protocol}."
        ),
        item="molecules",
        task=estimator.task,
        targets=tuple(estimator.targets_),
        metrics=metrics["test"],
        validation=metrics["val"],
        baselines={name.replace("_", " "): v for name, v in metrics["baselines"].items()},
        y=test.y,
        mean=made.mean,
        std=made.std if numbers else None,
        histories=estimator.history_,
        reliability=reliability(run.estimator, test, made),
        intervals=_intervals(metrics["intervals"]),
        parts={part: parts[part] for part in ("train", "val", "test")},
        rows=len(source.smiles),
        errors={row.row: row.reason for row in run.known.bad},
        settings=_settings(run),
        versions=versions,
        notes=tuple(run.notes),
    )


def part_figures(
    estimator: MoleculeEstimator, known: Labelled, made: Prediction
) -> dict[str, Figure]:
    """The plots of a part by file name: predictions beside labels, and calibration."""
    names, found = estimator.targets_, reliability(estimator, known, made)
    if estimator.task == "regression":
        figures = regression_figures(known.y, made.mean, made.std, names)
        draw = plots.coverage
    else:
        figures = classification_figures(known.y, made.mean, names)
        draw = plots.reliability
    name = names[0] if len(names) == 1 else f"{len(names)} targets"
    return figures | {"calibration": themed(partial(draw, found, name=name), "Calibration")}


def reliability(estimator: MoleculeEstimator, known: Labelled, made: Prediction) -> Reliability:
    """Whether intervals, or probabilities, keep their word on labelled molecules."""
    if isinstance(estimator, MoleculeRegressor):
        return interval_reliability(known.y, made.mean, made.std, estimator.calibrator_)
    return probability_reliability(known.y, made.mean)


def _intervals(measured: Mapping[str, float]) -> Intervals:
    return Intervals(
        coverage=measured["coverage"],
        found=measured["held"],
        width=measured.get("mean_width", measured.get("mean_size", float("nan"))),
        constant_width=measured.get("constant_width"),
    )


def _settings(run: Run) -> dict[str, Cell]:
    flat: dict[str, Any] = asdict(run.settings)
    flat |= flat.pop("model")
    flat["target"] = ", ".join(flat["target"])
    return {name: str(value) if isinstance(value, bool) else value for name, value in flat.items()}
