"""Combination of the components of a stack, fitted on the validation part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gattn.nodes.stack.propagation import Neighbours, smooth
from gattn.nodes.stack.weights import CLEARLY, choose_weights, fit_weights, pool_by_name

__all__ = ["SMOOTHED", "Combination", "mean_loss"]

SMOOTHED = "smoothed"
"""Name of the component that is the combination of the others, smoothed along the edges."""


@dataclass(frozen=True, eq=False)
class Combination:
    """Weights of a stack, and the predictions for the validation part that result from them.

    Attributes:
        parts: final weight of each component, by name.
        other: weight of each component that does not read labels, by name, for other graphs.
        smoothed: weight of each component in the combination that is smoothed along the edges.
        validation: [m, outputs] predictions whose weights do not depend on the node's label.
        extra: [m, outputs] predictions of the component ``smoothed``, by name.
    """

    parts: dict[str, float]
    other: dict[str, float]
    smoothed: dict[str, float]
    validation: NDArray[np.float64]
    extra: dict[str, NDArray[np.float64]]

    @classmethod
    def fit(
        cls,
        outputs: Mapping[str, NDArray],
        neighbours: Neighbours,
        labels: NDArray,
        train: NDArray,
        val: NDArray,
        y: NDArray,
        seed: int,
        *,
        is_class: bool,
        label_free: Sequence[str],
    ) -> Combination:
        """Fit the weights of all components, of their combination and its smoothed version, of the
        components for other graphs.

        The combination is smoothed only if this clearly reduces the loss of the validation part.

        Args:
            outputs: predictions [n, outputs] of the components, by name.
            neighbours: the graph.
            labels: [k, outputs], one-hot classes or numbers of the training nodes.
            train: [k] training nodes.
            val: [m] validation nodes.
            y: [m] labels of the validation nodes.
            seed: seed of the folds.
            is_class: True for classes.
            label_free: names of the components that do not read labels.
        """
        parts = [p[val] for p in outputs.values()]
        weights, combined = choose_weights(parts, y, seed, is_class=is_class)
        base = dict(zip(outputs, weights.tolist()))
        names = [name for name in label_free if name in outputs]
        of_label_free = fit_weights([outputs[name][val] for name in names], y, is_class=is_class)
        other = dict(zip(names, of_label_free.tolist()))
        together = pool_by_name(outputs, base, is_class=is_class)
        spread = smooth(neighbours.means, together, labels, train)
        pair, validation = choose_weights([combined, spread[val]], y, seed, is_class=is_class)
        if not _is_clearly_better(validation, combined, y, is_class=is_class):
            pair, validation = np.array([1.0, 0.0]), combined
        final = {name: float(pair[0]) * weight for name, weight in base.items()}
        final[SMOOTHED] = float(pair[1])
        extra = {SMOOTHED: spread[val]}
        return cls(final, other, base, validation, extra)

    @property
    def used(self) -> set[str]:
        """Names of the components that have a weight."""
        weights = self.smoothed.items(), self.other.items()
        return {name for name, weight in chain(*weights) if weight}


def _is_clearly_better(one: NDArray, other: NDArray, y: NDArray, *, is_class: bool) -> bool:
    """Return True if the loss of the predictions is lower by more than ``CLEARLY`` standard
    errors.
    """
    gain = _losses(other, y, is_class=is_class) - _losses(one, y, is_class=is_class)
    return bool(gain.mean() > CLEARLY * gain.std() / max(len(gain), 1) ** 0.5)


def mean_loss(predicted: NDArray, y: NDArray, *, is_class: bool) -> float:
    """Return the mean cross entropy, or the mean squared error, of predictions [m, outputs]."""
    return float(_losses(predicted, y, is_class=is_class).mean())


def _losses(predicted: NDArray, y: NDArray, *, is_class: bool) -> NDArray[np.float64]:
    """Return the loss of each node, which is its cross entropy or squared error."""
    if not is_class:
        return np.square(predicted[:, 0] - y)
    return -np.log(predicted[np.arange(len(y)), y.astype(int)] + 1e-12)
