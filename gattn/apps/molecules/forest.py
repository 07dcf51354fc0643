"""Forest of extremely randomised trees on fingerprints and descriptors. The trees are stored as
tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules.gaussian_process import draw_labelled
from gattn.apps.molecules.inputs import in_pieces
from gattn.apps.molecules.kernels.features import TreeNodes, tree_leaves

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs

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


def _grow(
    x: np.ndarray, y: np.ndarray, groups: np.ndarray, is_train: np.ndarray,
    weights: np.ndarray, count: int, generator: np.random.Generator,
    check: Callable[[], None],
) -> tuple[dict[str, np.ndarray], np.ndarray]:  # fmt: skip
    """Train the trees of one forest.

    Args:
        x: [k, d] float32 features of the molecules.
        y: [k, o] float64 outputs; no output is missing.
        groups: [k] int64, the group of each molecule.
        is_train: [k] bool, whether a molecule is in the training part. The first half of the trees
            is trained on this part only.
        weights: [k] factors of the squared errors.
        count: number T of trees.
        generator: generator of the samples and of the seeds of the trees.
        check: called before each tree; an error that it raises ends the training.

    Returns:
        The arrays of the nodes, by the names of :class:`TreeNodes`, with the mean labels ``value``
        [m, o] float32 of each node, and a mask [k, T] of the molecules of those groups on which
        each tree was trained.
    """
    from sklearn.tree import ExtraTreeRegressor

    parts: list[dict[str, np.ndarray]] = []
    inside = np.zeros((len(x), count), dtype=bool)
    first = 0
    for number in range(count):
        check()
        few = number < count - count // 2
        rows = np.arange(len(x))
        if few and is_train.any():
            rows = np.flatnonzero(is_train)
        kinds = generator.permutation(np.unique(groups[rows]))
        chosen = rows[np.isin(groups[rows], kinds[: max(round(INSIDE * len(kinds)), 1)])]
        chosen = np.sort(generator.permutation(chosen)[:ROWS])
        # A tree must not be measured on a molecule if it was trained on another molecule of the
        # same group.
        inside[:, number] = np.isin(groups, groups[chosen])
        tree: Any = ExtraTreeRegressor(
            max_features=FEATURES, random_state=int(generator.integers(2**31 - 1))
        )
        tree.fit(x[chosen], y[chosen], weights[chosen])
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


LEAST = 3
"""A Morgan environment is a feature only if it occurs in at least this number of molecules."""
MOST = 20_000
"""Maximum number of molecules whose features are stored. If there are more, a random sample is
used.
"""
TOTAL = 4
"""Maximum number of blocks of outputs for which all trees are trained. For more blocks, each
block has fewer trees, so that the time does not grow with the number of targets.
"""
MOST_TARGETS = 50
"""Maximum number of targets, or of classes of all targets. The time grows with this number."""
PIECE = 512
"""Number of molecules that are predicted at once."""


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Predictions for molecules by those trees that were not trained on them.

    Attributes:
        mean: [k, t] means over those trees, in the targets' units; NaN for a molecule without such
            a tree.
        excess: [k, t], the part of the squared error that is due to the small number of those
            trees: the expected decrease of the squared error for all trees of the forest.
    """

    mean: Tensor
    excess: Tensor

    def __getitem__(self, rows: slice) -> OutOfBag:
        return OutOfBag(self.mean[rows], self.excess[rows])

    def filled(self, mean: Tensor) -> OutOfBag:
        """Return the predictions of trees that were not trained on a molecule. If there is no such
        tree, return the row of the given means [k, t].
        """
        missing = self.mean.isnan()
        return OutOfBag(mean.where(missing, self.mean), self.excess.masked_fill(missing, 0.0))


def forest_obstacle(trees: int, targets: int, *bounds: Tensor | None) -> str:
    """Return the reason why a model has no forest; "" if it has one.

    Args:
        trees: the setting ``trees``.
        targets: number of targets, or of their classes.
        bounds: the ends of the labels [k, t, 2] of each part; None if there are no limits.
    """
    if not trees:
        return "the setting trees is 0"
    if any(each is not None and bool(each.isinf().any()) for each in bounds):
        return "it reads no censored labels"
    return f"there are more than {MOST_TARGETS} targets" if targets > MOST_TARGETS else ""


