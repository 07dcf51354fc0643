"""Training loop in which each step uses all items, for example the nodes of one large graph.

One graph is one batch, so an epoch is one step, which takes milliseconds. Unlike
:mod:`gattn.apps.fitting.loop`, this loop has no shuffling, no parallel processes and no average of
the weights; losses, histories and errors are the same. Several networks are trained together,
because one combined step takes less time than separate steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from gattn.apps.fitting.losses import check_finite
from gattn.apps.fitting.optimizer import OneCycle
from gattn.apps.fitting.types import EpochRecord, History, Loss, TrainingError

__all__ = [
    "FullBatch",
    "FullBatchSettings",
    "NetworkGroup",
    "SeparateNetworks",
    "fit_full_batches",
]

WARMUP = 0.1
"""Share of the epochs in which the learning rate of a one-cycle schedule rises."""

LEAST_GAIN = 0.005
"""Least improvement of a criterion, relative to its value. Over a hundred runs on Cora, this
threshold saves a tenth of the epochs at the same accuracy. On a network of 60,000 nodes, whose loss
falls slowly for hundreds of epochs, it saves a third.
"""

Inputs = TypeVar("Inputs")
Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class FullBatchSettings:
    """Settings of full-batch training.

    Attributes:
        epochs: maximum number of steps.
        patience: stop after this many epochs in which no criterion improved by at least 0.5 %.
        learning_rate: learning rate of Adam; the peak learning rate of a one-cycle schedule.
        weight_decay: coefficient λ of the penalty λ/2 |w|². With a one-cycle schedule, the weights
            decay separately from the gradients, as in AdamW.
        seed: seed of the dropout masks, which are sampled for the networks in order.
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
    """Inputs of the networks for one part of the data, and the targets [g, t], with NaN for
    missing targets.
    """

    inputs: Inputs
    target: Tensor


