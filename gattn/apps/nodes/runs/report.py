"""Report page and plots of a training run for nodes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.fitting.calibration import (
    Reliability,
    coverage_reliability,
    probability_reliability,
)
from gattn.apps.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.apps.nodes.runs.train import best_trial
from gattn.apps.nodes.typed.predictor import node_titles
from gattn.apps.report.report import Figure, Section, Table
from gattn.apps.report.run_report import CLASSES, RunFacts, run_report
from gattn.apps.run.text import plural
from gattn.apps.run.train import Report, report_facts
from gattn.draw import draw_network

if TYPE_CHECKING:
    from gattn.apps.nodes.runs.train import NodeRun

WITHOUT_NAME = {"classification": "classes", "regression": "numbers"}
ALL_FEATURES = {"x": "x", "columns": "all others", "structure": "place in the graph"}
MODELS = {
    "stacked": "A stack of models",
    "gat": "GAT",
    "gatv2": "GATv2",
    "transformer": "Graph transformer",
    "hgt": "HGT",
}
COMPONENTS = {
    "constant": "share of each class, or the mean of the numbers",
    "columns": "linear model of a node's own columns",
    "neighbours": "the same, also of the columns' means over neighbours within two steps",
    "labels": "the same, also of the known labels around a node",
    "consistent": "networks that also learn from nodes without a label",
    "walks": "the walks of two steps to each training node",
    "propagation": "known labels that spread along the edges",
}
"""Descriptions of the components other than the attention network."""
TOP_LABELS = 10
"""Number of nodes whose names are written beside them in the picture of the network."""


def node_report(run: NodeRun) -> Report:
    """Return the content of the report page, and a dictionary of its plots (the keys are file
    names without extension).
    """
    weights = run.estimator.predictor_.attention(run.encoded.graph)
    figures = {"network": _picture(run, weights)}
    sections = [_trials(run)]
    if "components" in run.metrics:
        sections.append(_components(run))
    if "edges" in run.metrics:
        sections.append(_edges(run))
    if isinstance(run.estimator, NodeClassifier):
        sections.append(_classes(run))
    sections.append(Section("The network", figures=(figures["network"],)))
    content, common = run_report(_facts(run), sections)
    return content, common | figures


def _facts(run: NodeRun) -> RunFacts:
    """Return the results of a run that the report page shows: metrics, settings and predictions."""
    estimator, settings, test = run.estimator, run.settings, run.split.test
    y, predicted, counts = run.y[test], run.predicted[test], run.metrics["nodes"]
    data = Path(settings.title).name
    if isinstance(estimator, NodeClassifier):
        targets = tuple(str(kind) for kind in estimator.classes_.tolist())
        truth = torch.nn.functional.one_hot(y.long(), len(targets)).double()
        std = None
    else:
        targets, truth = (str(estimator.label),), y[:, None]
        std = torch.ones_like(predicted)
    times = plural(len(run.trials), "time") if len(run.trials) > 1 else "once"
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
            f"{MODELS[settings.model.model]}, trained {times} on "
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
    """Compute how often predicted classes, or intervals, are correct for each predicted
    probability.
    """
    if isinstance(run.estimator, NodeRegressor):
        return coverage_reliability(y[:, None], partial(run.estimator.intervals, predicted))
    chance, guess = predicted.max(1)
    return probability_reliability((guess == y).double(), chance)


def _trials(run: NodeRun) -> Section:
    """Return the section on the mean and the variation of the metrics over the trials."""
    if len(run.trials) < 2:
        text = "One training run; --runs 10 estimates how much the metrics depend on the seed."
        return Section("Runs", (text,))
    rows = tuple(
        (METRICS[name], *each.values()) for name, each in run.metrics["runs"]["test"].items()
    )
    columns = "metric", "mean", "standard deviation", "over initial weights", "over splits"
    text = (
        f"{len(run.trials)} trainings. The standard deviation over initial weights is computed "
        "within each split; the standard deviation over splits is the additional variation of the "
        "splits' means. The rest of this page describes the saved model, the one with the lowest "
        "validation loss.",
    )
    return Section("Runs", text, (Table(columns, rows, "On the test part"),))


def _components(run: NodeRun) -> Section:
    """Return the section of the report on the weights and metrics of the models in a stack."""
    components = run.metrics["components"]
    metrics = list(run.metrics["test"])
    rows = [
        (
            name,
            COMPONENTS.get(name, "attention network"),
            each["weight"],
            *(each["test"][metric] for metric in metrics),
        )
        for name, each in components.items()
    ]
    stack = (run.metrics["test"][metric] for metric in metrics)
    rows.append(("stack", "the model: all components together", None, *stack))
    text = (
        "The prediction combines these models with weights that were fitted on the validation "
        "part. A component with the weight 0 does not improve the others there. For classes, the "
        "weights multiply the logarithms of the probabilities and need not sum to 1.",
    )
    factors = run.metrics.get("class_factors", {})
    if len(set(factors.values())) > 1:
        listed = ", ".join(f"{name} {number(factor)}" for name, factor in factors.items())
        text += (
            "The probabilities of the combination were multiplied by factors, because the classes "
            f"have other frequencies outside of the training part: {listed}.",
        )
    columns = "component", "description", "weight", *(METRICS[metric] for metric in metrics)
    return Section("Components", text, (Table(columns, tuple(rows), "On the test part"),))


def _edges(run: NodeRun) -> Section:
    """Return the section of the report on the columns of the edges, or on the relations."""
    notes = tuple(note for note in run.encoded.notes if " of the edges" in note)
    main, base = next(iter(run.metrics["test"].items()))
    is_typed = run.encoded.graph.network is not None
    title = "Relations" if is_typed else "Columns of the edges"
    rows = []
    for name, each in run.metrics["edges"].items():
        after = each["permuted"][main]
        attention = [each["attention"]] if is_typed else []
        rows.append((name, *attention, after, base - after))
    if not rows:
        return Section(title, (*notes, "Nothing was permuted: the graph is too large."))
    values = "destinations" if is_typed else "values"
    text = (
        f"The {METRICS[main]} on the test part is {number(base)}. The table shows it after the "
        f"{values} of a row of the table were exchanged among the edges at random. The difference "
        "shows how much the trained model uses them; it is near 0 if another row contains the same "
        "information."
    )
    if is_typed:
        text += (
            " Attention is the share of the relation in the attention of the predicted nodes, in "
            "the last layer of the attention network."
        )
    head = ["relation", "attention"] if is_typed else ["column"]
    columns = (*head, f"{METRICS[main]}, permuted", "difference")
    return Section(title, (text, *notes), (Table(columns, tuple(rows), "Test part"),))


def _classes(run: NodeRun) -> Section:
    names = "nodes", "precision", "recall", "f1"
    rows = tuple(
        (kind, *(scores[name] for name in names)) for kind, scores in run.metrics["classes"].items()
    )
    table = Table(("class", *names[:3], "F1"), rows, "On the test part")
    return Section("Classes", tables=(table,))


def _picture(run: NodeRun, weights: list[tuple[Tensor, Tensor]]) -> Figure:
    """Draw the network, or a part of it, with predictions and attention weights of the last
    layer.
    """
    edges, alpha = weights[-1]
    labels = [str(name) for name in run.encoded.graph.names]
    names, wrong, uncertain = [], None, None
    caption = (
        "Nodes coloured by their predictions. The width of an edge at a node is the attention of "
        "this node to the other node."
    )
    if isinstance(run.estimator, NodeClassifier):
        colour = run.predicted.argmax(1)
        names = [str(kind) for kind in run.estimator.classes_.tolist()]
        wrong = (colour != run.y) & ~run.y.isnan()
        wrong[run.split.train] = False
        uncertain = run.estimator.sets(run.predicted, run.settings.coverage).sum(1) > 1
        caption += " A ring marks a wrong prediction outside the training part."
        one = "Every" if uncertain.all() else "A hollow"
        if uncertain.any():
            caption += f" {one} node has several classes in its {run.settings.coverage:.0%} set."
    else:
        colour = run.predicted[:, 0]
    if run.encoded.graph.network is not None:
        labels, kinds = node_titles(run.encoded.graph)
        colour, names = _with_types(run, colour, names, torch.from_numpy(kinds))
        if wrong is not None and uncertain is not None:
            wrong, uncertain = (
                torch.cat([mask, mask.new_zeros(len(labels) - len(mask))])
                for mask in (wrong, uncertain)
            )
        caption += " Nodes of other types have the colours of their types."
    caption += " The names are those of the nodes that receive most attention."
    picture = draw_network(
        edges, alpha, colour, names, labels=labels,
        top_labels=TOP_LABELS, wrong=wrong, uncertain=uncertain,
        wrong_text="wrong prediction (not in training)",
        uncertain_text=f"several classes in the {run.settings.coverage:.0%} set",
    )  # fmt: skip
    return Figure(picture, "The network, its nodes coloured by prediction", caption)


def _with_types(
    run: NodeRun, colour: Tensor, names: list[str], kinds: Tensor
) -> tuple[Tensor, list[str]]:
    """Return the colours of the nodes of all types, and the names of the colours.

    Args:
        run: the run, with a typed network.
        colour: [n] class or number of each predicted node.
        names: names of the classes; empty for numbers.
        kinds: [m] position of the type of each node; 0 for the predicted nodes, which come first.
    """
    network = run.encoded.graph.network
    assert network is not None
    if not names:
        # Without classes, a node of another type has the mean of the predicted numbers.
        rest = colour.mean().expand(len(kinds) - len(colour))
        return torch.cat([colour, rest]), names
    others = [f"type {kind}" for kind in sorted(network.others)]
    return torch.cat([colour, len(names) - 1 + kinds[len(colour) :]]), [*names, *others]
