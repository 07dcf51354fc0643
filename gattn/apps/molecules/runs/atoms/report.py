"""Report page of a training run whose targets are values of atoms and bonds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gattn.apps.fitting.calibration import interval_reliability, probability_reliability
from gattn.apps.molecules.runs.atoms.measure import side_by_side
from gattn.apps.molecules.runs.splits import split_text
from gattn.apps.report.plots.style import number
from gattn.apps.report.report import Section
from gattn.apps.report.run_figures import CLASSES, TARGETS, sheet_legend, themed
from gattn.apps.report.run_report import run_report
from gattn.apps.run.product import Report
from gattn.apps.run.report import report_facts
from gattn.apps.run.text import plural
from gattn.draw import draw_molecule, shared_scale

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.atoms.train import AtomRun

__all__ = ["atom_report"]

WORST = 12
"""Number of molecules that the report page shows, those with the largest errors."""
DRAWN = 100
"""Maximum number of atoms in a molecule that the report draws."""
SIZE = 320, 240


def atom_report(run: AtomRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    model, metrics = run.estimator, run.metrics
    test, predicted = run.part("test"), run.predictions["test"]
    y, mean, std = side_by_side(model, test.y, predicted)
    names = ", ".join(model.targets_.names[:3])
    is_regression = model.task == "regression"
    if is_regression:
        curve = interval_reliability(y, mean, std, _Calibrator(run))  # type: ignore[arg-type]
    else:
        curve = probability_reliability(y, mean.clamp(0, 1))
    facts = report_facts(
        run,
        run.settings,
        chosen={},
        title=f"{names} of {Path(run.data.source.name).name}",
        summary=(
            f"A {run.settings.model.model} model of {names}, trained on "
            f"{plural(metrics['molecules']['train'], 'molecule')}; split: "
            f"{split_text(run.split.protocol, run.estimator.row_format)}."
        ),
        targets=tuple(_columns(run)),
        y=y,
        mean=mean,
        std=std,
        histories=model.history_,
        reliability=curve,
        rows=len(run.data.source.smiles),
        errors={r.line or r.row: f"{r.text!r}: {r.reason}" for r in run.data.labelled.bad},
        by_target=metrics["targets"],
        notes=(*_shares(run), *run.notes),
        words=CLASSES if model.task == "multiclass" else TARGETS,
    )
    if facts.intervals is not None:
        promise = (
            "The coverage holds for a random atom or bond of a new molecule, on average over "
            "molecules from the distribution of the validation molecules. Every molecule counts "
            "once, however many atoms it has."
        )
        object.__setattr__(facts.intervals, "promise", promise)
    return run_report(facts, _worst_molecules(run) if is_regression else ())


class _Calibrator:
    """Intervals of all targets as adjacent columns, for the calibration curve."""

    def __init__(self, run: AtomRun) -> None:
        self.scores = run.estimator.predictor_.scores

    def interval(
        self, mean: Tensor, std: Tensor, *, coverage: float = 0.9
    ) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper ends of the intervals, [r, t] each."""
        half = torch.tensor([each.quantile(coverage) for each in self.scores]) * std
        return mean - half, mean + half


def _columns(run: AtomRun) -> list[str]:
    model = run.estimator
    if model.task != "multiclass":
        return model.targets_.names
    pairs = zip(model.targets_.names, model.coding_.classes)
    return [f"{name} {kind}" for name, kinds in pairs for kind in kinds]


def _shares(run: AtomRun) -> list[str]:
    """Return sentences on the weights of the components, and on their errors."""
    if run.settings.model.model != "stacked":
        return []
    weights = run.metrics["weights"]
    clauses = [
        f"{100 * share['attention']:.0f}\u00a0% attention for {name}"
        for name, share in list(weights.items())[:5]
    ]
    sentence = (
        f"A prediction is a weighted mean of attention and of the mean of equal environments: "
        f"{', '.join(clauses)}. The weights were fitted on the validation part."
    )
    metric = next(iter(run.metrics["test"]))
    parts = ", ".join(
        f"{name} {number(scores[metric])}" for name, scores in run.metrics["parts"].items()
    )
    return [sentence, f"The parts alone on the test part, {metric}: {parts}."]


def _worst_molecules(run: AtomRun) -> list[Section]:
    """Draw the molecules with the largest errors; colours show the errors of their atoms."""
    model, test = run.estimator, run.part("test")
    names = model.targets_.atom
    if not names:
        return []
    predicted = run.predictions["test"].mean
    error = predicted.rows["atom"][..., 0] - test.y.rows["atom"]
    scale = (test.y.rows["atom"] - test.y.rows["atom"].nanmean(0)).square().nanmean(0).sqrt()
    relative = (error / torch.where(scale > 0, scale, 1.0)).square().nan_to_num(0.0)
    owners = test.y.owners("atom")
    total = torch.zeros(len(test), len(names), dtype=torch.float64)
    total.index_add_(0, owners, relative)
    worst, target = total.max(1)
    rows = [
        row
        for row in worst.argsort(descending=True, stable=True).tolist()
        if worst[row] > 0 and int(test.y.ptr["atom"].diff()[row]) <= DRAWN
    ][:WORST]
    texts = [test.inputs.molecules.smiles[row].split()[0] for row in rows]
    columns = {t: error[:, t].split(test.y.ptr["atom"].diff().tolist()) for t in range(len(names))}
    weights = []
    for row, text in zip(rows, texts):
        values = columns[int(target[row])][row].nan_to_num(0.0)
        weights.append(values[: _heavy(text)])
    style: dict[str, Any] = {
        "scale": shared_scale(weights), "size": SIZE, "label": None
    }  # fmt: skip
    figures = tuple(
        themed(
            partial(draw_molecule, text, weight, **style),
            f"The structure of {text} with the error of each atom",
            f"{names[int(target[row])]}, largest error {number(float(weight.abs().max()))}\n{text}",
        )
        for row, text, weight in zip(rows, texts, weights)
    )
    if figures:
        figures += (sheet_legend(style["scale"], "predicted - measured"),)
    sentence = (
        "The molecules of the test part with the largest errors of their atoms. A disc shows the "
        "error of an atom: orange if the prediction is too high, blue if it is too low."
    )
    return [Section("Largest errors", (sentence,), figures=figures, gallery=True)]


def _heavy(smiles: str) -> int:
    """Return the number of atoms that a picture shows."""
    from gattn.data.molecules.plain import plain
    from gattn.data.molecules.smiles import parse_any_size

    return plain(parse_any_size(smiles), smiles).GetNumAtoms()
