"""Perceptron with two layers, which reads the features of a node and means over its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Perceptron"]

WIDTH, EPOCHS, BATCH, LEARNING_RATE, WEIGHT_DECAY = 192, 12, 512, 4e-3, 1e-2
DROPOUT = 0.4
PIECE = 8192
"""Number of nodes that are predicted in one step, which limits the memory."""


class Perceptron(nn.Module):
    r"""Perceptron that predicts a class or a standardised number from the features of a node.

    .. math:: W_2 \, \mathrm{relu}(\mathrm{norm}(W_1 (x - \mu) / \sigma))

    Args:
        features: number of features.
        outputs: number of classes; 1 for numbers.
        is_class: True if the labels are classes, so that probabilities are predicted.

    Reference:
        Frasca et al., "SIGN: scalable inception graph neural networks" (2020).
    """

    center: Tensor
    scale: Tensor

    def __init__(self, features: int, outputs: int, *, is_class: bool) -> None:
        super().__init__()
        self.is_class = is_class
        self.hidden = nn.Linear(features, WIDTH)
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, outputs)
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits or standardised numbers [k, outputs] from features [k, d]."""
        x = ((x - self.center) / self.scale).clamp(-10, 10)
        x = self.hidden(F.dropout(x, 0.1, self.training))
        return self.out(F.dropout(self.norm(x).relu(), DROPOUT, self.training))

    @classmethod
    def fit(
        cls,
        blocks: Sequence[NDArray],
        y: NDArray,
        train: NDArray,
        outputs: int,
        seed: int,
        *,
        is_class: bool,
    ) -> Perceptron:
        """Train a perceptron for twelve epochs with a one-cycle learning rate schedule.

        Args:
            blocks: features [n, ...] of all nodes.
            y: [n] numbers of classes from 0, or standardised numbers.
            train: [k] indices of the training nodes.
            outputs: number of classes; 1 for numbers.
            seed: seed of weights, order and dropout.
            is_class: True for classes.
        """
        x = torch.from_numpy(np.hstack(blocks)[train])
        target = torch.from_numpy(y[train])
        target = target.long() if is_class else target.float()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = cls(x.shape[1], outputs, is_class=is_class)
            model.center.copy_(x.mean(0))
            model.scale.copy_(x.std(0).clamp(min=1e-6))
            optimizer = torch.optim.AdamW(
                model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
            )
            steps = EPOCHS * -(-len(x) // BATCH)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.1
            )
            model.train()
            for _ in range(EPOCHS):
                for rows in torch.randperm(len(x)).split(BATCH):
                    out = model(x[rows])
                    loss = (
                        F.cross_entropy(out, target[rows])
                        if is_class
                        else F.mse_loss(out[:, 0], target[rows])
                    )
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    schedule.step()
        return model.eval()

    @torch.no_grad()
    def predict(self, blocks: Sequence[NDArray]) -> NDArray[np.float64]:
        """Predict all nodes: probabilities or standardised numbers, [n, outputs]."""
        pieces = torch.from_numpy(np.hstack(blocks)).split(PIECE)
        out = torch.cat([self(piece) for piece in pieces]).double()
        return (out.softmax(1) if self.is_class else out).numpy()
