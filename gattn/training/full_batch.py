"""Training with all items in every step, as on one graph of many nodes.

One graph gives one batch and one step per epoch, of milliseconds. There is nothing to shuffle or to
share among processes, no schedule and no average of the weights. The losses, histories and errors
are those of :mod:`gattn.training.loop`. Several networks are trained at once, because one step of
all of them together takes less time than their steps one after the other.
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
    """Settings of training on all items at once.

    Attributes:
        epochs: maximum number of steps.
        patience: stop after this many epochs in which no criterion reached its best value.
        learning_rate: constant learning rate of Adam.
        weight_decay: λ of the penalty λ/2 |w|².
        seed: seed of dropout, which is drawn for one network after the other.
    """

    epochs: int
    patience: int
    learning_rate: float
    weight_decay: float
    seed: int


@dataclass(frozen=True, eq=False)
class FullBatch(Generic[Inputs]):
    """Part of the data: the input of the network, and its targets [g, t], NaN if unknown."""

    inputs: Inputs
    target: Tensor


def apply_each(networks: Sequence[nn.Module], inputs: object) -> Tensor:
    """Compute outputs [r, g, u] of r networks, one after the other."""
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
) -> list[History]:
    """Train networks in place by Adam, and leave each with the weights of its best epoch.

    A step lowers the sum of the losses; the gradient of each network comes from its own loss. There
    are two criteria on the validation part: the loss and, if given, a score. An epoch is chosen if
    both equal or exceed their best values so far. The training of a network stops ``patience``
    epochs after the last epoch in which either did. The authors of the GAT paper stop in this way,
    with the accuracy as the score.

    Args:
        networks: networks of one shape; they end in eval mode.
        loss: of outputs [g, u] and targets [g, t], element by element: [g, t]; it sees 0 where a
            target is NaN, and its value there is left out.
        train: training part.
        validate: validation part, which chooses the epoch.
        settings: settings of the training.
        apply: gives the outputs [r, g, u] of r of the networks, all in training or none.
        score: like the loss, on the validation part only; higher is better.
        on_epoch: called after every epoch.

    Returns:
        For each network a record of every epoch, whose seconds are its share of the time, and the
        epoch that was chosen.

    Raises:
        TrainingError: no label of a part is known, or a loss is not finite.

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
            raise TrainingError(f"no label of the {part} part is known")
    parameters = [weight for network in networks for weight in network.parameters()]
    optimizer = torch.optim.Adam(
        parameters, settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    runs = [_Run(network) for network in networks]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for epoch in range(settings.epochs):
            began = time.perf_counter()
            going = [run for run in runs if run.waited < settings.patience]
            if not going:
                break
            active = [run.network.train() for run in going]
            fitted = _masked_means(apply(active, train.inputs), train.target, loss)
            optimizer.zero_grad()  # weights of finished networks get no gradient and no step
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
    return [run.end() for run in runs]


class _Run(Generic[Network]):
    """Training state of one network: its records, and its weights at the best epoch."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.records: list[EpochRecord] = []
        self.best: list[float] = []
        self.epoch, self.waited = -1, 0
        self.weights: dict[str, Tensor] = {}

    def judge(self, epoch: int, criteria: list[float]) -> None:
        """Update the best weights and the patience; higher criteria are better."""
        self.best = self.best or [-math.inf] * len(criteria)
        good = [now >= before for now, before in zip(criteria, self.best)]
        self.best = [max(pair) for pair in zip(criteria, self.best)]
        if all(good):
            self.epoch = epoch
            self.weights = {k: v.clone() for k, v in self.network.state_dict().items()}
        self.waited = 0 if any(good) else self.waited + 1

    def end(self) -> History:
        """Restore the best weights of the network."""
        self.network.load_state_dict(self.weights)
        self.network.eval()
        return History(tuple(self.records), self.epoch)


def _masked_means(output: Tensor, target: Tensor, loss: Loss) -> Tensor:
    """Return each network's mean loss over known labels: [r] for outputs [r, g, u]."""
    several, labelled = len(output), ~target.isnan()
    lost = loss(output.flatten(0, 1), target.nan_to_num(0.0).repeat(several, 1))
    lost = lost.unflatten(0, (several, -1))
    return torch.where(labelled, lost, 0.0).sum((1, 2)) / labelled.sum()
