"""Report page and plots of a training run for molecules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.calibration import (
    Reliability,
    coverage_reliability,
    probability_reliability,
)
from gattn.apps.molecules.estimators import MoleculeClassifier
from gattn.apps.molecules.explain import class_probability
from gattn.apps.molecules.row_format import drawn_smiles
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.splits import split_text
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.report.report import Figure, Section, Table
from gattn.apps.report.run_report import (
    CLASSES,
    TARGETS,
    RunFacts,
    Words,
    part_figures,
    run_report,
)
from gattn.apps.run.train import PROMISE, Report, report_facts
from gattn.draw import draw_molecule

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.stages import MoleculeRun

ATOMS = (
    "The coverage holds for a random atom or bond of a new molecule, on average over molecules "
    "from the distribution of the validation molecules. Every molecule counts once, however many "
    "atoms it has."
)
WORST = 12
"""Number of molecules that the report page shows, those with the largest errors."""
DRAWN = 100
"""Maximum number of atoms in a molecule that the report draws; larger pictures are unreadable."""
SIZE = 280, 200
"""Width and height of a molecule's picture, in pixels."""
COMPONENTS = {
    "attention": "graph neural network with attention over the bonds",
    "gp": "Gaussian process on fingerprints and descriptors",
    "forest": "forest of trees on fingerprints and descriptors",
    "environments": "mean label of the atoms or bonds with the same environment",
}
"""Descriptions of the components of a stacked model."""


