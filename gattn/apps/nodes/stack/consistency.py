"""Networks that read randomly propagated features, and are trained to agree on unlabelled nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from gattn.apps.fitting.full_batch import EpochChoice
from gattn.apps.nodes.scratch import Matrix
from gattn.apps.nodes.stack.linear import Targets
from gattn.apps.nodes.stack.propagation import normalise, weighted_graph
from gattn.functional import aggregate
from gattn.graph import Graph

NETWORKS, WIDTH, STEPS = 4, 32, 8
"""Number of networks, number of hidden features of a network, and number of propagation steps."""
SHARPNESS = 2.0
"""Exponent that sharpens the mean probabilities."""
LEARNING_RATE, WEIGHT_DECAY = 0.01, 5e-4
NORM = 0.25
"""Root mean square of the norms of the feature rows. For larger features, the penalty on the
weights would be too weak.
"""
EPOCHS, PATIENCE, EVERY = 300, 100, 5
"""Maximum number of epochs; number of epochs without improvement after which training stops;
number of epochs between two evaluations of the validation part.
"""
MAX_PRODUCTS, FEWEST = 6e9, 40
"""Maximum number of multiplications in all epochs, and minimum number of epochs. On a large
graph, there are fewer epochs. If they would be fewer than the minimum, the networks are not
fitted.
"""

MASKS = ((torch.arange(256)[:, None] >> torch.arange(8)) & 1) * 2.0
"""Dropout masks [256, 8] for each value of a random byte. The dropout probability of a node, of a
feature and of a hidden feature is 1/2, so that a mask needs one random bit for each value.
"""


def affordable_epochs(x: Matrix, means: Matrix) -> int:
    """Return the number of epochs that are affordable for sparse features x [n, d] and the means
    over neighbours, [n, n].

    The number is 0 if fewer than ``FEWEST`` epochs are affordable.
    """
    size = NETWORKS * WIDTH * (x.nnz + STEPS * (means.nnz + x.shape[0]))
    epochs = min(EPOCHS, int(MAX_PRODUCTS / max(size, 1)))
    return epochs if epochs >= FEWEST else 0


class ConsistentNetworks(nn.Module):
    r"""Several perceptrons whose input features were propagated along the edges.

    .. math::
        z_r = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k D_r X E_r, \qquad
        p_r = \operatorname{softmax}\bigl(W_{2r} \operatorname{relu}(W_{1r} z_r + b_{1r})
        + b_{2r}\bigr)

    In training, the diagonal matrix D_r drops random nodes, and the diagonal matrix E_r drops
    random features of all nodes. Each network r has other masks. The loss is the cross entropy of
    the nodes with labels, plus the mean squared distance of each network's probabilities from a
    common target for all nodes. The target is the mean of the networks' probabilities, with an
    exponent that makes them sharper. Nodes without a label are thus used in training. The
    prediction is the mean over the networks. The model predicts only classes and no numbers:
    networks that all predict the same constant agree, and for numbers there is no exponent that
    would prevent this.

    The first product is computed before the propagation, so that only the hidden features are
    propagated, together for all networks. The constructor does not set the weights: call
    :meth:`reset_parameters`, which training needs, or ``load_state_dict`` before the first use.

    Args:
        features: number of features.
        outputs: number of classes.

    Attributes:
        epochs: number of epochs after which the weights were stored.

    Reference:
        Feng et al., "Graph random neural networks for semi-supervised learning on graphs" (NeurIPS
        2020), in which one network predicts several random masks.
    """

    epochs: Tensor

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.generator: torch.Generator | None = None
        self.table = nn.Parameter(torch.empty(features, NETWORKS * WIDTH))
        self.hidden_bias = nn.Parameter(torch.zeros(NETWORKS, WIDTH))
        self.weight = nn.Parameter(torch.empty(NETWORKS, WIDTH, outputs))
        self.bias = nn.Parameter(torch.zeros(NETWORKS, outputs))
        self.register_buffer("epochs", torch.tensor(0))

    def reset_parameters(self, seed: int) -> None:
        """Draw the initial weights, and create the generator of the dropout.

        Torch's global generator is not used: the networks may be trained in another thread.
        """
        self.generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight, inputs, outputs in (
                (self.table, len(self.table), WIDTH),
                (self.weight, WIDTH, self.weight.shape[2]),
            ):
                bound = 2**0.5 * (6 / (inputs + outputs)) ** 0.5
                weight.uniform_(-bound, bound, generator=self.generator)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return logits [n, r, outputs] of r networks. In training mode, the dropout draws from the
        generator of :meth:`reset_parameters`.
        """
        table = self.table.view(-1, NETWORKS, WIDTH)
        table = self._drop(table, (len(table), NETWORKS, 1)).flatten(1)
        hidden = aggregate(inputs.values, table[:, None], inputs.words)[:, 0]
        hidden = hidden.unflatten(1, (NETWORKS, WIDTH))
        hidden = self._drop(hidden, (len(hidden), NETWORKS, 1)).flatten(1)
        spread = cast("Tensor", _Propagation.apply(hidden, inputs))
        hidden = (spread.view(-1, NETWORKS, WIDTH) + self.hidden_bias).relu()
        hidden = self._drop(hidden, hidden.shape)
        return torch.einsum("nrh,rhc->nrc", hidden, self.weight) + self.bias

    def _drop(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Apply dropout with probability 1/2 in training, with masks of the given shape from the
        generator of this model.
        """
        if not self.training:
            return x
        count = math.prod(shape)
        drawn = torch.empty(-(-count // 8), dtype=torch.uint8).random_(generator=self.generator)
        return x * MASKS.index_select(0, drawn.int()).flatten()[:count].view(shape)

    @classmethod
    def fit(
        cls, x: Matrix, means: Matrix, to: Targets, *, epochs: int | None = None, most: int = EPOCHS
    ) -> ConsistentNetworks:
        """Train the networks on all nodes of a graph.

        Args:
            x: [n, d] sparse features.
            means: [n, n] means over neighbours.
            to: the classes and the parts.
            epochs: number of epochs; None to choose it by the validation nodes.
            most: maximum number of epochs if it is chosen.

        Returns:
            The trained networks. Their random numbers come from a generator with the seed of
            ``to``.
        """
        model = cls(x.shape[1], to.outputs)
        model.reset_parameters(to.seed)
        inputs = Inputs(x, means)
        target = torch.from_numpy(to.y).nan_to_num(0).long()
        rows, held_out = torch.from_numpy(to.train), torch.from_numpy(to.val)
        rate = LEARNING_RATE * (EPOCHS / (affordable_epochs(x, means) or EPOCHS)) ** 0.5
        optimizer = torch.optim.Adam(
            model.parameters(), rate, weight_decay=WEIGHT_DECAY, fused=True
        )
        choice, best = EpochChoice(), model.state_dict()
        last = epochs or min(most, affordable_epochs(x, means) or EPOCHS)
        for epoch in range(1, last + 1):
            model.train()
            loss = model._loss(model(inputs), rows, target[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epochs is None and (epoch % EVERY == 0 or epoch == last):
                predicted = model._predict(inputs)[held_out]
                lost = F.nll_loss((predicted + 1e-9).log(), target[held_out])
                right = (predicted.argmax(1) == target[held_out]).float().mean()
                if choice.judge(epoch, [-float(lost), float(right)]):
                    best = {name: t.clone() for name, t in model.state_dict().items()}
                if EVERY * choice.waited >= PATIENCE:
                    break
        if epochs is None:
            model.load_state_dict(best)
        model.epochs.fill_(epochs or choice.epoch)
        # The generator of the dropout masks is only needed for training.
        model.generator = None
        return model.eval()

    def _loss(self, out: Tensor, rows: Tensor, target: Tensor) -> Tensor:
        """Return the loss of outputs [n, r, c], a scalar, of which all n nodes have a part. The
        nodes ``rows`` [k] have the classes ``target`` [k].
        """
        repeated = target[:, None].expand(-1, NETWORKS)
        logs = out.log_softmax(2)
        fit = F.nll_loss(logs[rows].flatten(0, 1), repeated.flatten()) * NETWORKS
        probabilities = logs.exp()
        goal = probabilities.detach().mean(1, keepdim=True).pow(SHARPNESS)
        goal = goal / goal.sum(2, keepdim=True)
        return fit + (probabilities - goal).square().sum(2).mean(0).sum()

    @torch.no_grad()
    def _predict(self, inputs: Inputs) -> Tensor:
        """Return the probabilities of the classes of each node, [n, outputs]. The networks are then
        in evaluation mode.
        """
        return self.eval()(inputs).softmax(2).mean(1)

    def predict(self, x: Matrix, means: Matrix) -> NDArray[np.float32]:
        """Return the probabilities of the classes for all nodes of a graph, [n, outputs] float32,
        and set the networks to evaluation mode.

        Args:
            x: [n, d] sparse features.
            means: [n, n] means over neighbours.
        """
        return self._predict(Inputs(x, means)).numpy()

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> ConsistentNetworks:
        """Restore the networks from their ``state_dict()``.

        Raises:
            KeyError: a tensor is missing.
            RuntimeError: a tensor has another shape.
        """
        model = cls(len(tensors["table"]), tensors["bias"].shape[1])
        model.load_state_dict(dict(tensors))
        return model.eval()


class Inputs:
    """Features and graph in the form that the networks read: the graph is that of
    :func:`gattn.apps.nodes.stack.propagation.normalise`.

    Args:
        x: [n, d] sparse features, which are scaled to rows with mean squared norm ``NORM**2``.
        means: [n, n] means over neighbours.

    Attributes:
        words: graph in which an edge leads from each feature to each node that has it.
        values: [k, 1], the features, as weights of the edges of ``words``.
        graph: the graph with a self-loop at each node.
        weights: [e, 1], the entries of the propagation.
        reverse: graph of the transposed matrix.
        reverse_weights: [e, 1], the entries of the transposed matrix.
    """

    def __init__(self, x: Matrix, means: Matrix) -> None:
        self.words, self.values = weighted_graph(sp.csr_matrix(x))
        size = float(self.values.square().sum() / max(x.shape[0], 1)) ** 0.5
        self.values = self.values * (NORM / (size or 1.0))
        propagation = normalise(means)
        self.graph, self.weights = weighted_graph(propagation)
        self.reverse, self.reverse_weights = weighted_graph(propagation.T.tocsr())


class _Propagation(torch.autograd.Function):
    """Mean of hidden features [n, f] over 0 to ``STEPS`` propagation steps.

    Autograd would store and add the features of each step. The gradient of the mean is the same
    mean along the reversed edges, which needs no stored features.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, inputs: Inputs) -> Tensor:
        ctx.inputs = inputs
        return _propagate(hidden, inputs.graph, inputs.weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        inputs: Inputs = ctx.inputs
        return _propagate(gradients[0], inputs.reverse, inputs.reverse_weights), None


def _propagate(hidden: Tensor, graph: Graph, weights: Tensor) -> Tensor:
    """Return the mean of features [n, f] over 0 to ``STEPS`` propagation steps, by Horner's rule.
    ``weights`` [e, 1] are the entries of the propagation at the edges of ``graph``.
    """
    start = hidden[:, None]
    total = start
    for _ in range(STEPS):
        total = aggregate(weights, total, graph).add_(start)
    return total[:, 0].div_(STEPS + 1)
