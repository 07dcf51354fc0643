"""The loop of a training that takes all its items in every step, as on one graph of many nodes.

One graph gives one batch and one step an epoch, of milliseconds. There is nothing to shuffle, to
load or to share among processes, and Lightning's epoch (two loops, two loaders, their hooks) is
made for many steps. So this loop is a loop; settings, losses, histories and errors are
those of :mod:`gattn.training.loop`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from gattn.training.records import EpochRecord, History, Loss, TrainingError

__all__ = ["FullBatch", "FullBatchSettings", "fit_full_batch"]

Inputs = TypeVar("Inputs")


@dataclass(frozen=True)
class FullBatchSettings:
    """How a network is trained on all items at once.

    Attributes:
        epochs: at most so many steps.
        patience: stop after so many in which no criterion was as good as ever.
        learning_rate: of Adam, the same in all epochs.
        weight_decay: λ of the penalty λ/2 |w|².
        seed: of dropout.
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


def fit_full_batch(
    network: nn.Module,
    loss: Loss,
    train: FullBatch[Inputs],
    validate: FullBatch[Inputs],
    settings: FullBatchSettings,
    *,
    score: Callable[[Tensor, Tensor], float] | None = None,
    tick: Callable[[EpochRecord], None] = lambda record: None,
) -> History:
    """Train a network in place by Adam, and leave it with the weights of its best epoch.

    Two criteria watch the validation part: its loss, and a score where one is given. An epoch is
    chosen where both are as good as ever; training goes on while either is, and ends ``patience``
    epochs after the last of them. That is how the GAT paper's authors stop, with the accuracy as
    the score.

    Args:
        network: called with the inputs, gives [g, u]. It ends in eval mode.
        loss: of outputs [g, u] and targets [g, t], element by element: [g, t]; it sees 0 where a
            target is NaN, and its value there is left out.
        train: what to learn from.
        validate: what chooses the epoch.
        settings: how.
        score: of outputs and targets of the validation part, the higher the better.
        tick: told of every epoch.

    Returns:
        A record of every epoch, and the epoch that was chosen.

    Raises:
        TrainingError: no label of a part is known, or the loss is not finite.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), section 3.3.

    Example:
        >>> from gattn.training.losses import squared_error
        >>> part = FullBatch(torch.ones(4, 1), torch.full((4, 1), 2.0))
        >>> settings = FullBatchSettings(50, 10, 0.1, 0.0, seed=0)
        >>> history = fit_full_batch(nn.Linear(1, 1), squared_error, part, part, settings)
        >>> history.records[history.chosen].validation_loss < history.records[0].validation_loss
        True
    """
    for part, batch in (("training", train), ("validation", validate)):
        if not batch.target.isfinite().any():
            raise TrainingError(f"no label of the {part} part is known")
    optimizer = torch.optim.Adam(
        network.parameters(), settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    best = _Best(network)
    records: list[EpochRecord] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for epoch in range(settings.epochs):
            began = time.perf_counter()
            fitted = _masked_mean(network.train()(train.inputs), train.target, loss)
            optimizer.zero_grad()
            fitted.backward()
            optimizer.step()
            with torch.no_grad():
                output = network.eval()(validate.inputs)
                lost = float(_masked_mean(output, validate.target, loss))
            trained = fitted.item()
            _check_finite(trained, lost, epoch, settings)
            best.judge(epoch, lost, None if score is None else score(output, validate.target))
            rate, seconds = settings.learning_rate, time.perf_counter() - began
            records.append(EpochRecord(epoch, trained, lost, rate, seconds))
            tick(records[-1])
            if best.waited == settings.patience:
                break
    network.load_state_dict(best.weights)
    network.eval()
    return History(tuple(records), best.epoch)


class _Best:
    """The weights of the epoch in which every criterion was as good as ever."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.loss, self.score = math.inf, -math.inf
        self.epoch, self.waited = -1, 0
        self.weights: dict[str, Tensor] = {}

    def judge(self, epoch: int, loss: float, score: float | None) -> None:
        """Keep the weights, wait on, or begin to wait anew."""
        good = [loss <= self.loss]
        self.loss = min(loss, self.loss)
        if score is not None:
            good.append(score >= self.score)
            self.score = max(score, self.score)
        if all(good):
            self.epoch = epoch
            self.weights = {k: v.clone() for k, v in self.network.state_dict().items()}
        self.waited = 0 if any(good) else self.waited + 1


def _masked_mean(output: Tensor, target: Tensor, loss: Loss) -> Tensor:
    """The mean loss over the known labels."""
    known = ~target.isnan()
    lost = loss(output, target.nan_to_num(0.0))
    return torch.where(known, lost, 0.0).sum() / known.sum()


def _check_finite(train: float, validation: float, epoch: int, settings: FullBatchSettings) -> None:
    for part, value in (("training", train), ("validation", validation)):
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss of the {part} part is not finite in epoch {epoch}: lower the learning "
                f"rate ({settings.learning_rate}) or look at the data"
            )