def molecule_report(run: MoleculeRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    test, predicted = run.part("test"), run.predictions["test"]
    estimator = run.estimator
    notes = [*run.notes, *_class_names(estimator), *_transforms(estimator)]
    if reason := estimator.predictor_.without_forest:
        notes.append(f"The model has no forest of trees: {reason}.")
    facts = run_facts(
        run, run.settings.unit, notes=notes, y=estimator.outputs_of(test.y),
        mean=predicted.mean, std=predicted.std, reliability=reliability(estimator, test, predicted),
        words=_words(estimator), logarithmic=_logarithmic(estimator),
        promise=ATOMS if estimator.level_ else PROMISE,
    )  # fmt: skip
    largest = [] if estimator.level_ else [_worst_molecules(run)]
    return run_report(facts, [*_components(run), *largest])


def _components(run: MoleculeRun) -> list[Section]:
    """Return the section on the weights of the models in a stack; none for a single model."""
    weights = run.metrics["weights"]
    if len(weights) < 2:
        return []
    text = (
        "The prediction is a weighted mean of these models. The weights were fitted to molecules "
        "on which the models were not trained; a model with the weight 0 does not improve the "
        "others there."
    )
    # With several targets, a component has a weight for each.
    means = {name: float(np.mean(weight)) for name, weight in weights.items()}
    rows = tuple((name, COMPONENTS[name], weight) for name, weight in means.items())
    return [Section("Components", (text,), (Table(("component", "description", "weight"), rows),))]


def run_facts(run: MoleculeRun, unit: str = "", **special: Any) -> RunFacts:
    """Return the results that the report page shows: metrics, settings and predictions.

    Args:
        run: the run.
        unit: unit of the labels; "" if it is not known.
        **special: the predictions and sentences, by the name of the field.
    """
    model, source, names = run.estimator, run.data.source, [*run.metrics["targets"]]
    title = ", ".join(names) if len(names) <= 3 else f"{len(names)} targets"
    count = model.row_format.count(run.metrics["molecules"]["train"])
    return report_facts(
        run,
        run.settings,
        chosen={"target": ", ".join(run.settings.label_columns)},
        title=f"{title} of {Path(source.name).name}",
        summary=(
            f"A {run.settings.model.model} model of {title}, trained on {count}; split: "
            f"{split_text(run.split.protocol, model.row_format)}."
        ),
        targets=tuple(output_names(model, names, unit)),
        histories=model.history_,
        rows=len(source.smiles),
        errors={r.line or r.row: f"{r.text!r}: {r.reason}" for r in run.data.molecules.bad},
        decided=source.labels.notes,
        **special,
    )


def _class_names(estimator: Any) -> list[str]:
    """Return a sentence that names class 1 of each target, if there are several targets."""
    named = _named_classes(estimator)
    clauses = [f"class 1 of {t} is “{name}”" for t, name in named.items()]
    return [f"Here {'; '.join(clauses)}."] if clauses and len(estimator.targets_) > 1 else []


def _transforms(estimator: Any) -> list[str]:
    """Return a sentence on the transforms of the targets, if there is one."""
    if estimator.level_:
        return []
    scales = [estimator.scale_of(i) for i in range(len(estimator.targets_))]
    if scales == list(map(str, estimator.targets_)):
        return []
    return [
        f"The model is trained on {', '.join(scales)}. Predictions, intervals and errors are in "
        "the original unit; a prediction is the median, and attributions are on the scale of the "
        "training."
    ]


def _logarithmic(estimator: Any) -> bool:
    """Return True if the targets are plotted on logarithmic axes."""
    return not estimator.level_ and estimator.predictor_.transform.name == "log10"


def _words(estimator: Any) -> Words:
    """Return the words for the plots' labels, for example the name of class 1."""
    if estimator.class_counts:
        return CLASSES
    named = _named_classes(estimator)
    if len(estimator.targets_) > 1 or not named:
        return TARGETS
    (name,) = named.values()
    return TARGETS._replace(event=f"“{name}”")


def _named_classes(estimator: Any) -> dict[str, str]:
    """Return the name of class 1 for each target whose class 1 is not named 1."""
    if estimator.task != "classification":
        return {}
    names = {t: str(kinds[1]) for t, kinds in zip(estimator.targets_, estimator.classes_by_target)}
    return {t: name for t, name in names.items() if name not in ("1", "True")}


def evaluation_figures(
    estimator: Any,
    molecules: LabelledMolecules,
    predicted: Prediction,
    unit: str = "",
) -> dict[str, Figure]:
    """Return the plots of one part by file name: predictions against labels, and calibration.

    ``unit`` is the unit of the numbers in the columns of labels; "" if it is not known.
    """
    names = output_names(estimator, estimator.targets_, unit)
    return part_figures(
        estimator.task, estimator.outputs_of(molecules.y), predicted.mean, predicted.std, names,
        reliability(estimator, molecules, predicted),
        words=_words(estimator), logarithmic=_logarithmic(estimator),
    )  # fmt: skip


def output_names(model: Any, targets: Sequence[str], unit: str) -> list[str]:
    """Return the names of the targets with their unit; if the task is multiclass, the names of the
    outputs.
    """
    if model.task == "regression" and unit:
        return [f"{target} ({unit})" for target in targets]
    if model.task != "multiclass":
        return list(targets)
    several = len(targets) > 1
    return [
        f"{target} {kind}" if several else str(kind)
        for target, kinds in zip(targets, model.classes_by_target)
        for kind in kinds
    ]


def reliability(estimator: Any, molecules: LabelledMolecules, predicted: Prediction) -> Reliability:
    """Measure the calibration of prediction intervals or probabilities on labelled molecules."""
    if estimator.task == "regression":
        return coverage_reliability(molecules.y, partial(estimator.intervals, predicted))
    return probability_reliability(estimator.outputs_of(molecules.y), predicted.mean.clamp(0, 1))


def _worst_molecules(run: MoleculeRun) -> Section:
    """Show the molecules or reactions of the test part with the largest errors, in descending order
    of the error.

    With several targets the errors are in units of each target's standard deviation in the part,
    and a molecule is shown for its target with the largest error.
    """
    model, test, predicted = run.estimator, run.part("test"), run.predictions["test"]
    rows, targets = _largest_errors(model, test, predicted)
    smiles = [test.inputs[[row]].molecules.smiles[0] for row in rows]
    captions = [
        _caption(model, test, predicted, row, target, run.settings.unit)
        for row, target in zip(rows, targets)
    ]
    noun = model.row_format.rows_noun
    text = (
        f"The {noun} of the test part with the largest errors and at most {DRAWN} atoms, the "
        "largest first, with the measured → the predicted value, and with the Tanimoto similarity "
        "to the nearest one of the training and validation parts.",
    )
    if not model.reaction:
        figures = [
            Figure(
                draw_molecule(drawn_smiles(one), size=SIZE),
                f"The structure of {one}",
                f"{caption}\n{one}",
            )
            for one, caption in zip(smiles, captions)
        ]
        return Section("Largest errors", text, figures=tuple(figures), gallery=True)
    listed = tuple((one, caption.replace("\n", ", ")) for one, caption in zip(smiles, captions))
    return Section("Largest errors", text, (Table(("reaction", "prediction"), listed),))


def _errors(estimator: Any, molecules: LabelledMolecules, predicted: Prediction) -> Tensor:
    """Return the error of each molecule and target, [k, t]. For several classes, it is 1 minus
    the probability of the measured class.
    """
    y = molecules.y
    if estimator.class_counts:
        chances = estimator.probabilities(predicted.mean)
        label = y.nan_to_num(0.0).long()
        right = [p.gather(1, label[:, i, None])[:, 0] for i, p in enumerate(chances)]
        return (1 - torch.stack(right, 1)).masked_fill(y.isnan(), torch.nan)
    spread = (y - y.nanmean(0)).square().nanmean(0).sqrt()
    return (predicted.mean - y).abs() / torch.where(spread > 0, spread, 1.0)


def _largest_errors(
    estimator: Any, molecules: LabelledMolecules, predicted: Prediction
) -> tuple[list[int], list[int]]:
    """Return the molecules with the largest errors that can be drawn, and the target on which
    each error occurs.
    """
    error = _errors(estimator, molecules, predicted)
    largest, target = error.nan_to_num(nan=-1.0).max(1)
    order = largest.argsort(descending=True, stable=True)
    order = order[largest[order] >= 0].tolist()
    small = (row for row in order if len(molecules.inputs[[row]].molecules.arrays.x) <= DRAWN)
    rows = list(islice(small, WORST))
    return rows, target[rows].tolist()


def _caption(
    estimator: Any,
    molecules: LabelledMolecules,
    predicted: Prediction,
    row: int,
    target: int,
    unit: str,
) -> str:
    """Return the caption of a molecule's picture: label, prediction and similarity to training
    molecules.
    """
    y = float(molecules.y[row, target])
    lines = [estimator.targets_[target]] if len(estimator.targets_) > 1 else []
    if isinstance(estimator, MoleculeClassifier):
        kinds = estimator.classes_by_target[target]
        chance = estimator.probabilities(predicted.mean[[row]])[target][0]
        place = int(chance.argmax())
        name = class_probability(estimator, target, place)
        lines += [f"{kinds[int(y)]} → {kinds[place]}", f"{name} {number(float(chance[place]))}"]
    else:
        mean, std = (float(values[row, target]) for values in (predicted.mean, predicted.std))
        lines += [f"{number(y)} → {number(mean)} ± {number(std)} {unit}".rstrip()]
    lines += [f"similarity {number(float(predicted.max_train_similarity[row]))}"]
    return "\n".join(lines)
