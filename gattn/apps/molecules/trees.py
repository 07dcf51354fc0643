"""Training of extremely randomised trees by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TreeProblem", "grow_forests"]

INSIDE = 0.7
"""Fraction of the groups of molecules on which a tree is trained. The errors of the tree are
measured on the other molecules.
"""
FEATURES = 1 / 3
"""Fraction of the features from which a tree chooses at each split."""
ROWS = 4000
"""Maximum number of molecules on which a tree is trained. It limits the time and the size of the
tree.
"""


@dataclass(frozen=True, eq=False)
class TreeProblem:
    """Molecules and outputs on which the trees of a forest are trained; no output is missing.

    Attributes:
        rows: [k] indices of the molecules.
        y: [k, o] float64 outputs.
        groups: [k] int64, the group of each molecule.
        is_train: [k] bool, whether a molecule is in the training part. The first half of the trees
            is trained on this part only.
        weights: [k] factors of the squared errors; None if all are 1.
    """

    rows: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    is_train: np.ndarray
    weights: np.ndarray | None


def grow_forests(
    x: np.ndarray,
    problems: Sequence[TreeProblem],
    count: int,
    generator: np.random.Generator,
    *,
    check: Callable[[], None],
) -> list[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Train one forest for each problem.

    Args:
        x: [n, d] float32 features of all molecules.
        problems: molecules and outputs of each forest.
        count: number T of trees of each forest.
        generator: generator of the samples and of the seeds of the trees.
        check: called before each tree; an error that it raises ends the training.

    Returns:
        For each forest the arrays of its nodes, with the names of the tensors of
        :class:`gattn.apps.molecules.forest.Forest`, and a mask [k, T] of the molecules of those
        groups on which each tree was trained.
    """
    return [_grow(x[problem.rows], problem, count, generator, check) for problem in problems]


def _grow(
    x: np.ndarray,
    problem: TreeProblem,
    count: int,
    generator: np.random.Generator,
    check: Callable[[], None],
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Train the trees of one forest on the features [k, d] of its molecules."""
    from sklearn.tree import ExtraTreeRegressor

    groups, weights = problem.groups, problem.weights
    parts: list[dict[str, np.ndarray]] = []
    inside = np.zeros((len(x), count), dtype=bool)
    first = 0
    for number in range(count):
        check()
        few = number < count - count // 2
        rows = np.arange(len(x))
        if few and problem.is_train.any():
            rows = np.flatnonzero(problem.is_train)
        kinds = generator.permutation(np.unique(groups[rows]))
        chosen = rows[np.isin(groups[rows], kinds[: max(round(INSIDE * len(kinds)), 1)])]
        chosen = np.sort(generator.permutation(chosen)[:ROWS])
        # A tree must not be measured on a molecule if it was trained on another molecule of the
        # same group.
        inside[:, number] = np.isin(groups, groups[chosen])
        tree: Any = ExtraTreeRegressor(
            max_features=FEATURES, random_state=int(generator.integers(2**31 - 1))
        )
        tree.fit(x[chosen], problem.y[chosen], None if weights is None else weights[chosen])
        nodes = tree.tree_
        parts.append(
            {
                "feature": np.where(nodes.children_left < 0, -1, nodes.feature),
                "threshold": _rounded_down(nodes.threshold),
                "right": np.where(nodes.children_left < 0, 0, nodes.children_right + first),
                "value": nodes.value[:, :, 0].astype(np.float32),
                "roots": np.array([first]),
            }
        )
        first += nodes.node_count
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for name in ("feature", "right"):
        joined[name] = joined[name].astype(np.int32)
    return joined, inside


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """Return for each threshold the largest float32 number that does not exceed it. Comparisons
    of float32 features then have the same results.
    """
    single = threshold.astype(np.float32)
    return np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
