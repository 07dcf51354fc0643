"""The report and the plots of a run of nodes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.draw import draw_network
from gattn.nodes.entropy import attention_entropy
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.runs.trials import best_trial
from gattn.pipeline.product import Report
from gattn.pipeline.report import report_facts
from gattn.pipeline.text import plural
from gattn.training import plots
from gattn.training.calibration import (
    Reliability,
    interval_reliability,
    probability_reliability,
)
from gattn.training.plots.style import METRICS, number
from gattn.training.report import Figure, Section, Table
from gattn.training.run_report import CLASSES, RunFacts, run_report, themed

if TYPE_CHECKING:
    from gattn.nodes.runs.train import NodeRun

__all__ = ["node_report"]

WITHOUT_NAME = {"classification": "classes", "regression": "numbers"}
ALL_FEATURES = {"x": "x", "columns": "all others", "structure": "place in the graph"}
MODELS = {
    "stacked": "A stack of models",
    "gat": "GAT",
    "gatv2": "GATv2",
    "transformer": "Graph transformer",
    "gps": "GPS",
}
PICTURED = 250
"""Maximum number of nodes in the picture of the network."""


def node_report(run: NodeRun) -> Report:
    """Return the content of the report page, and its plots by file name without extension."""
    weights = run.estimator.predictor_.attention(run.encoded.graph)
    figures = {"network": _picture(run, weights)}
    sections = [_trials(run)]
    if "components" in run.metrics:
        sections.append(_components(run))
    if "edge_columns" in run.metrics:
        sections.append(_edge_columns(run))
    if isinstance(run.estimator, NodeClassifier):
        figures["confusion"] = _confusion(run, run.estimator)
        sections.append(_classes(run, figures["confusion"]))
    sections += [Section("The network", figures=(figures["network"],)), _attention(run, weights)]
    content, common = run_report(_facts(run), sections)
    return content, common | figures


def _facts(run: NodeRun) -> RunFacts:
    """Return the metrics, settings and predictions of a run that the report page shows."""
    estimator, settings, test = run.estimator, run.settings, run.split.test
    y, predicted, counts = run.y[test], run.predicted[test], run.metrics["nodes"]
    data = Path(settings.data).name
    if isinstance(estimator, NodeClassifier):
        targets = tuple(str(kind) for kind in estimator.classes_.tolist())
        truth = torch.nn.functional.one_hot(y.long(), len(targets)).double()
        std = None
    else:
        targets, truth = (str(estimator.label),), y[:, None]
        std = torch.ones_like(predicted)
    features = ", ".join(settings.features) or ALL_FEATURES[run.encoded.encoder.source]
    return report_facts(
        run,
        settings,
        chosen={
            "label": estimator.label,
            "features": features,
            "task": estimator.task,
            "split": run.split.protocol,
            "edges": "directed" if run.encoded.graph.directed else "undirected",
        },
        title=f"{settings.label or WITHOUT_NAME[estimator.task]} of {data}",
        summary=(
            f"{MODELS[settings.model.model]} trained {plural(len(run.trials), 'time')} on "
            f"{counts['train']:,} of {counts['all']:,} nodes of {data}; split: "
            f"{run.metrics['split']}."
        ),
        targets=targets,
        y=truth,
        mean=predicted,
        std=std,
        histories=[best_trial(run.trials).history],
        reliability=_reliability(run, y, predicted),
        rows=counts["all"],
        decided=run.encoded.notes,
        words=CLASSES,
    )


def _reliability(run: NodeRun, y: Tensor, predicted: Tensor) -> Reliability:
    """Return how often the predicted class, or the interval, is right for each probability."""
    if isinstance(run.estimator, NodeRegressor):
        return interval_reliability(
            y[:, None], predicted, torch.ones_like(predicted), run.estimator.calibrator_
        )
    chance, guess = predicted.max(1)
    return probability_reliability((guess == y).double(), chance)


def _trials(run: NodeRun) -> Section:
    """Return the section of the report on mean and variation of the metrics over trials."""
    if len(run.trials) < 2:
        text = "One training: --runs 10 would tell how much the numbers depend on chance."
        return Section("Runs", (text,))
    components = run.metrics["runs"]["test"]
    rows = tuple(
        (METRICS[name], *(value if value == value else None for value in each.values()))
        for name, each in components.items()
    )
    columns = "metric", "mean", "standard deviation", "of first weights", "of splits"
    main, first = next(iter(components.items()))
    text = (
        f"{len(run.trials)} trainings: {METRICS[main]} {number(first['mean'])} ± "
        f"{number(first['std'])} on the test part. The spread over first weights is that within "
        "the same split; the spread over splits is the additional variation of the splits' means.",
        "The rest of this page describes the saved model, the one with the lowest "
        "validation loss; the test part did not influence this choice.",
    )
    text += tuple(
        f"{METRICS[name]}: {reason}."
        for name, reason in run.metrics["undefined"].get("runs", {}).items()
    )
    return Section("Runs", text, (Table(columns, rows, "On the test part"),))


def _components(run: NodeRun) -> Section:
    """Return the section of the report on weights and metrics of a stack's components."""
    components = run.metrics["components"]
    metrics = list(run.metrics["test"])
    rows = [
        (name, each["weight"], *(_defined(each["test"][metric]) for metric in metrics))
        for name, each in components.items()
    ]
    rows.append(("stack", None, *(_defined(run.metrics["test"][metric]) for metric in metrics)))
    text = (
        "The prediction combines these models with weights that the validation part chose. Those "
        "of classes multiply the logarithms of probabilities, and need not sum to 1.",
    )
    if run.metrics["noise"]:
        text += ("It is no better than a constant: the data do not predict the labels.",)
    columns = "component", "weight", *(METRICS[metric] for metric in metrics)
    return Section("Components", text, (Table(columns, tuple(rows), "On the test part"),))


