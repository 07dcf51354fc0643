"""Base class of gattn's scikit-learn estimators, which can be saved."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.training.fitted import FittedModel
from gattn.training.model_io import Json, write_model
from gattn.training.types import History

__all__ = ["SerializableEstimator"]

Self = TypeVar("Self", bound="SerializableEstimator")


class SerializableEstimator(BaseEstimator, FittedModel, ABC):
    """Base class of the estimators for molecules and nodes, with scikit-learn's interface and
    ``save``.
    """

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters of the estimator; ``threads`` also changes the fitted model."""
        super().set_params(**params)
        if hasattr(self, "predictor_"):
            self.predictor_.threads = self.get_params()["threads"]
        return self

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a folder, as safetensors and JSON files.

        Args:
            folder: the folder, which is created if it does not exist.

        Raises:
            NotFittedError: the estimator was not fitted.
            OSError: the folder cannot be written; a model in it is left unchanged.
        """
        write_model(folder, *self.state())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors of a fitted estimator, and a dictionary of all other values ("card").

        Raises:
            NotFittedError: the estimator was not fitted.
        """
        check_is_fitted(self, "predictor_")
        tensors, predictor = self.predictor_.state()
        return tensors | self._extra_tensors(), {
            "estimator": type(self).__name__,
            "task": self.task,
            "parameters": {name: _plain(value) for name, value in self.get_params().items()},
            **self._extra_state(),
            "labels": self._labels_state(),
            "predictor": predictor,
        }

    @property
    def history_(self) -> list[History]:
        """Training history of each network, with a record of every epoch."""
        return self.predictor_.history

    @abstractmethod
    def _labels_state(self) -> dict[str, Any]:
        """Return the classes and the calibration as JSON values."""

    def _extra_tensors(self) -> dict[str, Tensor]:
        """Return additional tensors to save that are not part of the predictor."""
        return {}

    def _extra_state(self) -> dict[str, Json]:
        """Return additional JSON values to save that are not part of the predictor."""
        return {}


def _plain(value: object) -> Any:
    """Convert a parameter to JSON values: NumPy scalars to Python numbers, sequences to lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
