"""Training loop in which each step uses all items, for example the nodes of one large graph.

One graph is one batch, so an epoch is one step, which takes milliseconds. Unlike
:mod:`gattn.apps.fitting.loop`, this loop has no shuffling, no parallel processes and no average of
the weights; losses, histories and errors are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from gattn.apps.fitting.losses import check_finite
from gattn.apps.fitting.optimizer import OneCycle
from gattn.apps.fitting.types import EpochRecord, History, Loss, TrainingError

WARMUP = 0.1
"""Share of the epochs in which the learning rate of a one-cycle schedule rises."""

LEAST_GAIN = 0.005
"""Least improvement of a criterion, relative to its value. Over a hundred runs on Cora, this
threshold saves a tenth of the epochs at the same accuracy. On a network of 60,000 nodes, whose loss
falls slowly for hundreds of epochs, it saves a third.
"""

Inputs = TypeVar("Inputs")


@dataclass(frozen=True)
class FullBatchSettings:
    """Settings of full-batch training.

    Attributes:
        epochs: maximum number of steps.
        patience: stop after this many epochs in which no criterion improved by at least 0.5 %.
        learning_rate: learning rate of Adam; the peak learning rate of a one-cycle schedule.
        weight_decay: coefficient λ of the penalty λ/2 |w|². With a one-cycle schedule, the weights
            decay separately from the gradients, as in AdamW.
        seed: seed of the dropout masks.
        schedule: ``"constant"``, or ``"one-cycle"`` for a rate that rises in the first tenth of the
            epochs and then falls to zero.
    """

    epochs: int
    patience: int
    learning_rate: float
    weight_decay: float
    seed: int
    schedule: Literal["constant", "one-cycle"] = "constant"


@dataclass(frozen=True, eq=False)
class FullBatch(Generic[Inputs]):
    """Inputs of a network for one part of the data, and the targets [g, t], with NaN for
    missing targets.
    """

    inputs: Inputs
    target: Tensor


def fit_full_batch(
    network: nn.Module,
    loss: Loss,
    train: FullBatch[Inputs],
    validate: FullBatch[Inputs],
    settings: FullBatchSettings,
    *,
    score: Loss | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> History:
    """Train a network in place with Adam; at the end, it has the weights of its best epoch.

    There are two criteria on the validation part: the loss and, optionally, a score. An epoch is
    the best so far if all criteria are at least as good as in all previous epochs. The training
    stops ``patience`` epochs after the last epoch in which at least one criterion improved by 0.5 %
    or more. The authors of the GAT paper use the same rule, with the accuracy as the score, but for
    them any improvement and an equal value are sufficient.

    The state of torch's global generator on the CPU is the same before and after the training.

    Args:
        network: the network; it ends in eval mode. If the training fails, it has the weights of
            the last step.
        loss: function of outputs [g, u] and targets [g, t] with element-wise results [g, t].
            Missing targets are replaced by 0, and their losses are ignored.
        train: training part.
        validate: validation part, by which the best epoch is chosen.
        settings: settings of the training.
        score: element-wise function like ``loss``, for the validation part; higher is better.
        on_epoch: called with the record of each epoch.

    Returns:
        A record of every epoch, and the best epoch.

    Raises:
        TrainingError: a part has no labels, or a loss is not finite.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), section 3.3.

    Example:
        >>> from gattn.apps.fitting.losses import squared_error
        >>> part = FullBatch(torch.ones(4, 1), torch.full((4, 1), 2.0))
        >>> settings = FullBatchSettings(50, 10, 0.1, 0.0, seed=0)
        >>> history = fit_full_batch(nn.Linear(1, 1), squared_error, part, part, settings)
        >>> history.records[history.chosen].validation_loss < history.records[0].validation_loss
        True
    """
    for part, batch in (("training", train), ("validation", validate)):
        if not batch.target.isfinite().any():
            raise TrainingError(f"the {part} part must have labels; all its labels are missing")
    kind = torch.optim.Adam if settings.schedule == "constant" else torch.optim.AdamW
    optimizer = kind(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    choice, records = EpochChoice(), []
    weights: dict[str, Tensor] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for epoch in range(settings.epochs):
            began = time.perf_counter()
            rate = _set_rate(optimizer, settings, epoch)
            fitted = _masked_mean(network.train()(train.inputs), train.target, loss)
            optimizer.zero_grad()
            fitted.backward()
            optimizer.step()
            with torch.no_grad():
                output = network.eval()(validate.inputs)
                lost = float(_masked_mean(output, validate.target, loss))
                criteria = [-lost]
                if score is not None:
                    criteria.append(float(_masked_mean(output, validate.target, score)))
            trained = float(fitted.detach())
            check_finite(trained, "training", epoch, rate)
            check_finite(lost, "validation", epoch, rate)
            seconds = time.perf_counter() - began
            records.append(EpochRecord(epoch, trained, lost, rate, seconds))
            on_epoch(records[-1])
            if choice.judge(epoch, criteria):
                weights = {name: value.clone() for name, value in network.state_dict().items()}
            if choice.waited >= settings.patience:
                break
    network.load_state_dict(weights)
    return History(tuple(records), choice.epoch)


def _set_rate(optimizer: torch.optim.Adam, settings: FullBatchSettings, epoch: int) -> float:
    """Set the learning rate and the momentum of an epoch in the optimizer, and return the rate. In
    a constant schedule, the optimizer is not changed, because it already has the rate.
    """
    if settings.schedule == "constant":
        return settings.learning_rate
    rate, momentum = OneCycle(settings.learning_rate, settings.epochs, WARMUP).at(epoch)
    for group in optimizer.param_groups:
        group["lr"], group["betas"] = rate, (momentum, group["betas"][1])
    return rate


class EpochChoice:
    """Choice of the best epoch, and number of epochs without an improvement."""

    def __init__(self) -> None:
        self.best: list[float] = []
        self.reference: list[float] = []
        self.epoch, self.waited = -1, 0

    def judge(self, epoch: int, criteria: list[float]) -> bool:
        """Compare the criteria of an epoch (higher is better) with the best values of earlier
        epochs.

        If at least one criterion exceeds its reference, the value at its last improvement, by
        ``LEAST_GAIN``, the number of epochs without an improvement is reset to 0; otherwise this
        number increases by 1. Return True if all criteria are at least as high as in all earlier
        epochs, so that the weights of the epoch must be stored.
        """
        none = [-math.inf] * len(criteria)
        self.best, self.reference = self.best or none, self.reference or none
        is_best = all(now >= before for now, before in zip(criteria, self.best))
        self.best = [max(pair) for pair in zip(criteria, self.best)]
        if is_best:
            self.epoch = epoch
        pairs = list(zip(criteria, self.reference))
        gains = [now - before > LEAST_GAIN * abs(now) for now, before in pairs]
        self.reference = [now if gain else before for (now, before), gain in zip(pairs, gains)]
        self.waited = 0 if any(gains) else self.waited + 1
        return is_best


def _masked_mean(output: Tensor, target: Tensor, loss: Loss) -> Tensor:
    """Return the mean loss of outputs [g, u] over the targets [g, t] that are not NaN; NaN if all
    are.
    """
    labelled = ~target.isnan()
    lost = loss(output, target.nan_to_num(0.0))
    return torch.where(labelled, lost, 0.0).sum() / labelled.sum()