class Forest:
    r"""Forest of extremely randomised regression trees. Its prediction is the mean over the trees.

    .. math:: y(a) = \frac{1}{T} \sum_t f_t(x_a)

    x are the descriptors of a molecule, the user's own columns, and the Morgan counts of
    environments that at least three training molecules have. Each tree is trained on a random
    sample of the groups of molecules and splits its nodes at random thresholds. Targets that have
    the same labelled molecules share their trees. For classes, the outputs are the means of 0 and
    1.

    The first half of the trees reads the training part alone. For these trees, the molecules of the
    validation part are new molecules. The weights of the components can therefore be fitted to
    their predictions of the validation part. The second half also reads the validation part.

    The trees are fitted by scikit-learn (:mod:`gattn.apps.molecules.forest`) and stored as tensors,
    so that a saved model contains no code.

    Reference: Geurts et al., "Extremely randomized trees" (Machine Learning 2006); Breiman,
    "Random forests" (Machine Learning 2001), for predictions out of the bag.
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        """Restore a forest from the tensors of :meth:`state`."""
        self._tensors = tensors
        self.targets = len(tensors["mean"])

    def _leaf_values(self, block: int, x: Tensor) -> Tensor:
        """Return the values [k, T, o] of the leaves of k molecules in the trees of a block."""
        tensors = self._tensors
        nodes = TreeNodes(*(tensors[f"{block}.{name}"] for name in TreeNodes._fields))
        return tensors[f"{block}.value"][tree_leaves(nodes, x)].double()

    @classmethod
    def fit(
        cls, train: MoleculeInputs, val: MoleculeInputs, y: Tensor, *, trees: int, seed: int,
        groups: Tensor, weights: Tensor, check: Callable[[], None] = lambda: None,
    ) -> tuple[Forest, list[OutOfBag]]:  # fmt: skip
        """Train the trees on at most 20,000 molecules, drawn at random with labels of each target;
        predict each of them with the trees that were not trained on it.

        Args:
            train: molecules of the training part.
            val: molecules of the validation part.
            y: [k, t] float64, the labels of the k molecules of both parts; NaN where a target was
                not measured. Each target has a label in the training part.
            trees: number of trees of each target, at least 2. Targets with the same labelled
                molecules form a block; with more than :data:`TOTAL` blocks, each has fewer trees.
            seed: seed of the samples and the splits.
            groups: [k] int64, the group of each molecule. A tree is trained on all molecules of a
                group or on none.
            weights: [k] above 0, factors of the squared errors.
            check: called before each tree; an error that it raises ends the training.

        Returns:
            The forest, and two predictions of the k molecules: by the trees that read the training
            part alone, and by all trees; NaN for a molecule that was not drawn.
        """
        generator = np.random.default_rng(seed)
        first, total = len(train), len(train) + len(val)
        # Of each target, an equal number of labels is drawn first: a random sample of molecules may
        # contain no label of a target with few labels, on which no tree can be trained.
        first_drawn = np.zeros(total, bool)
        first_drawn[draw_labelled(y.isfinite(), MOST // y.shape[1], seed)[0]] = True
        order = generator.permutation(total)
        order = np.sort(order[np.argsort(~first_drawn[order], kind="stable")][:MOST])
        mean, scale = moments(y[:first])
        # The labels are rounded to float32, so that rounding errors of another unit of the target
        # do not change the splits of the trees.
        scaled = ((y - mean) / scale).float().double().numpy()
        some = train[torch.from_numpy(order[order < first])]
        others = val[torch.from_numpy(order[order >= first] - first)]
        columns = ((some.counts > 0).sum(0) >= LEAST).nonzero()[:, 0]
        x = np.concatenate([_features(part, columns) for part in (some, others)])
        patterns, block = np.unique(np.isfinite(scaled), axis=1, return_inverse=True)
        block = torch.from_numpy(block.reshape(-1).astype(np.int64))
        tensors = {"mean": mean, "scale": scale, "columns": columns, "block": block}
        count = max(min(trees, trees * TOTAL // patterns.shape[1]), 2)
        outs = [torch.full((2, total, y.shape[1]), torch.nan).double() for _ in range(2)]
        names = groups.numpy()
        forest = cls(tensors)
        half = torch.arange(count) < count - count // 2
        for number in range(patterns.shape[1]):
            labelled = np.flatnonzero(patterns[order, number])
            of_block = (block == number).nonzero()[:, 0]
            rows, some_x = order[labelled], x[labelled]
            nodes, inside = _grow(
                some_x, scaled[rows][:, of_block.numpy()], names[rows], rows < first,
                weights.numpy()[rows], count, generator, check,
            )  # fmt: skip
            tensors |= {f"{number}.{name}": torch.from_numpy(each) for name, each in nodes.items()}
            place = slice(None), torch.from_numpy(rows)[:, None], of_block
            features = torch.from_numpy(some_x).split(PIECE)
            left = ~torch.from_numpy(inside)
            for out, allowed in zip(outs, (half, torch.ones_like(half))):
                pieces = zip(features, (left & allowed).split(PIECE))
                out[place] = torch.cat(
                    [
                        _out_of_bag(forest._leaf_values(number, piece), mask, int(allowed.sum()))
                        for piece, mask in pieces
                    ],
                    1,
                )
        return forest, [OutOfBag(out[0] * scale + mean, out[1] * scale.square()) for out in outs]

    def predict(self, inputs: MoleculeInputs) -> Tensor:
        """Predict the targets of k molecules, [k, t] float64, in the targets' units."""
        columns, block = self._tensors["columns"], self._tensors["block"]
        result = torch.zeros(len(inputs), self.targets, dtype=torch.float64)
        begin = 0
        for some in in_pieces(inputs, PIECE):
            x = torch.from_numpy(_features(some, columns))
            rows = slice(begin, begin + len(some))
            for number in range(int(block.max()) + 1):
                result[rows, block == number] = self._leaf_values(number, x).mean(1)
            begin += len(some)
        return result * self._tensors["scale"] + self._tensors["mean"]

    def state(self) -> dict[str, Tensor]:
        """Return the tensors from which the forest can be restored."""
        return dict(self._tensors)


def _out_of_bag(values: Tensor, left: Tensor, count: int) -> Tensor:
    """Return the mean of the leaf values [k, T, o] over the trees that ``left`` [k, T] marks, and
    the difference between its expected squared error and that of the mean over ``count`` trees:
    [2, k, o] float64, NaN for a molecule without such a tree.
    """
    used, number = left[:, :, None].double(), left.sum(1)[:, None].double()
    mean = (values * used).sum(1) / number
    squares = ((values - mean[:, None]).square() * used).sum(1)
    variance = squares / (number - 1).clamp(min=1)
    return torch.stack([mean, variance * (1 / number - 1 / count)])


def _features(inputs: MoleculeInputs, columns: Tensor) -> np.ndarray:
    """Return the descriptors, the user's columns and the ``columns`` (int64 indices) of the
    fingerprints of k molecules: [k, d] float32.
    """
    parts = [
        inputs.descriptors,
        inputs.extra_descriptors.float(),
        inputs.counts[:, columns].float(),
    ]
    return torch.cat(parts, 1).numpy()
