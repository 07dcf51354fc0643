"""The report and the plots of a run of molecules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import LabelledMolecules
from gattn.molecules.runs.pictures import worst_molecules
from gattn.pipeline.product import Report
from gattn.pipeline.report import report_facts
from gattn.training import sections
from gattn.training.calibration import (
    Reliability,
    interval_reliability,
    probability_reliability,
)
from gattn.training.report import Figure
from gattn.training.run_report import RunFacts, run_report
from gattn.training.sections import TARGETS, Words

if TYPE_CHECKING:
    from gattn.molecules.base import MoleculeEstimator
    from gattn.molecules.runs.train import MoleculeRun

__all__ = ["molecule_report", "part_figures", "run_facts"]


def molecule_report(run: MoleculeRun) -> Report:
    """Return the content of the report page, and its plots by file name without ending."""
    worst = worst_molecules(run.estimator, run.part("test"), run.predictions["test"])
    return run_report(run_facts(run), [worst])


def run_facts(run: MoleculeRun) -> RunFacts:
    """Collect the facts that the report page shows."""
    test, predicted, metrics = run.part("test"), run.predictions["test"], run.metrics
    estimator, source = run.estimator, run.source
    names = ", ".join(estimator.targets_)
    if len(estimator.targets_) > 3:
        names = f"{len(estimator.targets_)} targets"
    return report_facts(
        run,
        run.settings,
        chosen={"target": ", ".join(run.settings.target)},
        title=f"{names} of {Path(source.name).name}",
        summary=(
            f"A {run.settings.model.model} model of {names}, trained on "
            f"{metrics['molecules']['train']:,} molecules; split: {run.split.protocol}."
        ),
        targets=tuple(estimator.targets_),
        y=test.y,
        mean=predicted.mean,
        std=predicted.std,
        histories=estimator.history_,
        reliability=reliability(estimator, test, predicted),
        rows=len(source.smiles),
        errors={row.line or row.row: f"{row.text!r}: {row.reason}" for row in run.molecules.bad},
        by_target=metrics["targets"],
        notes=(*_shares(metrics["weights"]), *run.notes, *_class_names(estimator)),
        decided=source.labels.notes,
        words=_words(estimator),
    )


def _shares(weights: Mapping[str, float]) -> list[str]:
    """Describe the weight of each component of the model, if there are several."""
    if len(weights) < 2:
        return []
    named = {"attention": "attention", "gp": "a Gaussian process on fingerprints and descriptors"}
    clauses = [f"{100 * share:.0f}\u00a0% {named[part]}" for part, share in weights.items()]
    return [f"A prediction is {' and '.join(clauses)}, as the validation part chose."]


def _class_names(estimator: MoleculeEstimator) -> list[str]:
    """Name class 1 of several targets if it is not called 1."""
    named = _named_classes(estimator)
    clauses = [f"class 1 of {t} is “{name}”" for t, name in named.items()]
    return [f"Here {'; '.join(clauses)}."] if clauses and len(estimator.targets_) > 1 else []


def _words(estimator: MoleculeEstimator) -> Words:
    """Return the words of the plots: a single target's class 1 is called by its name."""
    named = _named_classes(estimator)
    if len(estimator.targets_) > 1 or not named:
        return TARGETS
    (name,) = named.values()
    return TARGETS._replace(event=f"“{name}”", positive=f"“{name}”")


def _named_classes(estimator: MoleculeEstimator) -> dict[str, str]:
    """Return the name of class 1 of each target whose class 1 is not called 1."""
    if not isinstance(estimator, MoleculeClassifier):
        return {}
    names = {t: str(kinds[1]) for t, kinds in zip(estimator.targets_, estimator.classes_by_target)}
    return {t: name for t, name in names.items() if name not in ("1", "True")}


def part_figures(
    estimator: MoleculeEstimator, molecules: LabelledMolecules, predicted: Prediction
) -> dict[str, Figure]:
    """Draw the plots of a part by file name: predictions beside labels, and calibration."""
    return sections.part_figures(
        estimator.task, molecules.y, predicted.mean, predicted.std, estimator.targets_,
        reliability(estimator, molecules, predicted), words=_words(estimator),
    )  # fmt: skip


def reliability(
    estimator: MoleculeEstimator, molecules: LabelledMolecules, predicted: Prediction
) -> Reliability:
    """Compare intervals, or probabilities, with the labels of molecules."""
    if isinstance(estimator, MoleculeRegressor):
        mean, std = predicted.mean, predicted.std
        return interval_reliability(molecules.y, mean, std, estimator.calibrator_)
    return probability_reliability(molecules.y, predicted.mean)
