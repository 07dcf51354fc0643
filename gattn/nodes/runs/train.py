"""A run: from a graph whose nodes are known in part to a folder with a model and its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from gattn.nodes.attributed import AttributedGraph
from gattn.nodes.base import NodeEstimator
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.features import EncodedGraph
from gattn.nodes.files import read_graph_file
from gattn.nodes.labels import read_labels
from gattn.nodes.runs.config import NodeRunSettings
from gattn.nodes.runs.judge import judge
from gattn.nodes.runs.splits import is_drawn, make_split, split_column, splits_record
from gattn.nodes.runs.trials import Attempt, Trainer, plan, train_all
from gattn.nodes.runs.write import write_run
from gattn.nodes.values import as_numbers, is_missing
from gattn.pipeline.run_folder import begin, check_place, metrics_of_whole
from gattn.pipeline.text import amount
from gattn.training.types import EpochRecord

__all__ = ["train_run"]

NUMBERS = 20
"""A label of more different numbers than this is taken for a number, not for classes."""


def train_run(
    settings: NodeRunSettings,
    out: str | Path,
    *,
    learned: Callable[[EpochRecord], None] = lambda record: None,
    done: Callable[[Attempt], None] = lambda attempt: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Train models of nodes and write a run: the command ``gattn nodes train``.

    The folder holds ``config.toml``, ``splits.json``, ``weights.safetensors`` and ``model.json``
    (which :meth:`gattn.nodes.NodeClassifier.load` reads), ``metrics.json``, ``predictions.csv`` of
    all nodes, ``runs.csv`` of all trainings, ``left_out.csv``, ``plots`` and ``report.html``. The
    model that is kept is that of the lowest validation loss. Where the folder holds the same run
    whole, nothing is done.

    Args:
        settings: what to train on what.
        out: the folder of the run, made where it is missing.
        learned: told of every epoch of the trainings in this process, one after the other.
        done: told of every training.
        say: told in a line each what a user should know.

    Returns:
        What ``metrics.json`` holds.

    Raises:
        RunError: the folder holds another run, or something else.
        GraphError: a graph or labels that cannot be trained on.
        ValueError: settings that do not fit.
        OSError: a file cannot be read or written.
    """
    out = Path(out)
    files = [name for name in (settings.data, settings.nodes) if name]
    if (whole := metrics_of_whole(out, settings, files)) is not None:
        say(f"{out} holds this run already, and it is whole: nothing to do")
        return whole
    check_place(out)
    graph = read_graph_file(
        settings.data, settings.nodes or None, directed=settings.directed,
        encoding=settings.encoding, decimal=settings.decimal, thousands=settings.thousands,
        missing=settings.missing,
    )  # fmt: skip
    estimator, graph, y = _labelled(settings, graph)
    planned = plan(settings.runs, settings.model.seed, drawn=is_drawn(settings, graph))
    drawn = [
        make_split(settings, graph, y, estimator.task, number)
        for number in range(planned[-1].split + 1)
    ]
    splits = [split for split, _ in drawn]
    lacking = (note for split in splits for note in estimator.check_split(y, split))
    graph = graph.with_notes(*drawn[0][1], *dict.fromkeys(lacking))
    column = split_column(settings)
    encoded = estimator.encode(graph, estimator.label, leave=[column] if column else [])
    for line in (_read(settings, estimator, encoded, y), *encoded.notes):
        say(line)
    begin(
        out, settings, splits_record(settings, graph, splits),
        ("line", "edge", "reason"), ((row.line, row.text, row.reason) for row in graph.left_out),
    )  # fmt: skip
    trainer = Trainer(estimator, encoded, y, splits)
    attempts = train_all(trainer, planned, workers=settings.workers, learned=learned, done=done)
    run = judge(settings, encoded, y, splits, attempts)
    write_run(out, run)
    return run.metrics


def _labelled(
    settings: NodeRunSettings, graph: AttributedGraph
) -> tuple[NodeEstimator, AttributedGraph, Tensor]:
    """The estimator that knows the labels, the graph with what was decided, and the labels."""
    values, notes = read_labels(
        graph, settings.label or None, classes=settings.task != "regression"
    )
    options: dict[str, Any] = {
        **asdict(settings.model), "label": values.name,
        "features": list(settings.features) or None, "directed": settings.directed,
    }  # fmt: skip
    task = settings.task if settings.task != "auto" else _task(values)
    estimator = (NodeClassifier if task == "classification" else NodeRegressor)(**options)
    return estimator, graph.with_notes(*notes), estimator.learn_labels(values, graph.where)


def _task(values: pd.Series) -> str:
    numbers = as_numbers(values)[~is_missing(values)]
    many = len(np.unique(numbers)) > NUMBERS or bool((numbers % 1 != 0).any())
    is_number = len(numbers) > 0 and not np.isnan(numbers).any()
    return "regression" if is_number and many else "classification"


def _read(
    settings: NodeRunSettings, estimator: NodeEstimator, encoded: EncodedGraph, y: Tensor
) -> str:
    """What was read, in a line."""
    graph = encoded.graph
    each = "directed edges" if graph.directed else "edges in both directions"
    is_class = isinstance(estimator, NodeClassifier)
    features = amount(encoded.x.shape[1], "feature")
    labels = f"one of {len(estimator.classes_)} classes" if is_class else "a number"
    nodes, known = amount(len(graph), "node"), int(y.isfinite().sum())
    return (
        f"{settings.data}: {nodes}, {known:,} of them with a label ({labels}), "
        f"{graph.edge_index.shape[1]:,} {each}, {features}"
    )
