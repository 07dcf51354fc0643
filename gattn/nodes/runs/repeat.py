"""Several trainings of one graph: other first weights, and where parts are drawn, other parts."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import NamedTuple

import torch
from torch import Tensor

from gattn.data import Split
from gattn.nodes.base import NodeEstimator, fit_together
from gattn.nodes.batched_gat import batch_size
from gattn.nodes.features import EncodedGraph
from gattn.nodes.runs.measure import measure
from gattn.training.processes import in_order
from gattn.training.records import EpochRecord, History

__all__ = [
    "Attempt",
    "Spread",
    "Trainer",
    "choose",
    "plan",
    "spread",
    "stacks",
    "train_all",
    "undefined_spread",
]

SIDE_BY_SIDE = 4
"""Fewer trainings end before other processes have started."""


class Planned(NamedTuple):
    """A training to come: the number of its split, and the seed of weights and dropout.

    Attributes:
        split: the position of its parts among the splits of the run, from 0.
        seed: of first weights and dropout.
    """

    split: int
    seed: int


@dataclass(frozen=True, eq=False)
class Attempt:
    """A training that was done.

    Attributes:
        planned: the parts and the seed.
        estimator: fitted, without its graph.
        made: [n, outputs] predictions of all nodes.
        val: metrics of the validation part.
        test: metrics of the test part.
    """

    planned: Planned
    estimator: NodeEstimator
    made: Tensor
    val: dict[str, float]
    test: dict[str, float]

    @property
    def history(self) -> History:
        """What was recorded."""
        return self.estimator.history_[0]


class Spread(NamedTuple):
    """How a metric varies over trainings.

    Attributes:
        mean: over all.
        std: over all, NaN of one.
        of_weights: standard deviation over first weights, within the same parts.
        of_parts: standard deviation that is due to the parts, beside that of weights.
    """

    mean: float
    std: float
    of_weights: float
    of_parts: float


@dataclass(frozen=True, eq=False)
class Trainer:
    """What all trainings share, which is sent to each process once.

    Attributes:
        estimator: knows the labels, is not fitted.
        encoded: the graph.
        y: [n] labels.
        splits: the parts that a plan numbers.
    """

    estimator: NodeEstimator
    encoded: EncodedGraph
    y: Tensor
    splits: Sequence[Split]

    def train(
        self,
        planned: Sequence[Planned],
        learned: Callable[[EpochRecord], None] = lambda record: None,
    ) -> list[Attempt]:
        """Train together what has the same parts, and measure what came of it."""
        estimators = [copy.copy(self.estimator).set_params(seed=one.seed) for one in planned]
        fit_together(estimators, self.encoded, self.y, self.splits[planned[0].split], tick=learned)
        return [self._measure(*one) for one in zip(planned, estimators)]

    def _measure(self, planned: Planned, estimator: NodeEstimator) -> Attempt:
        made = estimator.predictor_.predict(self.encoded.graph)
        val, test = (
            measure(estimator.task, self.y[part], made[part])
            for part in (estimator.split_.val, estimator.split_.test)
        )
        del estimator.graph_  # the process that gets the estimator has it
        return Attempt(planned, estimator, made, val, test)


def plan(runs: int, seed: int, *, drawn: bool) -> list[Planned]:
    """Say which parts and seeds the trainings have.

    Args:
        runs: how many.
        seed: the first.
        drawn: whether parts are drawn at random: then about the root of ``runs`` trainings share
            one draw, so that both spreads can be told apart.

    >>> [tuple(one) for one in plan(5, 0, drawn=True)]
    [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]
    """
    together = max(1, math.isqrt(runs)) if drawn else runs
    return [Planned(i // together, seed + i) for i in range(runs)]


def stacks(planned: Sequence[Planned], size: int) -> list[list[Planned]]:
    """Say which trainings are done together: at most ``size`` one after the other of one part.

    >>> [len(stack) for stack in stacks(plan(16, 0, drawn=True), 3)]
    [3, 1, 3, 1, 3, 1, 3, 1]
    """
    parts = [list(same) for _, same in groupby(planned, key=lambda one: one.split)]
    return [same[i : i + size] for same in parts for i in range(0, len(same), size)]


def train_all(
    trainer: Trainer,
    planned: Sequence[Planned],
    *,
    workers: int,
    learned: Callable[[EpochRecord], None] = lambda record: None,
    done: Callable[[Attempt], None],
) -> list[Attempt]:
    """Train as planned, side by side in several processes of one thread each.

    Steps on a small graph are too short for the threads of one training to share, and for Python
    to keep up with: there a process trains several networks in one step, where the model can.

    Args:
        trainer: what all trainings share.
        planned: the trainings.
        workers: processes; a few trainings are done one after the other here.
        learned: told of each epoch where one process does it all: others have nobody to tell.
        done: told of each training, in order.

    Returns:
        The trainings in order.
    """
    tasks = stacks(planned, batch_size(trainer.estimator.settings(), trainer.encoded.x))
    several = workers > 1 and len(tasks) > 1 and len(planned) >= SIDE_BY_SIDE
    found = []
    made = (
        in_order(trainer.train, tasks, workers)
        if several
        else (trainer.train(task, learned) for task in tasks)
    )
    for attempt in chain.from_iterable(made):
        found.append(attempt)
        done(attempt)
    return found


def choose(attempts: Sequence[Attempt]) -> Attempt:
    """The training whose chosen epoch has the lowest validation loss; the test part has no say."""
    return min(attempts, key=lambda one: one.history.records[one.history.chosen].validation_loss)


def undefined_spread(attempts: Sequence[Attempt]) -> dict[str, str]:
    """Say of each metric that some trainings leave undefined in how many of them it is.

    Args:
        attempts: at least one.

    Returns:
        A reason by the name of the metric; empty where every training has all metrics.
    """
    missing = {
        metric: sum(math.isnan(one.test[metric]) for one in attempts) for metric in attempts[0].test
    }
    return {
        metric: f"undefined in {count:,} of {len(attempts):,} trainings, by their test parts"
        for metric, count in missing.items()
        if count
    }


def spread(attempts: Sequence[Attempt], metric: str) -> Spread:
    """Tell the spread over first weights from that over parts.

    One-way analysis of variance: of groups of k trainings with the same parts, the variance within
    is that of the weights; what the groups' means vary beyond a k-th of it is that of the parts.

    Args:
        attempts: at least one.
        metric: by its name.

    Returns:
        The spread; NaN where there are too few trainings to tell.
    """
    values = torch.tensor([one.test[metric] for one in attempts], dtype=torch.float64)
    part = torch.tensor([one.planned.split for one in attempts])
    groups = [values[part == number] for number in part.unique()]
    mean, std = float(values.mean()), float(values.std()) if len(values) > 1 else math.nan
    freedom = len(values) - len(groups)
    if not freedom:
        return Spread(mean, std, math.nan, math.nan)
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / freedom
    if len(groups) < 2:
        return Spread(mean, std, math.sqrt(within), math.nan)
    share = sum(1 / len(group) for group in groups) / len(groups)
    between = float(torch.stack([group.mean() for group in groups]).var()) - within * share
    return Spread(mean, std, math.sqrt(within), math.sqrt(max(between, 0.0)))
