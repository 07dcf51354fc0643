"""What is known of a run when its trainings are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gattn.data import Split
from gattn.nodes.base import NodeEstimator
from gattn.nodes.features import EncodedGraph
from gattn.nodes.runs.config import NodeRunSettings
from gattn.nodes.runs.trials import Attempt

__all__ = ["NodeRun"]


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
