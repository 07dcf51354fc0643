"""Attention network that embeds the nodes of a graph and scores pairs by cosines."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gattn.apps.fitting.full_batch import FullBatch, FullBatchSettings, fit_full_batch
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.links.pairs import Links, Ranking, make_ranking
from gattn.apps.links.settings import LinkSettings
from gattn.apps.nodes.fields import FieldInput, stored_values
from gattn.apps.nodes.network import make_network

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


FACTOR = 10.0
"""Initial value of the factor by which cosines are multiplied."""
NEGATIVES = 20
"""Number of unlinked targets for each training link in a step."""
LINKS = 8192
"""Maximum number of training links in a step."""
FEWEST_EPOCHS = 30
MAX_PRODUCTS = 4e10
"""Maximum number of multiplications in the training. On a large graph, it limits the number of
epochs.
"""


@dataclass(frozen=True, eq=False)
class RankedBatch:
    """Batch of links whose targets are ranked, with the graph from which they are predicted.

    Attributes:
        inputs: features of all nodes, and the edges that send messages.
        sources: [m] int64 sources.
        candidates: [m, 1 + k] int64 targets, the true one first; -1 for no target.
    """

    inputs: FieldInput
    sources: Tensor
    candidates: Tensor

    def next(self) -> RankedBatch:
        """Return this batch, which is the same in every step."""
        return self


class DrawnBatches:
    """Training batches from the links of one fold. In each step, new links and new random negatives
    are drawn.

    Args:
        folds: for each fold the graph of its messages and the positions of its links.
        links: all links.
        seed: seed of the draws.

    Attributes:
        size: number of links of a batch.
    """

    def __init__(
        self, folds: Sequence[tuple[FieldInput, NDArray]], links: Links, seed: int
    ) -> None:
        self._folds, self._links = folds, links
        self._draw = np.random.default_rng(seed)
        self._step = -1
        self.size = min(LINKS, *(len(rows) for _, rows in folds))

    def next(self) -> RankedBatch:
        """Draw the batch of the next step."""
        self._step += 1
        inputs, rows = self._folds[self._step % len(self._folds)]
        ranking = make_ranking(self._links, rows, NEGATIVES, self._draw, self.size)
        # Links whose source has no negative are replaced by repetitions of other links.
        order = np.resize(np.arange(len(ranking)), self.size)
        return RankedBatch(
            inputs,
            torch.from_numpy(ranking.sources[order]),
            torch.from_numpy(ranking.candidates[order]),
        )


class LinkNetwork(nn.Module):
    r"""Attention network whose embeddings score pairs of nodes.

    .. math:: s_{uv} = \tau \cos(z_u, z'_v)

    :math:`z = z'` if the links have no direction; otherwise they are the two halves of the output.
    The factor :math:`\tau` is learned.

    Args:
        settings: settings; the layer type and the sizes are read.
        features: number of features of a node.
        two_sided: True if a node has different embeddings as a source and as a target.
        edge_dim: number of features of an edge; None if there are none.

    Reference:
        Kipf and Welling, "Variational graph auto-encoders" (2016).
    """

    def __init__(
        self, settings: LinkSettings, features: int, two_sided: bool, edge_dim: int | None
    ) -> None:
        super().__init__()
        self.width, self.two_sided = settings.width, two_sided
        self.encoder = make_network(settings, features, settings.width * (1 + two_sided), edge_dim)
        self.log_factor = nn.Parameter(torch.tensor(math.log(FACTOR)))

    def embed(self, inputs: FieldInput) -> tuple[Tensor, Tensor]:
        """Return the embeddings [n, d] of all nodes as sources and as targets.

        Their dot products are the scores.
        """
        z = self.encoder(inputs)
        left, right = (z[:, : self.width], z[:, self.width :]) if self.two_sided else (z, z)
        return F.normalize(left) * self.log_factor.exp(), F.normalize(right)

    def forward(self, batches: DrawnBatches | RankedBatch) -> Tensor:
        """Return the scores [m, 1 + k] of the candidates in the next batch."""
        batch = batches.next()
        left, right = self.embed(batch.inputs)
        return pair_scores(left, right, batch.sources, batch.candidates)


def pair_scores(left: Tensor, right: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
    """Return the dot products [m, c] of pairs of nodes; minus infinity for a target of -1. The
    sources are [m], or [m, c] if those of a row differ. The targets are processed in chunks.
    """
    chunk = 32
    parts = []
    for i in range(0, targets.shape[1], chunk):
        start = left[sources[:, None] if sources.dim() == 1 else sources[:, i : i + chunk]]
        parts.append(torch.einsum("mcd,mcd->mc", start, right[targets[:, i : i + chunk]]))
    scores = torch.cat(parts, 1)
    return scores.masked_fill(targets < 0, -math.inf)


def listwise(output: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy [m, 1] of the true target of each link, among its candidates."""
    return F.cross_entropy(output, target[:, 0].long(), reduction="none")[:, None]


def _reciprocal_rank(output: Tensor, target: Tensor) -> Tensor:
    return 1 / (1 + (output[:, 1:] >= output[:, :1]).sum(1, keepdim=True).float())


def fit_network(
    network: LinkNetwork,
    folds: Sequence[tuple[FieldInput, NDArray]],
    links: Links,
    validation: tuple[FieldInput, Ranking],
    settings: LinkSettings,
    on_epoch: Callable[[EpochRecord], None],
) -> History:
    """Train a network to rank the true targets of links first.

    Args:
        network: the network, with initial weights.
        folds: for each fold the graph of its messages and the positions of its links.
        links: all links.
        validation: the graph of the training links, and the ranking of validation links.
        settings: settings of the training.
        on_epoch: called after every epoch.

    Returns:
        The history of the training.
    """
    inputs, ranking = validation
    batches = DrawnBatches(folds, links, settings.seed)
    fixed = RankedBatch(
        inputs, torch.from_numpy(ranking.sources), torch.from_numpy(ranking.candidates)
    )
    train: FullBatch[DrawnBatches | RankedBatch] = FullBatch(batches, torch.zeros(batches.size, 1))
    val: FullBatch[DrawnBatches | RankedBatch] = FullBatch(fixed, torch.zeros(len(ranking), 1))
    epochs = _epochs(settings, inputs)
    options = FullBatchSettings(
        epochs, settings.patience, settings.learning_rate, settings.weight_decay, settings.seed
    )
    return fit_full_batch(
        network, listwise, train, val, options, score=_reciprocal_rank, on_epoch=on_epoch
    )


def _epochs(settings: LinkSettings, inputs: FieldInput) -> int:
    """Return the number of epochs. It is smaller for a large graph."""
    x, (graph, _) = inputs.x, inputs.field.layers[0]
    stored = stored_values(x)
    size = settings.width * (stored + settings.layers * graph.num_edges)
    return min(settings.epochs, max(FEWEST_EPOCHS, int(MAX_PRODUCTS / max(size, 1))))
