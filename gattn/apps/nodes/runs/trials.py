"""Repeated training on one graph, with different seeds and different random splits.

Each training is called a *trial*.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.features import EncodedGraph
from gattn.apps.nodes.runs.measure import measure
from gattn.apps.runtime.processes import in_order
from gattn.data import Split


class TrialPlan(NamedTuple):
    """Split and seed with which a trial is trained.

    Attributes:
        split: index of the trial's split among the splits of the run.
        seed: seed of initial weights and dropout.
    """

    split: int
    seed: int


@dataclass(frozen=True, eq=False)
class Trial:
    """Trained model and its metrics.

    Attributes:
        plan: the split and the seed.
        estimator: the fitted estimator, without its graph.
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
        """Training history, with a record of each epoch."""
        return self.estimator.history_[0]

    @property
    def validation_loss(self) -> float:
        """Loss of the model on the validation part."""
        return self.estimator.predictor_.validation_loss


class VarianceComponents(NamedTuple):
    """Mean of a metric over trials, and the parts of its variation.

    Attributes:
        mean: mean over all trials.
        std: standard deviation over all trials; NaN for a single trial.
        of_weights: standard deviation over trials with the same split, which is caused by the
            initial weights.
        of_parts: standard deviation that is caused by the split, in addition to ``of_weights``.
    """

    mean: float
    std: float
    of_weights: float
    of_parts: float


@dataclass(frozen=True, eq=False)
class Trainer:
    """Inputs that are common to all trials; each process receives them once.

    Attributes:
        estimator: the estimator before training; it has the classes of the labels.
        encoded: the graph with its features.
        y: [n] labels, NaN for nodes without a label.
        splits: the splits, to which plans refer by index.
    """

    estimator: NodeEstimator
    encoded: EncodedGraph
    y: Tensor
    splits: Sequence[Split]

    def train(
        self, plan: TrialPlan, on_epoch: Callable[[EpochRecord], None] = lambda record: None
    ) -> Trial:
        """Train the model of a plan, and return it with its metrics."""
        estimator = copy.copy(self.estimator).set_params(seed=plan.seed)
        estimator.fit_parts(self.encoded, self.y, self.splits[plan.split], on_epoch=on_epoch)
        return self._measure(plan, estimator)

    def _measure(self, plan: TrialPlan, estimator: NodeEstimator) -> Trial:
        predictor, split = estimator.predictor_, estimator.split_
        predicted = predictor.predict(self.encoded.graph)
        # The final models of a stack may also be fitted to the validation part.
        val = measure(estimator.task, self.y[split.val], predictor.validation)
        test = measure(estimator.task, self.y[split.test], predicted[split.test])
        # The graph is not sent, because the process that receives the trial already has it.
        del estimator.graph_
        return Trial(plan, estimator, predicted, val, test)


def plan_trials(runs: int, seed: int, *, drawn: bool) -> list[TrialPlan]:
    """Choose the split and the seed of each trial.

    Args:
        runs: number of trials.
        seed: seed of the first trial.
        drawn: True if splits are drawn at random. Then the square root of ``runs``, rounded down,
            is the number of trials that share a split, so that the effects of splits and of initial
            weights can be separated.

    >>> [tuple(plan) for plan in plan_trials(5, 0, drawn=True)]
    [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)]
    """
    together = max(1, math.isqrt(runs)) if drawn else runs
    return [TrialPlan(i // together, seed + i) for i in range(runs)]


def run_trials(
    trainer: Trainer,
    plans: Sequence[TrialPlan],
    *,
    workers: int,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_run_end: Callable[[Trial], None],
) -> list[Trial]:
    """Run the trials in several processes that have one thread each.

    On a small graph a training step is too short to be shared among threads.

    Args:
        trainer: the inputs that all trials share.
        plans: the trials.
        workers: number of processes; a few trials run one after the other in this process.
        on_epoch: called after each epoch if one process runs all trials.
        on_run_end: called after each trial, in order.

    Returns:
        The trials in order.
    """
    # Trials on a large graph run one after another in this process, so that the graph is in memory
    # once.
    is_large = trainer.encoded.graph.compact
    if not is_large and workers > 1 and len(plans) > 1:
        results = (
            result for _, result in in_order(trainer.train, zip(plans, plans), workers, ahead=1)
        )
    else:
        results = (trainer.train(plan, on_epoch) for plan in plans)
    trials = []
    for trial in results:
        trials.append(trial)
        on_run_end(trial)
    return trials


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the trial with the lowest validation loss; the test part has no influence."""
    return min(trials, key=lambda one: one.validation_loss)


def variance_components(trials: Sequence[Trial], metric: str) -> VarianceComponents:
    """Separate the variation of a metric that is due to initial weights from the variation that is
    due to splits.

    This is a one-way analysis of variance of groups of k trials with the same split. The variance
    within groups, v, is due to the weights. The variance of the groups' means, minus v / k, is due
    to the splits.

    Args:
        trials: one or more trials.
        metric: name of the metric.

    Returns:
        The mean and the standard deviations; NaN for a standard deviation that needs more trials.
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
