"""Base class of gattn's scikit-learn estimators."""

from __future__ import annotations

from abc import ABC
from typing import Any, TypeVar

from sklearn.base import BaseEstimator

from gattn.apps.run.fitted import FittedModel

__all__ = ["SerializableEstimator"]

Self = TypeVar("Self", bound="SerializableEstimator")


class SerializableEstimator(BaseEstimator, FittedModel, ABC):
    """Base class of the estimators for molecules and nodes; it has scikit-learn's interface and
    ``save``.
    """

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters of the estimator; ``threads`` also changes the fitted model."""
        super().set_params(**params)
        if hasattr(self, "predictor_"):
            self.predictor_.threads = self.get_params()["threads"]
        return self