def _edge_columns(run: NodeRun) -> Section:
    """Return the section of the report on the columns of edges."""
    columns, base = run.metrics["edge_columns"], run.metrics["val"]
    main = next(iter(base))
    notes = tuple(note for note in run.encoded.notes if " of the edges" in note)
    permuted = columns["permuted"]
    if not permuted:
        reason = "the graph is too large" if columns["read"] else "only times are read"
        return Section("Columns of the edges", (*notes, f"No column was permuted: {reason}."))
    rows = [
        (name, _defined(metrics[main]), _defined(base[main] - metrics[main]))
        for name, metrics in permuted.items()
    ]
    title = METRICS[main]
    text = (
        f"The {title} on the validation part is {number(base[main])}. The table shows it after the "
        "values of a column were exchanged among the edges at random. The difference is what the "
        "trained model gains from the column; it is near 0 if another column says the same.",
    )
    table = Table(("column", f"{title}, permuted", "difference"), tuple(rows), "Validation part")
    return Section("Columns of the edges", (*text, *notes), (table,))


def _defined(value: float) -> float | None:
    """Return a number, or None for NaN."""
    return value if value == value else None


def _classes(run: NodeRun, figure: Figure) -> Section:
    rows = tuple(
        (name, scores["nodes"], scores["precision"], scores["recall"], scores["f1"])
        for name, scores in run.metrics["classes"].items()
    )
    columns = "class", "nodes", "precision", "recall", "F1"
    text = tuple(
        f"{score} of {name}: {reason}."
        for name, reasons in run.metrics["undefined"].get("classes", {}).items()
        for score, reason in reasons.items()
    )
    return Section("Classes", text, (Table(columns, rows, "On the test part"),), (figure,))


def _confusion(run: NodeRun, estimator: NodeClassifier) -> Figure:
    names = [str(kind) for kind in estimator.classes_.tolist()]
    draw = plots.confusion_matrix(run.metrics["confusion"], names).png
    alt = "Share of the nodes of each true class that were predicted as each class"
    return themed(draw, alt, "Rows are true classes, columns predicted ones.")


def _picture(run: NodeRun, weights: list[tuple[Tensor, Tensor]]) -> Figure:
    """Return a picture of connected nodes with predictions and the last layer's attention."""
    edges, alpha = weights[-1]
    if isinstance(run.estimator, NodeClassifier):
        colour = run.predicted.argmax(1)
        names = [str(kind) for kind in run.estimator.classes_.tolist()]
    else:
        colour, names = run.predicted[:, 0], []
    caption = "Nodes by prediction; half an edge is as thick as its node attends to the other one."
    if len(run.y) > PICTURED:
        caption += f" Drawn are {PICTURED:,} of {len(run.y):,} nodes, around the largest hub."
    draw = partial(draw_network, edges, alpha, colour, names, most=PICTURED)
    return themed(draw, "The network, its nodes coloured by prediction", caption)


def _attention(run: NodeRun, weights: list[tuple[Tensor, Tensor]]) -> Section:
    rows = []
    for i, (edges, alpha) in enumerate(weights):
        entropy = attention_entropy(edges, alpha, len(run.y))
        rows.append((i + 1, float(entropy.mean()), float(entropy.min()), float(entropy.max())))
    text = (
        "The entropy of a node's attention beside that of uniform weights: 1 is a plain mean of "
        "the neighbours, 0 is one neighbour alone. A mean over nodes with at least two edges.",
    )
    columns = "layer", "mean", "lowest head", "highest head"
    shown = tuple(tuple(cell if cell == cell else None for cell in row) for row in rows)
    return Section("Attention", text, (Table(columns, shown, "Entropy against uniform"),))
