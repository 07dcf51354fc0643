"""Estimators of molecules as tensors and a JSON card, and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from torch import Tensor

from gattn.molecules.predictor import MoleculePredictor
from gattn.training.runs import Json, RunError

if TYPE_CHECKING:
    from gattn.molecules.base import MoleculeEstimator

__all__ = ["from_state", "to_state"]

Estimator = TypeVar("Estimator", bound="MoleculeEstimator")


def to_state(estimator: MoleculeEstimator) -> tuple[dict[str, Tensor], dict[str, Json]]:
    """The tensors of a fitted estimator, and what else there is to know."""
    tensors, predictor = estimator.predictor_.state()
    card: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "task": estimator.task,
        "parameters": {name: _plain(value) for name, value in estimator.get_params().items()},
        "targets": list(estimator.targets_),
        "single_target": estimator.single_target_,
        "labels": estimator.labels_state(),
        "predictor": predictor,
    }
    return tensors | {"seen": estimator.seen_}, card


def from_state(
    kind: type[Estimator],
    folder: str | os.PathLike[str],
    tensors: dict[str, Tensor],
    card: Mapping[str, Any],
) -> Estimator:
    """Make the estimator that :func:`to_state` took apart.

    Raises:
        RunError: the card is of another estimator, or something in it is missing.
    """
    if card.get("estimator") != kind.__name__:
        raise RunError(f"{folder} holds a {card.get('estimator')}, not a {kind.__name__}")
    try:
        made = kind(**card["parameters"])
        made.targets_, made.single_target_ = list(card["targets"]), card["single_target"]
        made.take_labels_state(card["labels"])
        made.seen_ = tensors["seen"]
        made.predictor_ = MoleculePredictor.from_state(tensors, card["predictor"])
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise RunError(f"{folder} holds no model of molecules: {error!r}") from error
    return made


def _plain(value: Any) -> Json:
    """A setting for JSON: NumPy's numbers become Python's."""
    return value.item() if isinstance(value, np.generic) else value
