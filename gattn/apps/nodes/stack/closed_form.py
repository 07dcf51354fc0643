"""Predictions of nodes in closed form, which takes seconds: ridge regression and propagation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gattn.apps.nodes.stack.blocks import Blocks
from gattn.apps.nodes.stack.linear import Scaler, leave_one_out
from gattn.apps.nodes.stack.propagation import propagate, propagate_folds
from gattn.apps.nodes.stack.weights import cross_fit, fit_weights, pool, temperature

__all__ = ["predict_in_closed_form"]

SIDE = 1500
"""Maximum of min(training nodes, features) for which the regression reads all features, because
its time grows with the cube of this number. Above it, the regression reads the reduced features.
"""


def predict_in_closed_form(
    blocks: Blocks, labels: NDArray, train: NDArray, seed: int, *, is_class: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Combine label propagation and a ridge regression on features and their means over neighbours.

    The leave-one-out predictions of ridge regression, in which each training node is predicted by a
    model that was fitted to the other nodes, have a closed form. They are used to choose the
    penalty, the factor that converts scores to probabilities, and the weights of the combination.

    Args:
        blocks: features of all nodes.
        labels: [k, c] one-hot classes, or standardised numbers.
        train: [k], the nodes that have these labels.
        seed: seed of the folds of propagated labels.
        is_class: True for one-hot classes.

    Returns:
        Predictions [n, c] of all nodes, and predictions [k, c] of the training nodes that do not
        depend on the node's label.

    Reference:
        Zhao et al., "GraphAny: fully-inductive node classification on arbitrary graphs" (ICLR
        2025); Wu et al., "Simplifying graph convolutional networks" (ICML 2019).
    """
    truth = labels.argmax(1) if is_class else labels[:, 0]
    hops = blocks.hops(reduced=min(len(train), blocks.x.shape[1]) > SIDE)
    hops.append(np.ones((hops[0].shape[0], 1), np.float32))
    x = Scaler.fit(hops).join(hops)
    weight, _, left_out, _ = leave_one_out(x[train], labels)
    scores = x @ weight
    if is_class:
        factor = temperature(left_out, truth)
        left_out, scores = _softmax(factor * left_out), _softmax(factor * scores)
    some = blocks.neighbours.means, labels, train
    spread = propagate(*some)
    outputs = [left_out, propagate_folds(*some, seed, spread)[train, :-1].astype(np.float64)]
    shares = fit_weights(outputs, truth, is_class=is_class)
    predicted = pool([scores, spread[:, :-1].astype(np.float64)], shares, is_class=is_class)
    return predicted, cross_fit(outputs, truth, seed, is_class=is_class)


def _softmax(scores: NDArray) -> NDArray[np.float64]:
    odds = np.exp(scores - scores.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)
