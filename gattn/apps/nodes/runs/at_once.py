"""Predictions for nodes by models that are fitted in closed form, which takes seconds."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.fitting.scaling import moments
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.baselines import propagate_labels
from gattn.apps.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.measure import is_noise, measure, undefined
from gattn.apps.nodes.runs.predict import prediction_rows
from gattn.apps.nodes.runs.splits import make_split
from gattn.apps.nodes.runs.train import NodeProduct
from gattn.apps.nodes.splits import mask_columns
from gattn.apps.nodes.stack.blocks import Blocks
from gattn.apps.nodes.stack.closed_form import predict_in_closed_form
from gattn.apps.nodes.typed.neighbours import neighbours_of
from gattn.apps.run.product import Log, no_log
from gattn.files import check_table_ending, new_file, write_rows

__all__ = ["predict_at_once"]

LEAST = 2
"""Minimum number of labelled nodes from which the other nodes are predicted."""


def predict_at_once(settings: NodeRunSettings, out: str | Path, log: Log = no_log) -> int:
    """Predict all nodes from the labelled ones in closed form, and write the predictions; see
    :func:`gattn.apps.nodes.stack.closed_form.predict_in_closed_form`.

    If the graph has masks, or if ``split`` is set, the model is fitted to the training part only,
    and the log reports the metrics of the test part. Otherwise it is fitted to all labelled nodes,
    and the log reports metrics of leave-one-out predictions: each node is predicted without its
    label. Such predictions also calibrate the label sets and intervals.

    Args:
        settings: the graph, how to read and split it, and the coverage; ``model.seed`` is the seed
            of the folds.
        out: the file to write; see :func:`gattn.apps.nodes.runs.predict.predict_graph`.
        log: called with each line that the user should read.

    Returns:
        The number of nodes.

    Raises:
        GraphError: the graph cannot be read, or fewer than two nodes have a label.
        FileExistsError: ``out`` exists.
    """
    check_table_ending(out)
    with new_file(out) as temporary:
        read = settings.reading.read(
            settings.data, directed=settings.directed, label=settings.label or None,
            label_type=settings.label_type or None,
        )  # fmt: skip
        data = NodeProduct(settings, out, log).with_labels(read)
        graph, y, estimator = data.graph, data.y, data.estimator
        is_class = isinstance(estimator, NodeClassifier)
        train, test = y.isfinite().nonzero().flatten(), torch.zeros(0, dtype=torch.int64)
        split = None
        if settings.split != "auto" or settings.time or mask_columns(graph):
            split, notes = make_split(settings, graph, y, estimator.task, 0)
            train, test = (part[y[part].isfinite()] for part in (split.train, split.test))
            graph = graph.with_notes(*notes)
        if len(train) < LEAST:
            raise GraphError(f"at least {LEAST} nodes must have a label; got {len(train)}")
        encoded = estimator.encode(graph, estimator.label, split=split)
        graph = encoded.graph
        for note in encoded.notes:
            log(note)
        mean, std = (0.0, 1.0) if is_class else tuple(map(float, moments(y[train, None])))
        labels = _labels(estimator, (y[train] - mean) / std)
        seed = settings.model.seed
        blocks = Blocks(encoded.x, neighbours_of(graph), None, seed)
        predicted, held_out = (
            torch.from_numpy(part) * std + mean
            for part in predict_in_closed_form(
                blocks, labels, train.numpy(), seed, is_class=is_class
            )
        )
        _calibrate(estimator, y[train, None], held_out)
        constant = torch.from_numpy(labels.mean(0, keepdims=True)) * std + mean
        some, guess = (test, predicted[test]) if len(test) else (train, held_out)
        title = "test part" if len(test) else "each node predicted without its label"
        metrics = _log_metrics(log, estimator, title, y[some], guess)
        if len(test):
            one_hot = torch.from_numpy(labels) * std + mean
            spread = propagate_labels(graph.edge_index, one_hot, train, len(graph))
            _log_metrics(log, estimator, "test part, label propagation", y[test], spread[test])
        name = "the most frequent class" if is_class else "the mean"
        constant = constant.expand(len(some), -1)
        _log_metrics(log, estimator, name, y[some], constant)
        for metric, reason in undefined(estimator, y[some]).items():
            log(f"{metric}: {reason}")
        if is_noise(estimator.task, metrics, y[some], guess, constant):
            which = "predictions of the test part" if len(test) else "leave-one-out predictions"
            log(
                f"The {which} are not significantly better than a constant ({name}): the data may "
                "not predict the labels."
            )
        write_rows(temporary, prediction_rows(estimator, graph.names, predicted, settings.coverage))
    return len(graph)


def _labels(estimator: NodeEstimator, y: Tensor) -> np.ndarray:
    """Return the labels as [k, c] float32: one-hot classes, or one column of numbers."""
    if isinstance(estimator, NodeClassifier):
        return np.eye(estimator.outputs, dtype=np.float32)[y.long().numpy()]
    return y[:, None].float().numpy()


def _calibrate(estimator: NodeEstimator, y: Tensor, predicted: Tensor) -> None:
    if isinstance(estimator, NodeClassifier):
        estimator.calibrator_ = LabelSetCalibrator.fit(y, predicted[:, None])
    elif isinstance(estimator, NodeRegressor):
        estimator.calibrator_ = IntervalCalibrator.fit(y, predicted, torch.ones_like(predicted))


def _log_metrics(
    log: Log, estimator: NodeEstimator, title: str, y: Tensor, predicted: Tensor
) -> dict[str, float]:
    """Log the metrics of predictions [k, outputs] for k labelled nodes."""
    values = measure(estimator.task, y, predicted)
    texts = (f"{name} {'-' if isnan(value) else f'{value:.4g}'}" for name, value in values.items())
    log(f"{title}: {', '.join(texts)}")
    return values
