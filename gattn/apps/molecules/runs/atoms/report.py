"""Report page of a training run whose targets are values of atoms and bonds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.fitting.calibration import coverage_reliability, probability_reliability
from gattn.apps.molecules.atoms.training import one_hot_labels
from gattn.apps.molecules.atoms.values import padded
from gattn.apps.molecules.runs.report import DRAWN, WORST, run_facts, worst_section
from gattn.apps.report.plots.style import number
from gattn.apps.report.report import Section
from gattn.apps.report.run_figures import CLASSES, TARGETS
from gattn.apps.report.run_report import run_report
from gattn.apps.run.product import Report
from gattn.draw import shared_scale

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.train import MoleculeRun

__all__ = ["atom_report"]

PROMISE = (
    "The coverage holds for a random atom or bond of a new molecule, on average over molecules "
    "from the distribution of the validation molecules. Every molecule counts once, however many "
    "atoms it has."
)


def atom_report(run: MoleculeRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    model, targets = run.estimator, run.estimator.targets_
    predicted = run.predictions["test"]
    y, mean, std = _outputs(run)
    is_regression = model.task == "regression"
    if is_regression:

        def interval(coverage: float) -> tuple[Tensor, Tensor]:
            lower, upper = model.predictor_.interval(predicted, coverage)
            return padded(lower.rows, targets), padded(upper.rows, targets)

        curve = coverage_reliability(y, interval)
    else:
        curve = probability_reliability(y, mean.clamp(0, 1))
    facts = run_facts(
        run, notes=(*_shares(run), *run.notes), y=y, mean=mean, std=std, reliability=curve,
        words=CLASSES if model.task == "multiclass" else TARGETS, promise=PROMISE,
    )  # fmt: skip
    return run_report(facts, _worst_molecules(run) if is_regression and targets.atom else ())


def _outputs(run: MoleculeRun) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels, means and standard deviations of all targets as adjacent columns, [r,
    outputs].

    For several classes the outputs are the classes of all targets, otherwise the targets.
    """
    model, predicted = run.estimator, run.predictions["test"]
    targets, width = model.targets_, model.predictor_.width
    labels = {k: one_hot_labels(y, width) for k, y in run.part("test").y.rows.items()}
    y, mean, std = (
        padded(values, targets) for values in (labels, predicted.mean.rows, predicted.std.rows)
    )
    if width == 1:
        return y[..., 0], mean[..., 0], std
    counts = torch.tensor([len(kinds) for kinds in model.classes_by_target])
    chosen = torch.arange(width) < counts[:, None]
    return y[:, chosen], mean[:, chosen], std[..., None].expand_as(mean)[:, chosen]


def _shares(run: MoleculeRun) -> list[str]:
    """Return a sentence on the weights of the components."""
    if run.settings.model.model != "stacked":
        return []
    clauses = [
        f"{100 * share['attention']:.0f}\u00a0% attention for {name}"
        for name, share in list(run.metrics["weights"].items())[:5]
    ]
    return [
        f"A prediction is a weighted mean of attention and of the mean of equal environments: "
        f"{', '.join(clauses)}. The weights were fitted on the validation part."
    ]


def _worst_molecules(run: MoleculeRun) -> list[Section]:
    """Draw the molecules with the largest errors; colours show the errors of their atoms."""
    from gattn.data.molecules.plain import plain
    from gattn.data.molecules.smiles import parse_any_size

    test, names = run.part("test"), run.estimator.targets_.atom
    y, sizes = test.y.rows["atom"], test.y.ptr["atom"].diff().tolist()
    error = run.predictions["test"].numbers.rows["atom"] - y
    scale = (y - y.nanmean(0)).square().nanmean(0).sqrt()
    relative = (error / torch.where(scale > 0, scale, 1.0)).square().nan_to_num(0.0)
    total = torch.zeros(len(test), len(names), dtype=torch.float64)
    worst, target = total.index_add_(0, test.y.owners("atom"), relative).max(1)
    order = worst.argsort(descending=True, stable=True).tolist()
    rows = [row for row in order if worst[row] > 0 and sizes[row] <= DRAWN][:WORST]
    pictures, captions = [], []
    for row in rows:
        text, place = test.inputs.molecules.smiles[row].split()[0], int(target[row])
        # Only these atoms are drawn, not the hydrogens of the graph.
        heavy = plain(parse_any_size(text), text).GetNumAtoms()
        weights = error[:, place].split(sizes)[row].nan_to_num(0.0)[:heavy]
        pictures.append((text, weights, text))
        captions.append(f"{names[place]}, largest error {number(float(weights.abs().max()))}")
    text = (
        "The molecules of the test part with the largest errors of their atoms. A disc shows the "
        "error of an atom: orange if the prediction is too high, blue if it is too low.",
    )
    common = shared_scale([weights for _, weights, _ in pictures])
    return [worst_section(text, pictures, captions, common, "predicted - measured")]
