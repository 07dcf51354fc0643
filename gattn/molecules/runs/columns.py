"""Predictions as columns of a table: names, and cells of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.predictor import Prediction
from gattn.pipeline.text import beside_error

__all__ = ["prediction_cells", "prediction_columns"]

SIMILARITY = "similarity"


def prediction_columns(estimator: MoleculeEstimator) -> list[str]:
    """The names of the columns: with several targets each begins with the target's name.

    Args:
        estimator: a fitted one.

    Returns:
        For numbers ``prediction``, ``std``, ``lower`` and ``upper``; for classes ``prediction``,
        ``probability`` of class 1 (of another second class ``probability_NAME``), ``std`` of
        that, and ``set``, the classes that cannot be excluded; last ``similarity``, the
        Tanimoto similarity on Morgan bits to the most similar molecule of the training and
        validation parts (of :attr:`MoleculePredictor.held`, of the training part alone).
    """
    names = [_names(estimator, i) for i in range(len(estimator.targets_))]
    if len(names) == 1:
        return [*names[0], SIMILARITY]
    return [*(f"{t}_{n}" for t, each in zip(estimator.targets_, names) for n in each), SIMILARITY]


def prediction_cells(
    estimator: MoleculeEstimator, made: Prediction, coverage: float
) -> list[list[str]]:
    """The cells of k predictions under :func:`prediction_columns`, numbers to six digits or more.

    A predicted number has so many that four digits of its standard deviation show in it.
    """
    if isinstance(estimator, MoleculeRegressor):
        ends = estimator.calibrator_.interval(made.mean, made.std, coverage=coverage)
        columns = [made.mean, made.std, *ends]
        per_target = [
            [_beside(column[:, i], made.std[:, i]) for column in columns] for i in _targets(made)
        ]
    elif isinstance(estimator, MoleculeClassifier):
        both = torch.stack([1 - made.mean, made.mean], dim=2)
        sets = estimator.calibrator_.sets(both, coverage=coverage)
        per_target = [
            [
                [str(kinds[int(p > 0.5)]) for p in made.mean[:, i].tolist()],
                _numbers(made.mean[:, i]),
                _numbers(made.std[:, i]),
                [_joined(kinds, held) for held in sets[:, i].tolist()],
            ]
            for i, kinds in enumerate(estimator.classes_by_target)
        ]
    else:
        raise TypeError(f"{type(estimator).__name__} predicts neither numbers nor classes")
    flat = [column for columns in per_target for column in columns]
    return [list(cells) for cells in zip(*flat, _numbers(made.nearest))]


def _names(estimator: MoleculeEstimator, target: int) -> Sequence[str]:
    if not isinstance(estimator, MoleculeClassifier):
        return ("prediction", "std", "lower", "upper")
    second = str(estimator.classes_by_target[target][1])
    probability = "probability" if second in ("1", "True") else f"probability_{second}"
    return ("prediction", probability, "std", "set")


def _targets(made: Prediction) -> range:
    return range(made.mean.shape[1])


def _numbers(column: Tensor) -> list[str]:
    return [f"{value:.6g}" for value in column.tolist()]


def _beside(column: Tensor, std: Tensor) -> list[str]:
    """Numbers, whose digits reach as far as those of their standard deviation."""
    pairs = zip(column.tolist(), std.tolist())
    return [beside_error(value, error, digits=6, of_error=4) for value, error in pairs]


def _joined(kinds: Iterable[object], held: Sequence[bool]) -> str:
    return "|".join(str(kind) for kind, is_held in zip(kinds, held) if is_held)
