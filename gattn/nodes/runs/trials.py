"""Repeated training on one graph: with other first weights, and where parts are drawn, other parts.

A *trial* is one training.
"""

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
from gattn.training.types import EpochRecord, History

__all__ = [
    "Trainer",
    "Trial",
    "TrialPlan",
    "VarianceComponents",
    "best_trial",
    "group_trials",
    "plan_trials",
    "run_trials",
    "undefined_in_trials",
    "variance_components",
]

MIN_PARALLEL = 4
"""Minimum number of trials worth starting worker processes for, if several are trained in one step;
larger networks are worth it from two trials on."""


class TrialPlan(NamedTuple):
    """The parts and the seed of a trial.

    Attributes:
        split: index of its parts among the splits of the run.
        seed: seed of first weights and dropout.
    """

    split: int
    seed: int


@dataclass(frozen=True, eq=False)
class Trial:
    """A trained model and its metrics.

    Attributes:
        plan: the parts and the seed.
        estimator: fitted, without its graph.
        predicted: [n, outputs] predictions of all nodes.
        val: metrics of the validation part.
        test: metrics of the test part.
    """

    plan: TrialPlan
    estimator: NodeEstimator
    predicted: Tensor
    val: dict[str, float]
    test: dict[str, float]

    @property
    def history(self) -> History:
        """The epochs of the training."""
        return self.estimator.history_[0]

    @property
    def validation_loss(self) -> float:
        """Loss of the model on the validation part."""
        return self.estimator.predictor_.validation_loss


class VarianceComponents(NamedTuple):
    """Mean and variation of a metric over trials.

    Attributes:
        mean: over all.
        std: standard deviation over all, NaN of one.
        of_weights: standard deviation over first weights, within the same parts.
        of_parts: standard deviation due to the parts, in addition to that of the weights.
    """

    mean: float
    std: float
    of_weights: float
    of_parts: float


@dataclass(frozen=True, eq=False)
class Trainer:
    """The inputs that all trials share, sent to each process once.

    Attributes:
        estimator: has the classes of the labels; not fitted.
        encoded: the graph.
        y: [n] labels.
        splits: the parts that the plans refer to.
    """

    estimator: NodeEstimator
    encoded: EncodedGraph
    y: Tensor
    splits: Sequence[Split]

    def train(
        self,
        plans: Sequence[TrialPlan],
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    ) -> list[Trial]:
        """Train models with the same parts together, and measure them."""
        estimators = [copy.copy(self.estimator).set_params(seed=plan.seed) for plan in plans]
        fit_together(
            estimators, self.encoded, self.y, self.splits[plans[0].split], on_epoch=on_epoch
        )
        return [self._measure(*pair) for pair in zip(plans, estimators)]

    def _measure(self, plan: TrialPlan, estimator: NodeEstimator) -> Trial:
        predicted = estimator.predictor_.predict(self.encoded.graph)
        val, test = (
            measure(estimator.task, self.y[part], predicted[part])
            for part in (estimator.split_.val, estimator.split_.test)
        )
        del estimator.graph_  # the process that receives the estimator has it
        return Trial(plan, estimator, predicted, val, test)


def plan_trials(runs: int, seed: int, *, drawn: bool) -> list[TrialPlan]:
    """Choose the parts and the seeds of the trials.

    Args:
        runs: number of trials.
        seed: the first seed.
        drawn: True if parts are drawn at random: then about the root of ``runs`` trials share one
            draw, so that the variation over parts can be separated from that over weights.

    >>> [tuple(plan) for plan in plan_trials(5, 0, drawn=True)]
    [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]
    """
    together = max(1, math.isqrt(runs)) if drawn else runs
    return [TrialPlan(i // together, seed + i) for i in range(runs)]


def group_trials(plans: Sequence[TrialPlan], size: int) -> list[list[TrialPlan]]:
    """Group consecutive trials of one split, at most ``size``, which are trained together.

    >>> [len(group) for group in group_trials(plan_trials(16, 0, drawn=True), 3)]
    [3, 1, 3, 1, 3, 1, 3, 1]
    """
    by_split = [list(same) for _, same in groupby(plans, key=lambda plan: plan.split)]
    return [same[i : i + size] for same in by_split for i in range(0, len(same), size)]


def run_trials(
    trainer: Trainer,
    plans: Sequence[TrialPlan],
    *,
    workers: int,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_run_end: Callable[[Trial], None],
) -> list[Trial]:
    """Run the trials, in several processes of one thread each.

    Steps on a small graph are too short for the threads of one training to share, and for Python
    to keep up with: there a process trains several networks in one step, if the model can.

    Args:
        trainer: the inputs that all trials share.
        plans: the trials.
        workers: number of processes; a few trials run one after the other in this process.
        on_epoch: called after each epoch if one process runs all trials.
        on_run_end: called after each trial, in order.

    Returns:
        The trials in order.
    """
    size = batch_size(trainer.estimator.settings(), trainer.encoded.x)
    groups = group_trials(plans, size)
    if workers > 1 and len(groups) > 1 and (size == 1 or len(plans) >= MIN_PARALLEL):
        tasks = ((group, group) for group in groups)
        results = (result for _, result in in_order(trainer.train, tasks, workers))
    else:
        results = (trainer.train(group, on_epoch) for group in groups)
    trials = []
    for trial in chain.from_iterable(results):
        trials.append(trial)
        on_run_end(trial)
    return trials


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the lowest validation loss; the test part is not considered."""
    return min(trials, key=lambda one: one.validation_loss)


def undefined_in_trials(trials: Sequence[Trial]) -> dict[str, str]:
    """Explain for each metric in how many trials it is undefined.

    Args:
        trials: at least one.

    Returns:
        A reason by the name of the metric; empty if every trial has all metrics.
    """
    counts = {
        metric: sum(math.isnan(trial.test[metric]) for trial in trials) for metric in trials[0].test
    }
    return {
        metric: f"undefined in {count:,} of {len(trials):,} trainings, by their test parts"
        for metric, count in counts.items()
        if count
    }


def variance_components(trials: Sequence[Trial], metric: str) -> VarianceComponents:
    """Separate the variation over first weights from that over parts.

    One-way analysis of variance: of groups of k trials with the same parts, the variance within
    is that of the weights; the variance of the groups' means beyond a k-th of it is that of the
    parts.

    Args:
        trials: at least one.
        metric: its name.

    Returns:
        The standard deviations; NaN where there are too few trials to estimate one.
    """
    values = torch.tensor([trial.test[metric] for trial in trials], dtype=torch.float64)
    part = torch.tensor([trial.plan.split for trial in trials])
    groups = [values[part == number] for number in part.unique()]
    mean, std = float(values.mean()), float(values.std()) if len(values) > 1 else math.nan
    freedom = len(values) - len(groups)
    if not freedom:
        return VarianceComponents(mean, std, math.nan, math.nan)
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / freedom
    if len(groups) < 2:
        return VarianceComponents(mean, std, math.sqrt(within), math.nan)
    share = sum(1 / len(group) for group in groups) / len(groups)
    between = float(torch.stack([group.mean() for group in groups]).var()) - within * share
    return VarianceComponents(mean, std, math.sqrt(within), math.sqrt(max(between, 0.0)))
