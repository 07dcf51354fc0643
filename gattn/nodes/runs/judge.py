"""Of several trainings the one that is kept, and how good it is beside the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from gattn.data import Split
from gattn.nodes.baselines import baseline_predictions
from gattn.nodes.estimators import NodeClassifier
from gattn.nodes.features import EncodedGraph
from gattn.nodes.runs.config import NodeRunSettings
from gattn.nodes.runs.measure import (
    class_scores,
    confusion,
    measure,
    measure_intervals,
    undefined,
    undefined_scores,
)
from gattn.nodes.runs.records import NodeRun
from gattn.nodes.runs.trials import Attempt, choose, spread, undefined_spread

__all__ = ["judge"]


def judge(
    settings: NodeRunSettings,
    encoded: EncodedGraph,
    y: Tensor,
    splits: Sequence[Split],
    attempts: Sequence[Attempt],
) -> NodeRun:
    """Choose a training, and measure it beside the baselines.

    Args:
        settings: of the run.
        encoded: the graph with its features.
        y: [n] labels, NaN where unknown.
        splits: the parts that the trainings name by their number.
        attempts: all trainings.

    Returns:
        What the run holds, with its metrics.
    """
    kept = choose(attempts)
    estimator, made, split = kept.estimator, kept.made, kept.estimator.split_
    task, test = estimator.task, split.test
    spreads = {metric: spread(attempts, metric)._asdict() for metric in kept.test}
    baselines = baseline_predictions(encoded, y, split.train, task, estimator.outputs)
    reasons: dict[str, Any] = {
        "test": undefined(estimator, y[test]),
        "val": undefined(estimator, y[split.val]),
        "runs": undefined_spread(attempts),
    }
    metrics: dict[str, Any] = {
        "task": task,
        "test": kept.test,
        "val": kept.val,
        "baselines": {name: measure(task, y[test], p[test]) for name, p in baselines.items()},
        "runs": {"count": len(attempts), "kept": attempts.index(kept), "test": spreads},
        "intervals": measure_intervals(estimator, y[test], made[test], settings.coverage),
        "split": splits[kept.planned.split].protocol,
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
        reasons["classes"] = undefined_scores(counts, names)
    metrics["undefined"] = {part: told for part, told in reasons.items() if told}
    return NodeRun(settings, encoded, y, split, estimator, made, attempts, metrics)
