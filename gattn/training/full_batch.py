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
    """How a network is trained on all items at once.

    Attributes:
        epochs: at most so many steps.
        patience: stop after so many in which no criterion was as good as ever.
        learning_rate: of Adam, the same in all epochs.
        weight_decay: λ of the penalty λ/2 |w|².
        seed: of dropout, which is drawn for all networks one after the other.
    """

    epochs: int
    patience: int
    learning_rate: float
    weight_decay: float
    seed: int


@dataclass(frozen=True, eq=False)
class FullBatch(Generic[Inputs]):
    """A part of the data: what the network is called with, and its targets [g, t], NaN unknown."""

    inputs: Inputs
    target: Tensor


def apply_each(networks: Sequence[nn.Module], inputs: object) -> Tensor:
    """Outputs [r, g, u] of r networks, one after the other."""
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
    tick: Callable[[EpochRecord], None] = lambda record: None,
) -> list[History]:
    """Train networks in place by Adam, and leave each with the weights of its best epoch.

    A step lowers the sum of their losses, of which each network sees its own. Two criteria watch
    the validation part: the loss, and a score where one is given. An epoch is chosen where both
    are as good as ever; the training of a network goes on while either is, and ends ``patience``
    epochs after the last of them: then it takes no further part. That is how the GAT paper's
    authors stop, with the accuracy as the score.

    Args:
        networks: of one shape; they end in eval mode.
        loss: of outputs [g, u] and targets [g, t], element by element: [g, t]; it sees 0 where a
            target is NaN, and its value there is left out.
        train: what to learn from.
        validate: what chooses the epoch.
        settings: how.
        apply: gives the outputs [r, g, u] of r of the networks, all in training or none.
        score: as the loss, of the validation part alone; the higher the better.
        tick: told of every epoch.

    Returns:
        For each network a record of every epoch, whose seconds are its share of them, and the
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
            optimizer.zero_grad()  # without a gradient the weights of those that ended stay
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
                tick(run.records[-1])
            for run, values in zip(going, torch.stack(criteria, 1).tolist()):
                run.judge(epoch, values)
    return [run.end() for run in runs]


class _Run(Generic[Network]):
    """The training of one network: its records, and its weights where all criteria were best."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.records: list[EpochRecord] = []
        self.best: list[float] = []
        self.epoch, self.waited = -1, 0
        self.weights: dict[str, Tensor] = {}

    def judge(self, epoch: int, criteria: list[float]) -> None:
        """Keep the weights, wait on, or begin to wait anew; the higher a criterion the better."""
        self.best = self.best or [-math.inf] * len(criteria)
        good = [now >= before for now, before in zip(criteria, self.best)]
        self.best = [max(pair) for pair in zip(criteria, self.best)]
        if all(good):
            self.epoch = epoch
            self.weights = {k: v.clone() for k, v in self.network.state_dict().items()}
        self.waited = 0 if any(good) else self.waited + 1

    def end(self) -> History:
        """Leave the network with its best weights."""
        self.network.load_state_dict(self.weights)
        self.network.eval()
        return History(tuple(self.records), self.epoch)


def _masked_means(output: Tensor, target: Tensor, loss: Loss) -> Tensor:
    """The mean loss of each network over the known labels: [r] of outputs [r, g, u]."""
    several, known = len(output), ~target.isnan()
    lost = loss(output.flatten(0, 1), target.nan_to_num(0.0).repeat(several, 1))
    lost = lost.unflatten(0, (several, -1))
    return torch.where(known, lost, 0.0).sum((1, 2)) / known.sum()
