"""The report and the plots of a run of molecules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import Labelled
from gattn.molecules.runs.pictures import worst_molecules
from gattn.training import sections
from gattn.training.calibration import (
    Reliability,
    interval_reliability,
    probability_reliability,
)
from gattn.training.report import Cell, Figure, write_report
from gattn.training.run_report import Intervals, RunFacts, run_report
from gattn.training.runs import read_model
from gattn.training.sections import TARGETS, Words, write_plots

if TYPE_CHECKING:
    from gattn.molecules.base import MoleculeEstimator
    from gattn.molecules.runs.train import Run

__all__ = ["part_figures", "run_facts", "write_run_report"]


def write_run_report(out: Path, run: Run) -> None:
    """Write ``report.html``, ``report.json`` and ``plots/*.png`` of a run."""
    worst = worst_molecules(run.estimator, run.part("test"), run.predictions["test"])
    versions = read_model(out)[1]["versions"]
    content, figures = run_report(run_facts(run, cast("dict[str, str]", versions)), [worst])
    write_plots(out / "plots", figures)
    write_report(out, content)


def run_facts(run: Run, versions: Mapping[str, str]) -> RunFacts:
    """What the report says of a run that was made with certain versions."""
    test, made, metrics = run.part("test"), run.predictions["test"], run.metrics
    estimator, source, parts = run.estimator, run.source, metrics["molecules"]
    names = ", ".join(estimator.targets_)
    if len(estimator.targets_) > 3:
        names = f"{len(estimator.targets_)} targets"
    return RunFacts(
        title=f"{names} of {Path(source.name).name}",
        summary=(
            f"A {run.settings.model.model} model of {names}, trained on {parts['train']:,} "
            f"molecules; split: {run.split.protocol}."
        ),
        item="molecules",
        task=estimator.task,
        targets=tuple(estimator.targets_),
        metrics=metrics["test"],
        validation=metrics["val"],
        baselines=metrics["baselines"],
        y=test.y,
        mean=made.mean,
        std=made.std,
        histories=estimator.history_,
        reliability=reliability(run.estimator, test, made),
        intervals=_intervals(metrics["intervals"]),
        parts={part: parts[part] for part in ("train", "val", "test")},
        rows=len(source.smiles),
        errors={row.line or row.row: f"{row.text!r}: {row.reason}" for row in run.known.bad},
        settings=_settings(run),
        versions=versions,
        by_target=metrics["targets"],
        undefined=metrics["undefined"],
        notes=(*_shares(metrics["weights"]), *run.notes, *_class_names(estimator)),
        decided=source.labels.notes,
        words=_words(estimator),
    )


def _shares(weights: Mapping[str, float]) -> list[str]:
    """A sentence that says how much each part gives to a prediction, where there are several."""
    if len(weights) < 2:
        return []
    named = {"attention": "attention", "gp": "a kernel ridge on fingerprints and descriptors"}
    told = [f"{100 * share:.0f}\u00a0% {named[part]}" for part, share in weights.items()]
    return [f"A prediction is {' and '.join(told)}, as the validation part chose."]


def _class_names(estimator: MoleculeEstimator) -> list[str]:
    """A sentence that says what class 1 of several targets is called, where that is not 1."""
    named = _named_classes(estimator)
    told = [f"class 1 of {t} is “{name}”" for t, name in named.items()]
    return [f"Here {'; '.join(told)}."] if told and len(estimator.targets_) > 1 else []


def _words(estimator: MoleculeEstimator) -> Words:
    """What the plots call class 1: by its name where there is one target, and it has a name."""
    named = _named_classes(estimator)
    if len(estimator.targets_) > 1 or not named:
        return TARGETS
    (name,) = named.values()
    return TARGETS._replace(event=f"“{name}”", positive=f"“{name}”")


def _named_classes(estimator: MoleculeEstimator) -> dict[str, str]:
    """The name of class 1 of each target where that is not 1."""
    if not isinstance(estimator, MoleculeClassifier):
        return {}
    names = {t: str(kinds[1]) for t, kinds in zip(estimator.targets_, estimator.classes_by_target)}
    return {t: name for t, name in names.items() if name not in ("1", "True")}


def part_figures(
    estimator: MoleculeEstimator, known: Labelled, made: Prediction
) -> dict[str, Figure]:
    """The plots of a part by file name: predictions beside labels, and calibration."""
    found = reliability(estimator, known, made)
    return sections.part_figures(
        estimator.task, known.y, made.mean, made.std, estimator.targets_, found,
        words=_words(estimator),
    )  # fmt: skip


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
        in_every_set=int(measured.get("in_every_set", 0)),
    )


def _settings(run: Run) -> dict[str, Cell]:
    flat: dict[str, Any] = asdict(run.settings)
    flat |= flat.pop("model")
    flat["target"] = ", ".join(flat["target"])
    return {name: str(value) if isinstance(value, bool) else value for name, value in flat.items()}
