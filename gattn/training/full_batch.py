"""Training loop in which each step uses all items, for example the nodes of one large graph.

One graph is one batch, so an epoch is one step, which takes milliseconds. Unlike
:mod:`gattn.training.loop`, this loop has no shuffling, no parallel processes, no learning rate
schedule and no average of the weights; losses, histories and errors are the same. Several networks
are trained together, because one combined step takes less time than separate steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from gattn.training.losses import check_finite
from gattn.training.types import EpochRecord, History, Loss, TrainingError

__all__ = ["FullBatch", "FullBatchSettings", "apply_each", "fit_full_batches"]

Inputs = TypeVar("Inputs")
Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class FullBatchSettings:
    """Settings of full-batch training.

    Attributes:
        epochs: maximum number of steps.
        patience: stop after this many epochs in which no criterion reached its best value.
        learning_rate: constant learning rate of Adam.
        weight_decay: coefficient λ of the penalty λ/2 |w|².
        seed: seed of the dropout masks, which are sampled for the networks in order.
    """

    epochs: int
    patience: int
    learning_rate: float
    weight_decay: float
    seed: int


@dataclass(frozen=True, eq=False)
class FullBatch(Generic[Inputs]):
    """Inputs of the networks for one part of the data, and the targets [g, t], with NaN for
    missing targets.
    """

    inputs: Inputs
    target: Tensor


def apply_each(networks: Sequence[nn.Module], inputs: object) -> Tensor:
    """Apply r networks one after another, and return their stacked outputs [r, g, u]."""
    return torch.stack([network(inputs) for network in networks])


def fit_full_batches(
    networks: Sequence[Network],
    loss: Loss,
    train: FullBatch[Inputs],
    validate: FullBatch[Inputs],
    settings: FullBatchSettings,
    *,
    apply: Callable[[Sequence[Network], Inputs], Tensor] = apply_each,
    score: Loss | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    stop: Callable[[Sequence[EpochRecord]], bool] = lambda records: False,
) -> list[History]:
    """Train networks in place with Adam; at the end, each network has the weights of its best
    epoch.

    A step minimises the sum of the losses; the gradient of each network depends only on its loss.
    There are two criteria on the validation part: the loss and, optionally, a score. An epoch is
    the best so far if all criteria are at least as good as in all previous epochs. The training of
    a network stops ``patience`` epochs after the last epoch in which at least one criterion reached
    its best value.
    The authors of the GAT paper use this rule, with the accuracy as the score.

    Args:
        networks: networks of the same shape; they end in eval mode.
        loss: function of outputs [g, u] and targets [g, t] with element-wise results [g, t].
            Missing targets are replaced by 0, and their losses are ignored.
        train: training part.
        validate: validation part, by which the best epoch is chosen.
        settings: settings of the training.
        apply: function that returns the outputs [r, g, u] of r of the networks, which are either
            all in training mode or all in eval mode.
        score: element-wise function like ``loss``, for the validation part; higher is better.
        on_epoch: called with the record of each network's epoch.
        stop: function of the records of a network's past epochs; if it returns True, the training
            of the network ends.

    Returns:
        For each network its history: a record of every epoch, whose duration is the network's share
        of the time, and the best epoch.

    Raises:
        TrainingError: a part has no labels, or a loss is not finite.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), section 3.3.

    Example:
        >>> from gattn.training.losses import squared_error
        >>> part = FullBatch(torch.ones(4, 1), torch.full((4, 1), 2.0))
        >>> settings = FullBatchSettings(50, 10, 0.1, 0.0, seed=0)
        >>> (history,) = fit_full_batches([nn.Linear(1, 1)], squared_error, part, part, settings)
        >>> history.records[history.chosen].validation_loss < history.records[0].validation_loss
        True
    """
    for part, batch in (("training", train), ("validation", validate)):
        if not batch.target.isfinite().any():
            raise TrainingError(f"the {part} part must have labels; all its labels are missing")
    parameters = [weight for network in networks for weight in network.parameters()]
    optimizer = torch.optim.Adam(
        parameters, settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    runs = [_Run(network) for network in networks]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for epoch in range(settings.epochs):
            began = time.perf_counter()
            going = [run for run in runs if run.waited < settings.patience and not run.stopped]
            if not going:
                break
            active = [run.network.train() for run in going]
            fitted = _masked_means(apply(active, train.inputs), train.target, loss)
            # The weights of networks that have finished have no gradients, so Adam does not change
            # them.
            optimizer.zero_grad()
            fitted.sum().backward()
            optimizer.step()
            active = [run.network.eval() for run in going]
            with torch.no_grad():
                output = apply(active, validate.inputs)
                lost = _masked_means(output, validate.target, loss)
                criteria = [-lost]
                if score is not None:
                    criteria.append(_masked_means(output, validate.target, score))
            seconds = (time.perf_counter() - began) / len(going)
            rate = settings.learning_rate
            for run, trained, validated in zip(going, fitted.tolist(), lost.tolist()):
                check_finite(trained, "training", epoch, rate)
                check_finite(validated, "validation", epoch, rate)
                run.records.append(EpochRecord(epoch, trained, validated, rate, seconds))
                on_epoch(run.records[-1])
            for run, values in zip(going, torch.stack(criteria, 1).tolist()):
                run.judge(epoch, values)
                run.stopped = stop(run.records)
    return [run.end() for run in runs]


class _Run(Generic[Network]):
    """State of the training of one network: its records, and its weights at the best epoch."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.records: list[EpochRecord] = []
        self.best: list[float] = []
        self.epoch, self.waited, self.stopped = -1, 0, False
        self.weights: dict[str, Tensor] = {}

    def judge(self, epoch: int, criteria: list[float]) -> None:
        """Compare the criteria of an epoch (higher is better) with the best values of earlier
        epochs.

        If all criteria are at least as high, the weights of the epoch are stored. If at least one
        is, the number of epochs without an improvement is reset to 0; otherwise it increases by 1.
        """
        self.best = self.best or [-math.inf] * len(criteria)
        good = [now >= before for now, before in zip(criteria, self.best)]
        self.best = [max(pair) for pair in zip(criteria, self.best)]
        if all(good):
            self.epoch = epoch
            self.weights = {k: v.clone() for k, v in self.network.state_dict().items()}
        self.waited = 0 if any(good) else self.waited + 1

    def end(self) -> History:
        """Restore the best weights of the network, and return its history."""
        self.network.load_state_dict(self.weights)
        self.network.eval()
        return History(tuple(self.records), self.epoch)


def _masked_means(output: Tensor, target: Tensor, loss: Loss) -> Tensor:
    """Return the mean loss of each of r networks, [r], over the targets that are not NaN."""
    several, labelled = len(output), ~target.isnan()
    lost = loss(output.flatten(0, 1), target.nan_to_num(0.0).repeat(several, 1))
    lost = lost.unflatten(0, (several, -1))
    return torch.where(labelled, lost, 0.0).sum((1, 2)) / labelled.sum()
