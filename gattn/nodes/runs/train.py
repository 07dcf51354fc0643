"""A run: from a graph whose nodes are known in part to a folder with a model and its report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from gattn.data import Split, dataset
from gattn.files import write_rows
from gattn.nodes.attributed import AttributedGraph, GraphError
from gattn.nodes.base import EncodedGraph, NodeEstimator
from gattn.nodes.baselines import baseline_predictions
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.files import CITATION, read_graph_file
from gattn.nodes.parts import MASKS, masked_parts, named_parts, per_class_parts, random_parts
from gattn.nodes.runs.config import NodeRunSettings
from gattn.nodes.runs.measure import class_scores, confusion, measure, measure_intervals
from gattn.nodes.runs.predict import prediction_cells, prediction_columns
from gattn.nodes.runs.repeat import Attempt, Planned, Trainer, choose, plan, spread, train_all
from gattn.nodes.values import as_numbers, is_missing
from gattn.training.folder import begin, file_hash, finish, metrics_of_whole
from gattn.training.runs import write_model

__all__ = ["NodeRun", "train_run"]

SHARES = (0.6, 0.2, 0.2)
NUMBERS = 20
"""A label of more different numbers than this is taken for a number, not for classes."""


@dataclass(frozen=True, eq=False)
class NodeRun:
    """What was trained, on what, and how it did.

    Attributes:
        settings: what was asked for.
        encoded: the graph with its features.
        y: [n] labels.
        split: the parts of the training that was kept.
        estimator: the fitted model that was kept.
        made: [n, outputs], its predictions.
        attempts: all trainings.
        metrics: what ``metrics.json`` holds.
    """

    settings: NodeRunSettings
    encoded: EncodedGraph
    y: Tensor
    split: Split
    estimator: NodeEstimator
    made: Tensor
    attempts: Sequence[Attempt]
    metrics: dict[str, Any]


def train_run(
    settings: NodeRunSettings,
    out: str | Path,
    *,
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
    graph = read_graph_file(settings.data, settings.nodes or None, directed=settings.directed)
    estimator, y = _labelled(settings, graph)
    column = settings.split.removeprefix("column:")
    leave = [column] if column != settings.split else []
    encoded = estimator.encode(graph, leave=leave)
    say(_read(settings, encoded, y))
    for note in encoded.notes:
        say(note)
    planned = plan(settings.runs, settings.model.seed, drawn=_is_drawn(settings, graph))
    splits = [_parts(settings, graph, y, number) for number in range(planned[-1].part + 1)]
    begin(
        out, settings, _splits_record(settings, graph, splits),
        ("line", "edge", "reason"), ((row.line, row.text, row.reason) for row in graph.left_out),
    )  # fmt: skip
    trainer = Trainer(estimator, encoded, y, splits)
    attempts = train_all(trainer, planned, workers=settings.workers, done=done)
    run = _judge(settings, encoded, y, splits, attempts)
    _write(out, run)
    return run.metrics


def _labelled(settings: NodeRunSettings, graph: AttributedGraph) -> tuple[NodeEstimator, Tensor]:
    """The estimator that knows the labels, and the labels."""
    options: dict[str, Any] = {
        **asdict(settings.model), "label": settings.label or None,
        "features": list(settings.features) or None, "directed": settings.directed,
    }  # fmt: skip
    values = NodeClassifier(**options).read_labels(graph, None)
    task = settings.task if settings.task != "auto" else _task(values)
    estimator = (NodeClassifier if task == "classification" else NodeRegressor)(**options)
    return estimator, estimator.learn_labels(values)


def _task(values: pd.Series) -> str:
    numbers = as_numbers(values)[~is_missing(values)]
    many = len(np.unique(numbers)) > NUMBERS or bool((numbers % 1 != 0).any())
    is_number = len(numbers) > 0 and not np.isnan(numbers).any()
    return "regression" if is_number and many else "classification"


def _read(settings: NodeRunSettings, encoded: EncodedGraph, y: Tensor) -> str:
    """What was read, in a line."""
    graph = encoded.graph
    each = "directed edges" if graph.directed else "edges in both directions"
    return (
        f"{settings.data}: {len(graph):,} nodes, {int(y.isfinite().sum()):,} of them labelled, "
        f"{graph.edge_index.shape[1]:,} {each}, {encoded.x.shape[1]:,} features"
    )


def _kind(settings: NodeRunSettings, graph: AttributedGraph) -> str:
    if settings.split != "auto":
        return settings.split
    return "public" if all(name in graph.table.columns for name in MASKS) else "random"


def _is_drawn(settings: NodeRunSettings, graph: AttributedGraph) -> bool:
    return _kind(settings, graph).startswith("random")


def _parts(settings: NodeRunSettings, graph: AttributedGraph, y: Tensor, number: int) -> Split:
    """The parts of some trainings; those that are drawn are drawn by the seed and their number."""
    kind, seed = _kind(settings, graph), settings.model.seed + number
    by_class = bool((y[y.isfinite()] % 1 == 0).all()) and len(y[y.isfinite()].unique()) <= NUMBERS
    if kind == "public":
        split = masked_parts(graph)
    elif kind == "random":
        split = random_parts(y, seed, SHARES, by_class=by_class)
    elif kind == "random-per-class":
        if not by_class:
            raise GraphError("split random-per-class needs classes; the labels are numbers")
        split = per_class_parts(y, seed)
    else:
        split = named_parts(graph, kind.removeprefix("column:"))
    for part in ("train", "val", "test"):
        if not y[getattr(split, part)].isfinite().any():
            raise GraphError(f"split {kind} leaves no labelled node in the {part} part")
    return split


def _splits_record(
    settings: NodeRunSettings, graph: AttributedGraph, splits: Sequence[Split]
) -> dict[str, Any]:
    """What ``splits.json`` holds: the data, and the positions of nodes in every part, from 0."""
    if settings.data.lower() in CITATION:
        known = "".join(file.sha256 for file in dataset(settings.data).files)
        sha256 = hashlib.sha256(known.encode()).hexdigest()
    else:
        sha256 = file_hash(*(Path(path) for path in (settings.data, settings.nodes) if path))
    parts = [
        {
            "protocol": split.protocol,
            **{part: getattr(split, part).tolist() for part in ("train", "val", "test")},
        }
        for split in splits
    ]
    return {"data": settings.data, "sha256": sha256, "nodes": len(graph), "splits": parts}


def _judge(
    settings: NodeRunSettings,
    encoded: EncodedGraph,
    y: Tensor,
    splits: Sequence[Split],
    attempts: Sequence[Attempt],
) -> NodeRun:
    """Choose a training, and measure it beside the baselines."""
    kept = choose(attempts)
    estimator, made, split = kept.estimator, kept.made, kept.estimator.split_
    task, test = estimator.task, split.test
    spreads = {metric: spread(attempts, metric)._asdict() for metric in kept.test}
    baselines = baseline_predictions(encoded, y, split.train, task, estimator.outputs)
    metrics: dict[str, Any] = {
        "task": task,
        "test": kept.test,
        "val": kept.val,
        "baselines": {name: measure(task, y[test], p[test]) for name, p in baselines.items()},
        "runs": {"count": len(attempts), "kept": attempts.index(kept), "test": spreads},
        "intervals": measure_intervals(estimator, y[test], made[test], settings.coverage),
        "split": splits[kept.planned.part].protocol,
        "nodes": {
            "train": len(split.train), "val": len(split.val), "test": len(test),
            "labelled": int(y.isfinite().sum()), "all": len(encoded.graph),
        },
    }  # fmt: skip
    if isinstance(estimator, NodeClassifier):
        counts = confusion(y[test], made[test])
        names = [str(kind) for kind in estimator.classes_.tolist()]
        metrics["classes"] = dict(zip(names, class_scores(counts)))
        metrics["confusion"] = counts.tolist()
    return NodeRun(settings, encoded, y, split, estimator, made, attempts, metrics)


def _write(out: Path, run: NodeRun) -> None:
    """Everything that a run holds, the metrics last."""
    from gattn.nodes.runs.report import write_run_report

    tensors, card = run.estimator.state()
    card |= {"data": run.settings.data, "split": run.split.protocol, "metrics": run.metrics}
    write_model(out, tensors, card)
    write_rows(out / "predictions.csv", _predictions(run))
    metrics = list(run.metrics["test"])
    rows = (
        [*one.planned, len(one.history.records), *(one.test[name] for name in metrics)]
        for one in run.attempts
    )
    write_rows(out / "runs.csv", [[*Planned._fields, "epochs", *metrics], *rows])
    write_run_report(out, run)
    finish(out, run.metrics)


def _predictions(run: NodeRun) -> Iterator[Sequence[object]]:
    """A header, then a row a node: its name, part and label, and what was predicted."""
    parts = ["unlabelled"] * len(run.y)
    for node in run.y.isfinite().nonzero().flatten().tolist():
        parts[node] = "none"
    for part in ("train", "val", "test"):
        for node in getattr(run.split, part).tolist():
            parts[node] = part
    yield ["node", "part", "label", *prediction_columns(run.estimator)]
    cells = prediction_cells(run.estimator, run.made, run.settings.coverage)
    for name, part, label, predicted in zip(run.encoded.graph.names, parts, _labels(run), cells):
        yield [name, part, label, *predicted]


def _labels(run: NodeRun) -> list[object]:
    if isinstance(run.estimator, NodeClassifier):
        kinds = run.estimator.classes_.tolist()
        return ["" if label != label else kinds[int(label)] for label in run.y.tolist()]
    return ["" if label != label else label for label in run.y.tolist()]
