"""The files of a run: the model, its predictions, all trainings, the report and the metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gattn.files import write_rows
from gattn.nodes.estimators import NodeClassifier
from gattn.nodes.runs.predict import prediction_cells, prediction_columns
from gattn.nodes.runs.records import NodeRun
from gattn.nodes.runs.report import write_run_report
from gattn.nodes.runs.trials import Planned
from gattn.pipeline.run_folder import finish
from gattn.training.model_io import write_model

__all__ = ["write_run"]


def write_run(out: Path, run: NodeRun) -> None:
    """Write everything that a run holds, the metrics last.

    Raises:
        OSError: a file cannot be written.
    """
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
    """The labels of the nodes as they were given; empty where unknown."""
    kinds = run.estimator.classes_.tolist() if isinstance(run.estimator, NodeClassifier) else None
    return [
        "" if label != label else label if kinds is None else kinds[int(label)]
        for label in run.y.tolist()
    ]
