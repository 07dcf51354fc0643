"""Perceptron with two layers that reads the features of a node and their means over its
neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gattn.apps.fitting.losses import class_loss, squared_error
from gattn.apps.nodes.scratch import Matrix, sample
from gattn.apps.nodes.stack.linear import Scaler, Targets
from gattn.apps.nodes.stack.propagation import weighted_graph
from gattn.functional import aggregate

WIDTH, BATCH, LEARNING_RATE, WEIGHT_DECAY = 192, 512, 4e-3, 1e-2
EPOCHS, SPARSE_EPOCHS = 12, 8
"""Number of training epochs without sparse features, and with sparse features, which overfit
sooner.
"""
DROPOUT, INPUT_DROPOUT, SPARSE_DROPOUT = 0.4, 0.1, 0.2
ROWS = 400_000
"""Maximum number of training nodes."""
PIECE = 8192
"""Number of nodes that are predicted at once, to limit the memory."""


class Perceptron(nn.Module):
    r"""Perceptron that predicts a class or a standardised number from the features of a node.

    .. math:: W_2 \, \mathrm{relu}(\mathrm{norm}(W_0 s + W_1 (x - \mu) / \sigma))

    The sparse features s are scaled by one factor for each block, so that they stay sparse. The
    first layer sums the columns of W_0 for the entries that are not zero. The constructor does not
    set the weights: call :meth:`reset_parameters`, which training needs, or ``load_state_dict``
    before the first use.

    Args:
        blocks: number of blocks of sparse features.
        sparse: number of sparse features of all blocks.
        dense: number of dense features.
        outputs: number of classes; 1 for numbers.
        is_class: True if the labels are classes, so that probabilities are predicted.

    Reference:
        Frasca et al., "SIGN: scalable inception graph neural networks" (2020).
    """

    factors: Tensor
    center: Tensor
    scale: Tensor

    def __init__(
        self, blocks: int, sparse: int, dense: int, outputs: int, *, is_class: bool
    ) -> None:
        super().__init__()
        self.is_class = is_class
        self.generator: torch.Generator | None = None
        self.hidden = nn.Linear(dense, WIDTH, device="meta").to_empty(device="cpu")
        self.table = nn.Parameter(torch.empty(sparse, WIDTH))
        self.norm, self.out = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, outputs, device="meta").to_empty(device="cpu"),
        )
        self.register_buffer("factors", torch.zeros(blocks, dtype=torch.float64))
        self.register_buffer("center", torch.zeros(dense))
        self.register_buffer("scale", torch.ones(dense))

    def reset_parameters(self, seed: int) -> None:
        """Draw the initial weights, and create the generator of the dropout.

        Torch's global generator is not used: a network may be trained in another thread.
        """
        self.generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in (self.hidden, self.out):
                bound = layer.in_features**-0.5
                layer.weight.uniform_(-bound, bound, generator=self.generator)
                layer.bias.uniform_(-bound, bound, generator=self.generator)
            self.table.normal_(0, 0.3, generator=self.generator)

    def forward(self, sparse: Matrix, x: Tensor) -> Tensor:
        """Return logits or standardised numbers [k, outputs]. In training mode, the dropout draws
        from the generator of :meth:`reset_parameters`.

        Args:
            sparse: [k, s] scaled sparse features (CSR); not read if there are none.
            x: [k, d] dense features.
        """
        x = ((x - self.center) / self.scale).clamp(-10, 10)
        x = self.hidden(self._drop(x, INPUT_DROPOUT))
        if len(self.table):
            graph, values = weighted_graph(sparse)
            values = self._drop(values, SPARSE_DROPOUT)
            x = x + aggregate(values, self.table[:, None], graph)[:, 0]
        return self.out(self._drop(self.norm(x).relu(), DROPOUT))

    def _drop(self, x: Tensor, p: float) -> Tensor:
        """Apply dropout in training, with masks from the generator of this model."""
        if not self.training:
            return x
        return x * torch.empty_like(x).bernoulli_(1 - p, generator=self.generator) / (1 - p)

    @classmethod
    def fit(cls, blocks: Sequence[Matrix], to: Targets) -> Perceptron:
        """Train a perceptron with a one-cycle learning rate schedule.

        Args:
            blocks: blocks of features [n, ...] of all nodes, sparse or dense.
            to: the labels, and the training nodes, of which at most 400,000 are used.

        Returns:
            The trained perceptron. Its random numbers come from a generator with the seed of
            ``to``.
        """
        train = sample(to.train, ROWS, to.seed)
        sparse = list(filter(sp.issparse, blocks))
        scaler = Scaler.fit(sparse)
        columns, x = _split([block[train] for block in blocks], scaler)
        target = torch.from_numpy(to.y[train, None]).float()
        loss_of = class_loss if to.is_class else squared_error
        widths = len(sparse), columns.shape[1], x.shape[1]
        model = cls(*widths, to.outputs, is_class=to.is_class)
        model.reset_parameters(to.seed)
        model.factors.copy_(torch.tensor(scaler.factors, dtype=torch.float64))
        model.center.copy_(x.mean(0))
        model.scale.copy_(x.std(0).clamp(min=1e-6))
        optimizer = torch.optim.AdamW(
            model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
        )
        epochs = SPARSE_EPOCHS if sparse else EPOCHS
        steps = epochs * -(-len(x) // BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.1
        )
        model.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(x), generator=model.generator).split(BATCH):
                out = model(columns[rows.numpy()], x[rows])
                loss = loss_of(out, target[rows]).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        # The generator of the dropout masks is only needed for training.
        model.generator = None
        return model.eval()

    @torch.no_grad()
    def predict(self, blocks: Sequence[Matrix]) -> NDArray[np.float64]:
        """Return probabilities or standardised numbers [n, outputs] from blocks of features
        [n, ...].
        """
        columns, x = _split(blocks, Scaler(tuple(self.factors.tolist())))
        starts = range(0, len(x), PIECE)
        out = torch.cat([self(columns[i : i + PIECE], x[i : i + PIECE]) for i in starts]).double()
        return (out.softmax(1) if self.is_class else out).numpy()

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], *, is_class: bool) -> Perceptron:
        """Restore a perceptron from its ``state_dict()``.

        Raises:
            KeyError: a tensor is missing.
            RuntimeError: a tensor has another shape.
        """
        widths = tensors["factors"], tensors["table"], tensors["center"], tensors["out.bias"]
        model = cls(*(len(tensor) for tensor in widths), is_class=is_class)
        model.load_state_dict(dict(tensors))
        return model.eval()


def _split(blocks: Sequence[Matrix], scaler: Scaler) -> tuple[Matrix, Tensor]:
    """Return the sparse and the dense blocks of features of k nodes in the form that a perceptron
    reads.

    Args:
        blocks: blocks [k, ...], at least one of them dense.
        scaler: factors of the sparse blocks.

    Returns:
        The sparse blocks, scaled and joined to a CSR matrix [k, s] float32, which has no columns if
        there are none; and the dense blocks, joined to a tensor [k, d] and not scaled.
    """
    x = np.hstack([block for block in blocks if not sp.issparse(block)])
    sparse = list(filter(sp.issparse, blocks))
    columns = scaler.join(sparse) if sparse else sp.csr_matrix((len(x), 0), dtype=np.float32)
    return columns, torch.from_numpy(x)
