"""The report and the plots of a run of nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from gattn.draw import draw_network
from gattn.nodes.entropy import attention_entropy
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.runs.repeat import choose
from gattn.training import plots
from gattn.training.calibration import (
    Reliability,
    interval_reliability,
    probability_reliability,
)
from gattn.training.plots.style import METRICS, number
from gattn.training.report import Cell, Figure, Section, Table, write_report
from gattn.training.run_report import Intervals, RunFacts, run_report
from gattn.training.runs import read_model
from gattn.training.sections import CLASSES, themed, write_plots

if TYPE_CHECKING:
    from gattn.nodes.runs.records import NodeRun

__all__ = ["write_run_report"]

WITHOUT_NAME = {"classification": "classes", "regression": "numbers"}
ALL_FEATURES = {"x": "x", "columns": "all others", "structure": "place in the graph"}
PICTURED = 250
"""Nodes that the picture of the network shows."""


def write_run_report(out: Path, run: NodeRun) -> None:
    """Write ``report.html``, ``report.json`` and ``plots/*.png`` of a run."""
    versions = cast("dict[str, str]", read_model(out)[1]["versions"])
    weights = run.estimator.predictor_.attention(run.encoded.graph)
    own = {"network": _picture(run, weights)}
    if isinstance(run.estimator, NodeClassifier):
        own["confusion"] = _confusion(run, run.estimator)
    sections = [_runs(run)]
    if "confusion" in own:
        sections.append(_classes(run, own["confusion"]))
    sections += [_network(run, own["network"]), _attention(run, weights)]
    content, figures = run_report(_facts(run, versions), sections)
    write_plots(out / "plots", figures | own)
    write_report(out, content)


def _facts(run: NodeRun, versions: Mapping[str, str]) -> RunFacts:
    """What the report says of a run that was made with certain versions."""
    estimator, metrics, test = run.estimator, run.metrics, run.split.test
    y, made = run.y[test], run.made[test]
    settings, counts = run.settings, metrics["nodes"]
    data = Path(settings.data).name
    if isinstance(estimator, NodeClassifier):
        targets = tuple(str(kind) for kind in estimator.classes_.tolist())
        truth = torch.nn.functional.one_hot(y.long(), len(targets)).double()
        std = None
    else:
        targets, truth, std = (str(estimator.label),), y[:, None], torch.ones_like(made)
    intervals = metrics["intervals"]
    return RunFacts(
        title=f"{settings.label or WITHOUT_NAME[estimator.task]} of {data}",
        summary=(
            f"{_model(run)} trained {len(run.attempts)} time{'s' * (len(run.attempts) > 1)} on "
            f"{counts['train']:,} of {counts['all']:,} nodes of {data}; split: {metrics['split']}."
        ),
        item="nodes",
        task=estimator.task,
        targets=targets,
        metrics=metrics["test"],
        validation=metrics["val"],
        baselines=metrics["baselines"],
        undefined=metrics["undefined"],
        y=truth,
        mean=made,
        std=std,
        histories=[choose(run.attempts).history],
        reliability=_reliability(run, y, made),
        intervals=Intervals(
            intervals["coverage"], intervals["held"],
            intervals.get("mean_width", intervals.get("mean_size", math.nan)),
            in_every_set=intervals.get("in_every_set", 0),
        ),
        parts={part: counts[part] for part in ("train", "val", "test")},
        rows=counts["all"],
        settings=_settings(run),
        versions=versions,
        decided=run.encoded.notes,
        words=CLASSES,
    )  # fmt: skip


def _model(run: NodeRun) -> str:
    names = {"gat": "GAT", "gatv2": "GATv2", "transformer": "Graph transformer", "gps": "GPS"}
    return names[run.settings.model.model]


def _settings(run: NodeRun) -> dict[str, Cell]:
    """The settings, of which those that were left open as they were chosen."""
    flat: dict[str, Any] = asdict(run.settings)
    flat |= flat.pop("model")
    del flat["directed"]  # "edges" below
    encoder = run.encoded.encoder
    chosen = {
        "label": run.estimator.label,
        "features": ", ".join(flat["features"]) or ALL_FEATURES[encoder.source],
        "task": run.estimator.task,
        "split": run.split.protocol,
        "edges": "directed" if run.encoded.graph.directed else "undirected",
    }
    return flat | chosen


def _reliability(run: NodeRun, y: Tensor, made: Tensor) -> Reliability:
    """Of the probability that the predicted class is right, or of intervals."""
    if isinstance(run.estimator, NodeRegressor):
        return interval_reliability(
            y[:, None], made, torch.ones_like(made), run.estimator.calibrator_
        )
    chance, guess = made.max(1)
    return probability_reliability((guess == y).double(), chance)


def _runs(run: NodeRun) -> Section:
    """Mean and spread over the trainings."""
    if len(run.attempts) < 2:
        told = "One training: --runs 10 would tell how much the numbers depend on chance."
        return Section("Runs", (told,))
    rows = tuple(
        (METRICS[name], *(value if value == value else None for value in found.values()))
        for name, found in run.metrics["runs"]["test"].items()
    )
    columns = "metric", "mean", "standard deviation", "of first weights", "of splits"
    main = next(iter(run.metrics["runs"]["test"]))
    found = run.metrics["runs"]["test"][main]
    text = (
        f"{len(run.attempts)} trainings: {METRICS[main]} {number(found['mean'])} ± "
        f"{number(found['std'])} on the test part. The spread over first weights is that within "
        "the same split; that over splits is what the splits' means vary beyond it.",
        "The model that was kept, of which the rest of this page tells, is that of the lowest "
        "validation loss; the test part had no say.",
    )
    text += tuple(
        f"{METRICS[name]}: {reason}."
        for name, reason in run.metrics["undefined"].get("runs", {}).items()
    )
    return Section("Runs", text, (Table(columns, rows, "On the test part"),))


def _classes(run: NodeRun, figure: Figure) -> Section:
    rows = tuple(
        (name, held["nodes"], held["precision"], held["recall"], held["f1"])
        for name, held in run.metrics["classes"].items()
    )
    columns = "class", "nodes", "precision", "recall", "F1"
    text = tuple(
        f"{score} of {name}: {reason}."
        for name, told in run.metrics["undefined"].get("classes", {}).items()
        for score, reason in told.items()
    )
    return Section("Classes", text, (Table(columns, rows, "On the test part"),), (figure,))


def _confusion(run: NodeRun, estimator: NodeClassifier) -> Figure:
    names = [str(kind) for kind in estimator.classes_.tolist()]
    draw = partial(plots.confusion_matrix, run.metrics["confusion"], names)
    alt = "Share of the nodes of each true class that were predicted as each class"
    return themed(draw, alt, "Rows are true classes, columns predicted ones.")


def _network(run: NodeRun, figure: Figure) -> Section:
    return Section("The network", figures=(figure,))


def _picture(run: NodeRun, weights: list[tuple[Tensor, Tensor]]) -> Figure:
    """Some nodes that hang together, by prediction, and the last layer's attention."""
    edges, alpha = weights[-1]
    if isinstance(run.estimator, NodeClassifier):
        colour = run.made.argmax(1)
        names = [str(kind) for kind in run.estimator.classes_.tolist()]
    else:
        colour, names = run.made[:, 0], []
    caption = "Nodes by prediction; half an edge is as thick as its node attends to the other one."
    if len(run.y) > PICTURED:
        caption += f" Drawn are {PICTURED:,} of {len(run.y):,} nodes, around the largest hub."
    draw = partial(draw_network, edges, alpha, colour, names, most=PICTURED)
    return themed(draw, "The network, its nodes coloured by prediction", caption)


def _attention(run: NodeRun, weights: list[tuple[Tensor, Tensor]]) -> Section:
    rows = []
    for i, (edges, alpha) in enumerate(weights):
        found = attention_entropy(edges, alpha, len(run.y))
        rows.append((i + 1, float(found.mean()), float(found.min()), float(found.max())))
    text = (
        "The entropy of a node's attention beside that of uniform weights: 1 is a plain mean of "
        "the neighbours, 0 is one neighbour alone. A mean over nodes with at least two edges.",
    )
    columns = "layer", "mean", "lowest head", "highest head"
    shown = tuple(tuple(cell if cell == cell else None for cell in row) for row in rows)
    return Section("Attention", text, (Table(columns, shown, "Entropy against uniform"),))
