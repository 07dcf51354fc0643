"""Perceptron that scores pairs of nodes from their heuristics and similarities."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gattn.apps.links.network import listwise

HIDDEN = 64
STEPS = 400
PATIENCE = 60
BATCH = 512
"""Number of links in a training step."""
RATE, DECAY = 5e-3, 1e-3


class PairPerceptron(nn.Module):
    """Perceptron with two layers that reads the standardised features of a pair.

    Args:
        mean: [f] means of the features.
        std: [f] standard deviations of the features, above 0.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.layers = nn.Sequential(
            nn.Linear(len(mean), HIDDEN), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores [...] of pairs, given their features [..., f]; minus infinity for a
        candidate whose features are NaN.
        """
        scores = self.layers(((x - self.mean) / self.std).nan_to_num())[..., 0]
        return scores.masked_fill(x[..., 0].isnan(), -math.inf)

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> PairPerceptron:
        """Restore a perceptron from its ``state_dict``.

        Raises:
            KeyError: a tensor is missing.
            RuntimeError: a tensor has another shape.
        """
        model = cls(tensors["mean"], tensors["std"])
        model.load_state_dict(dict(tensors))
        return model.eval()


def fit_perceptron(train: Tensor, val: Tensor, seed: int) -> PairPerceptron:
    """Train a perceptron so that the first candidate in each row gets the highest score.

    Args:
        train: [m, c, f] features of the candidates of training links, the true target first; NaN
            for a missing candidate.
        val: [k, c', f] features of the candidates of validation links, by which the step is chosen.
        seed: seed of the initial weights, dropout and batches.
    """
    flat = train[~train[..., 0].isnan()]
    std = flat.std(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = PairPerceptron(flat.mean(0), torch.where(std > 1e-6, std, torch.ones(())))
        optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
        best, lowest, waited = copy.deepcopy(model.state_dict()), float("inf"), 0
        target = torch.zeros(max(len(val), min(BATCH, len(train))), 1)
        for step in range(STEPS):
            rows = torch.randint(len(train), (min(BATCH, len(train)),))
            model.train()
            loss = listwise(model(train[rows]), target[: len(rows)]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 10:
                continue
            model.eval()
            with torch.no_grad():
                value = float(listwise(model(val), target[: len(val)]).mean())
            waited += 10
            if value < lowest:
                best, lowest, waited = copy.deepcopy(model.state_dict()), value, 0
            if waited >= PATIENCE:
                break
    model.load_state_dict(best)
    return model.eval()
