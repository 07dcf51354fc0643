"""Combination of the components of a stack, fitted on the validation part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gattn.apps.nodes.scratch import pieces, sample
from gattn.apps.nodes.stack.linear import Targets
from gattn.apps.nodes.stack.priors import class_factors, scale_classes
from gattn.apps.nodes.stack.weights import cross_fit, fit_weights, pool_by_name

OTHERS = 5000
"""Maximum number of nodes in neither part by which the frequencies of the classes are estimated."""
READS_LABELS = "labels"
"""Component that is left out for a network other than that of the training."""


@dataclass(frozen=True, eq=False)
class Combination:
    """Weights of a stack, and the predictions for the validation part that result from them.

    Attributes:
        weights: weight of each component, by name.
        other: weight of each component that does not read labels, by name, for other graphs.
        factors: factor of the probability of each class; empty for numbers.
        validation: [m, outputs] predictions whose weights do not depend on the node's label; no
            rows if the object was not fitted.
    """

    weights: dict[str, float]
    other: dict[str, float]
    factors: list[float]
    validation: NDArray[np.float64]

    @classmethod
    def fit(
        cls, outputs: Mapping[str, NDArray], to: Targets, *, timed: bool, label_free: Sequence[str]
    ) -> Combination:
        """Fit the weights of the components, and the factors of the classes.

        Args:
            outputs: predictions [n, outputs] of the components, by name.
            to: the labels and the parts.
            timed: True if a prediction must not depend on newer nodes.
            label_free: names of the components that do not read labels.

        Returns:
            The weights and factors, with the predictions of the validation part that
                :func:`cross_fit` combines; for classes, they are corrected by the factors.
        """
        y, is_class = to.y, to.is_class
        parts, truth = _rows(outputs, to.val), y[to.val]
        values = fit_weights([*parts.values()], truth, is_class=is_class)
        validation = cross_fit([*parts.values()], truth, to.seed, is_class=is_class)
        weights = dict(zip(outputs, values.tolist()))
        names = [name for name in label_free if name in outputs]
        values = fit_weights([parts[name] for name in names], truth, is_class=is_class)
        other = dict(zip(names, values.tolist()))
        if not is_class:
            return cls(weights, other, [], validation)
        nodes = np.arange(0 if timed else len(y))
        rest = sample(np.setdiff1d(nodes, np.concatenate([to.train, to.val])), OTHERS, to.seed)
        others = pool_by_name(_rows(outputs, rest), weights, is_class=True)
        factors, validation = class_factors(validation, truth, others, y[to.train], to.seed)
        return cls(weights, other, factors.tolist(), validation)

    def fit_again(
        self, first: Mapping[str, NDArray], again: Mapping[str, NDArray], to: Targets
    ) -> Combination:
        """Return the combination with the validation predictions of models that were fitted again.

        Args:
            first: predictions [m, outputs] of the validation nodes by the models of :meth:`fit`.
            again: the same by models that were fitted again without the node.
            to: the labels and the parts.
        """
        some, truth = [again[name] for name in first], to.y[to.val]
        validation = cross_fit(
            [*first.values()], truth, to.seed, is_class=to.is_class, predicted=some
        )
        if self.factors:
            validation = scale_classes(validation, np.array(self.factors))
        return replace(self, validation=validation)

    def predict(self, parts: Mapping[str, NDArray]) -> NDArray[np.float64]:
        """Combine predictions [n, outputs] of the components, by name.

        Without the component ``labels``, the weights ``other`` are used, and the probabilities of
        classes are not corrected by the factors.
        """
        is_class, has_labels = bool(self.factors), READS_LABELS in parts
        weights = self.weights if has_labels else self.other
        first = next(iter(parts.values()))
        combined = np.empty(first.shape)
        for rows in pieces(len(first)):
            some = pool_by_name(_rows(parts, rows), weights, is_class=is_class)
            if is_class and has_labels:
                some = scale_classes(some, np.array(self.factors))
            combined[rows] = some
        return combined

    @property
    def used(self) -> set[str]:
        """Names of the components that have a weight."""
        return {
            name for part in (self.weights, self.other) for name, weight in part.items() if weight
        }


def _rows(parts: Mapping[str, NDArray], rows: NDArray | slice) -> dict[str, NDArray[np.float64]]:
    """Return some rows of the predictions of each component."""
    return {name: part[rows].astype(np.float64) for name, part in parts.items()}
