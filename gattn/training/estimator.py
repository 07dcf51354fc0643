"""Estimators as scikit-learn knows them, which a folder can keep: tensors, and a card."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.training.model_io import Json, RunError, read_model, write_model
from gattn.training.types import History

__all__ = ["KeptEstimator"]

Self = TypeVar("Self", bound="KeptEstimator")


class Predictor(Protocol):
    """A fitted model: tensors and plain values, and what was recorded of its training."""

    history: list[History]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors, and what else :meth:`from_state` needs, for JSON."""
        ...

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: dict[str, Any], /) -> Predictor:
        """Make the model of what :meth:`state` gave."""
        ...


class KeptEstimator(BaseEstimator, ABC):
    """What estimators of molecules and of nodes share: how they are saved and loaded.

    Attributes:
        task: what is predicted.
        item: of what, in the plural.
        predictor_: the fitted model.
    """

    task: ClassVar[Literal["regression", "classification"]]
    item: ClassVar[str]
    predictor_: Any
    _predictor_kind: ClassVar[type[Predictor]]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted estimator: weights as safetensors, all else as a JSON card.

        Args:
            folder: made where it is missing.

        Raises:
            NotFittedError: the estimator was not fitted.
            OSError: the folder cannot be written; a model that stood there stands still.
        """
        write_model(folder, *self.state())

    @classmethod
    def load(cls: type[Self], folder: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote, or the run of a ``train`` command; nothing is executed.

        Args:
            folder: of the model.

        Returns:
            The fitted estimator, which predicts what the saved one did.

        Raises:
            RunError: a file is missing, truncated or changed, or holds another kind of model.
        """
        return cls.from_state(folder, *read_model(folder))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors of a fitted estimator, and the rest of its card.

        Raises:
            NotFittedError: the estimator was not fitted.
        """
        check_is_fitted(self, "predictor_")
        tensors, predictor = self.predictor_.state()
        return tensors | self._own_tensors(), {
            "estimator": type(self).__name__,
            "task": self.task,
            "parameters": {name: _plain(value) for name, value in self.get_params().items()},
            **self._own_state(),
            "labels": self._labels_state(),
            "predictor": predictor,
        }

    @classmethod
    def from_state(
        cls: type[Self],
        folder: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        card: Mapping[str, Any],
    ) -> Self:
        """Make the estimator of what :meth:`state` gave and a folder holds.

        Raises:
            RunError: the card is of another estimator, or something in it is missing.
        """
        if card.get("estimator") != cls.__name__:
            raise RunError(f"{folder} holds a {card.get('estimator')}, not a {cls.__name__}")
        try:
            made = cls(**card["parameters"])
            made._take_own(tensors, card)
            made._take_labels_state(card["labels"])
            made.predictor_ = cls._predictor_kind.from_state(tensors, card["predictor"])
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"{folder} holds no model of {cls.item}: {error!r}") from error
        return made

    @property
    def history_(self) -> list[History]:
        """Of each network a record an epoch."""
        return self.predictor_.history

    @abstractmethod
    def _labels_state(self) -> dict[str, Any]:
        """What is to be known of the labels, for JSON."""

    @abstractmethod
    def _take_labels_state(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`_labels_state` gave."""

    def _own_tensors(self) -> dict[str, Tensor]:
        """Tensors beside those of the model."""
        return {}

    def _own_state(self) -> dict[str, Json]:
        """What else is on the card."""
        return {}

    def _take_own(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        """Take back what :meth:`_own_tensors` and :meth:`_own_state` gave."""


def _plain(value: object) -> Any:
    """A setting for JSON: NumPy's numbers become Python's, a sequence a list."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
