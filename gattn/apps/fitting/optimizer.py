"""AdamW optimizer whose parameters are joined in vectors, with a one-cycle learning rate and
averaged weights.

A network of molecules has dozens of small parameters. An optimizer that updates one parameter after
another spends most of its time on starting operations. In addition, the classes of ``torch.optim``
import torch's compiler when they are created, which takes as long as a short training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

SLOW = 0.999
"""Decay rate of AdamW's running mean of squared gradients (beta 2)."""
EPSILON = 1e-8
FIRST, LAST = 25.0, 1e4
"""Ratio of the peak to the initial learning rate, and ratio of the initial to the final learning
rate.
"""
HIGH, LOW = 0.95, 0.85
"""Decay rates of AdamW's running mean of gradients (beta 1): HIGH at both ends of the cycle, and
LOW at its peak.
"""
PIECE = 1 << 14
"""Maximum number of elements in a single sum. torch does not divide such a sum among threads, so
its bits do not depend on the number of threads.
"""


def flatten(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Join parameters into vectors, one for each dtype and device, and make each parameter a view
    of its vector.

    Args:
        parameters: the parameters, whose values do not change.

    Returns:
        The vectors [p]; operations on them change the parameters.

    Example:
        >>> linear = nn.Linear(2, 3)
        >>> (vector,) = flatten(linear.parameters())
        >>> _ = vector.zero_()
        >>> vector.shape, int(linear.weight.count_nonzero())
        (torch.Size([9]), 0)
    """
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for parameter in parameters:
        groups.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    vectors = []
    for group in groups.values():
        vector = torch.cat([parameter.detach().reshape(-1) for parameter in group])
        for parameter, view in zip(group, vector.split([each.numel() for each in group])):
            parameter.data = view.view(parameter.shape)
        vectors.append(vector)
    return vectors


class OneCycle(NamedTuple):
    r"""One-cycle schedule: the learning rate rises to a peak and then falls, and the momentum
    changes inversely.

    Attributes:
        peak: highest learning rate. The first rate is 1/25 of the peak, the last 1/250,000.
        steps: total number of steps.
        warmup: fraction of the steps before the peak.

    Reference:
        Smith and Topin, "Super-convergence" (2019), with cosines instead of straight lines.

    Example:
        >>> OneCycle(peak=1.0, steps=101, warmup=0.5).at(100)
        (4e-06, 0.95)
    """

    peak: float
    steps: int
    warmup: float

    def at(self, step: int) -> tuple[float, float]:
        """Return the learning rate and the momentum of a step; steps are counted from 0."""
        top, end = self.warmup * self.steps - 1, self.steps - 1
        first = self.peak / FIRST
        if step <= top:
            share = step / top if top > 0 else 0.0
            return _between(first, self.peak, share), _between(HIGH, LOW, share)
        share = (step - top) / (end - top)
        return _between(self.peak, first / LAST, share), _between(LOW, HIGH, share)


def _between(start: float, end: float, share: float) -> float:
    """Interpolate between ``start`` and ``end`` along a cosine, for a fraction between 0 and 1."""
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


class AdamW:
    r"""AdamW optimizer whose parameters are joined in vectors, with a running mean of the weights.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \qquad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \qquad
        \theta \leftarrow (1 - \eta \lambda) \theta - \eta
        \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}

        \bar\theta \leftarrow d \bar\theta + (1 - d) \theta

    The learning rate η and β₁ follow the cycle. The mean of the weights is initialised by the
    weights after the first step. Parameters that require no gradient do not change.

    Args:
        network: the network, whose parameters and gradients become views of vectors.
        average: a copy of the network that contains the mean of the weights. Its parameters become
            views of vectors, too, and its buffers are copied from the network.
        cycle: the learning rates.
        weight_decay: the decay λ.
        decay: the decay d of the mean.
        starts: the fraction of the steps in which the parameters whose names begin with a key do
            not change, at the beginning. The longest key counts. All steps change other parameters.

    Reference:
        Loshchilov and Hutter, "Decoupled weight decay regularization" (ICLR 2019).
    """

    def __init__(
        self, network: nn.Module, average: nn.Module, cycle: OneCycle, *, weight_decay: float,
        decay: float, starts: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.cycle, self.weight_decay, self.decay = cycle, weight_decay, decay
        pairs = zip(network.named_parameters(), average.parameters(), strict=True)
        groups: dict[float, list[tuple[Tensor, Tensor]]] = {}
        for (name, parameter), copied in pairs:
            if parameter.requires_grad:
                groups.setdefault(_start_of(name, starts or {}), []).append((parameter, copied))
        self.starts: list[float] = []
        self.parameters: list[Tensor] = []
        self.weights: list[Tensor] = []
        self.averages: list[Tensor] = []
        self.gradients: list[Tensor] = []
        for start, trained in groups.items():
            parameters = [parameter for parameter, _ in trained]
            for parameter in parameters:
                parameter.grad = torch.zeros_like(parameter)
            vectors = flatten(parameters)
            self.starts += [start] * len(vectors)
            self.parameters += parameters
            self.weights += vectors
            self.averages += flatten(copied for _, copied in trained)
            self.gradients += flatten(p.grad for p in parameters if p.grad is not None)
        self.buffers = list(zip(average.buffers(), network.buffers()))
        self.means, self.squares = ([torch.zeros_like(w) for w in self.weights] for _ in range(2))
        for weight, gradient in zip(self.weights, self.gradients):
            weight.grad = gradient
        self.steps = self.updates = 0

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step."""
        return self.cycle.at(self.updates)[0]

    def zero_grad(self) -> None:
        """Set all gradients to zero."""
        for gradient in self.gradients:
            gradient.zero_()

    @torch.no_grad()
    def clip(self, norm: float) -> None:
        """Scale all gradients by one factor, so that their total norm is at most ``norm``."""
        pieces = (piece for gradient in self.gradients for piece in gradient.split(PIECE))
        norms = [torch.linalg.vector_norm(piece) for piece in pieces]
        total = torch.linalg.vector_norm(torch.stack(norms))
        for gradient in self.gradients:
            gradient.mul_((norm / (total + 1e-6)).clamp(max=1.0))

    @torch.no_grad()
    def step(self) -> None:
        """Update the weights by one AdamW step. Parameters whose start is later do not change, but
        the running means of their gradients do.
        """
        rate, momentum = self.cycle.at(self.updates)
        self.steps += 1
        for start in dict.fromkeys(self.starts):
            weights, gradients, means, squares = (
                [vector for vector, its in zip(vectors, self.starts) if its == start]
                for vectors in (self.weights, self.gradients, self.means, self.squares)
            )
            # This is the operation that torch.optim.AdamW(fused=True) calls; the optimizer itself
            # is not created.
            torch._fused_adamw_(
                weights, gradients, means, squares, [],
                [torch.tensor(float(self.steps), device=weight.device) for weight in weights],
                lr=rate * (self.updates >= start * self.cycle.steps), beta1=momentum, beta2=SLOW,
                weight_decay=self.weight_decay, eps=EPSILON, amsgrad=False, maximize=False,
            )  # fmt: skip

    @torch.no_grad()
    def update_average(self) -> None:
        """Update the running mean of the weights, and move to the next step of the cycle.

        Call this method after each step.
        """
        for average, weight in zip(self.averages, self.weights):
            if self.updates:
                average.lerp_(weight, 1 - self.decay)
            else:
                average.copy_(weight)
        self.updates += 1
        for average, buffer in self.buffers:
            average.copy_(buffer)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer for a checkpoint. The tensors are not copied."""
        return {
            "steps": self.steps, "updates": self.updates, "means": self.means,
            "squares": self.squares,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Copy the state that :meth:`state_dict` returned into this optimizer. Raises ValueError if
        it has another number of vectors.
        """
        self.steps, self.updates = state["steps"], state["updates"]
        for name in ("means", "squares"):
            for vector, saved in zip(getattr(self, name), state[name], strict=True):
                vector.copy_(saved)


def _start_of(name: str, starts: Mapping[str, float]) -> float:
    """Return the fraction of the steps in which the parameter with this name does not change."""
    prefixes = [prefix for prefix in starts if name.startswith(prefix)]
    return starts[max(prefixes, key=len)] if prefixes else 0.0