class NetworkGroup(Protocol):
    """Networks of equal shape that are computed together.

    A group may have a copy of the weights in tensors of its own. The networks themselves are then
    not changed.
    """

    @property
    def parameters(self) -> Sequence[Tensor]:
        """Tensors that an optimizer changes."""
        ...

    def __call__(self, inputs: Any, *, training: bool) -> Tensor:
        """Return the outputs [r, g, u] of r networks in training mode or in eval mode."""
        ...

    def of_network(self, place: int, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the parts of one network in tensors with the shapes of ``parameters``."""
        ...

    def state(self, place: int) -> dict[str, Tensor]:
        """Return the weights of one network by the names of its ``state_dict``."""
        ...


class SeparateNetworks:
    """Networks that are computed one after another.

    Args:
        networks: r networks. The training changes their weights.

    Attributes:
        parameters: the parameters of all networks.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        self.networks = networks
        self.parameters = [weight for network in networks for weight in network.parameters()]

    def __call__(self, inputs: Any, *, training: bool) -> Tensor:
        """Return the stacked outputs [r, g, u]."""
        return torch.stack([network.train(training)(inputs) for network in self.networks])

    def of_network(self, place: int, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the tensors of one network; the networks have equally many parameters."""
        count = len(tensors) // len(self.networks)
        return tensors[place * count : (place + 1) * count]

    def state(self, place: int) -> dict[str, Tensor]:
        """Return the ``state_dict`` of one network."""
        return self.networks[place].state_dict()


def fit_full_batches(
    networks: Sequence[Network],
    loss: Loss,
    train: FullBatch[Inputs],
    validate: FullBatch[Inputs],
    settings: FullBatchSettings,
    *,
    group: Callable[[Sequence[Network]], NetworkGroup] = SeparateNetworks,
    score: Loss | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> list[History]:
    """Train networks in place with Adam; at the end, each network has the weights of its best
    epoch.

    A step minimises the sum of the losses; the gradient of each network depends only on its loss.
    There are two criteria on the validation part: the loss and, optionally, a score. An epoch is
    the best so far if all criteria are at least as good as in all previous epochs. The training of
    a network stops ``patience`` epochs after the last epoch in which at least one criterion
    improved by 0.5 % or more. The authors of the GAT paper use the same rule, with the accuracy as
    the score, but for them any improvement and an equal value are sufficient.

    Args:
        networks: networks of the same shape; they end in eval mode.
        loss: function of outputs [g, u] and targets [g, t] with element-wise results [g, t].
            Missing targets are replaced by 0, and their losses are ignored.
        train: training part.
        validate: validation part, by which the best epoch is chosen.
        settings: settings of the training.
        group: function that returns the group in which r of the networks are trained together. It
            is called again when the training of some networks has ended.
        score: element-wise function like ``loss``, for the validation part; higher is better.
        on_epoch: called with the record of each network's epoch.

    Returns:
        For each network its history: a record of every epoch, whose duration is the network's share
        of the time, and the best epoch.

    Raises:
        TrainingError: a part has no labels, or a loss is not finite.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), section 3.3.

    Example:
        >>> from gattn.apps.fitting.losses import squared_error
        >>> part = FullBatch(torch.ones(4, 1), torch.full((4, 1), 2.0))
        >>> settings = FullBatchSettings(50, 10, 0.1, 0.0, seed=0)
        >>> (history,) = fit_full_batches([nn.Linear(1, 1)], squared_error, part, part, settings)
        >>> history.records[history.chosen].validation_loss < history.records[0].validation_loss
        True
    """
    for part, batch in (("training", train), ("validation", validate)):
        if not batch.target.isfinite().any():
            raise TrainingError(f"the {part} part must have labels; all its labels are missing")
    runs = [_Run(network) for network in networks]
    going, active = runs, group(networks)
    optimizer = _optimizer(active, settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        for epoch in range(settings.epochs):
            began = time.perf_counter()
            rate = _set_rate(optimizer, settings, epoch)
            fitted = _masked_means(active(train.inputs, training=True), train.target, loss)
            optimizer.zero_grad()
            fitted.sum().backward()
            optimizer.step()
            with torch.no_grad():
                output = active(validate.inputs, training=False)
                lost = _masked_means(output, validate.target, loss)
                criteria = [-lost]
                if score is not None:
                    criteria.append(_masked_means(output, validate.target, score))
            seconds = (time.perf_counter() - began) / len(going)
            for run, trained, validated in zip(going, fitted.tolist(), lost.tolist()):
                check_finite(trained, "training", epoch, rate)
                check_finite(validated, "validation", epoch, rate)
                run.records.append(EpochRecord(epoch, trained, validated, rate, seconds))
                on_epoch(run.records[-1])
            for place, values in enumerate(torch.stack(criteria, 1).tolist()):
                run = going[place]
                if run.judge(epoch, values):
                    run.weights = {k: v.clone() for k, v in active.state(place).items()}
                run.stopped = run.waited >= settings.patience
            places = [place for place, run in enumerate(going) if not run.stopped]
            if not places:
                break
            if len(places) < len(going):
                rest = [going[place] for place in places]
                states = [active.state(place) for place in places]
                for run, weights in zip(rest, states):
                    run.network.load_state_dict(weights)
                others = group([run.network for run in rest])
                optimizer = _continue(optimizer, active, others, places, settings)
                going, active = rest, others
    return [run.end() for run in runs]


def _optimizer(group: NetworkGroup, settings: FullBatchSettings) -> torch.optim.Adam:
    kind = torch.optim.Adam if settings.schedule == "constant" else torch.optim.AdamW
    return kind(
        group.parameters, settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )


def _set_rate(optimizer: torch.optim.Adam, settings: FullBatchSettings, epoch: int) -> float:
    """Set the learning rate and, in a one-cycle schedule, the momentum of an epoch; return the
    rate.
    """
    if settings.schedule == "constant":
        return settings.learning_rate
    rate, momentum = OneCycle(settings.learning_rate, settings.epochs, WARMUP).at(epoch)
    for group in optimizer.param_groups:
        group["lr"], group["betas"] = rate, (momentum, group["betas"][1])
    return rate


def _continue(
    optimizer: torch.optim.Adam,
    before: NetworkGroup,
    after: NetworkGroup,
    places: Sequence[int],
    settings: FullBatchSettings,
) -> torch.optim.Adam:
    """Return the optimizer of those networks whose training continues, with their moments.

    Args:
        optimizer: optimizer of the group ``before``, after at least one step.
        before: group of all networks.
        after: group of the remaining networks.
        places: [k] places of the remaining networks in the group ``before``.
        settings: settings of the training.
    """
    result = _optimizer(after, settings)
    states = [optimizer.state[weight] for weight in before.parameters]
    step = next(state["step"] for state in states if state)
    for weight in after.parameters:
        result.state[weight]["step"] = step.clone()
    for name in ("exp_avg", "exp_avg_sq"):
        # A parameter that no output depends on has no state.
        pairs = zip(states, before.parameters)
        old = [state[name] if state else torch.zeros_like(weight) for state, weight in pairs]
        new: list[Tensor] = []
        for weight in after.parameters:
            new.append(torch.zeros_like(weight))
            result.state[weight][name] = new[-1]
        for at, place in enumerate(places):
            of_new, of_old = after.of_network(at, new), before.of_network(place, old)
            for to, values in zip(of_new, of_old):
                to.copy_(values)
    return result


class _Run(Generic[Network]):
    """State of the training of one network: its records, and its weights at the best epoch."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.records: list[EpochRecord] = []
        self.best: list[float] = []
        self.reference: list[float] = []
        self.epoch, self.waited, self.stopped = -1, 0, False
        self.weights: dict[str, Tensor] = {}

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
