"""Base of the scikit-learn estimators: parameters from a declaration, saving and loading."""

from __future__ import annotations

import inspect
import os
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.training.model_io import Json, RunError, read_model, write_model
from gattn.training.settings import fill_docstring
from gattn.training.types import History

__all__ = ["SerializableEstimator"]

Self = TypeVar("Self", bound="SerializableEstimator")


class Predictor(Protocol):
    """A fitted model that can be converted to tensors and JSON values."""

    history: list[History]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the JSON values that :meth:`from_state` needs."""
        ...

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: dict[str, Any], /) -> Predictor:
        """Make the model from the values that :meth:`state` returned."""
        ...


class SerializableEstimator(BaseEstimator, ABC):
    """Base of the estimators of molecules and of nodes: parameters, saving and loading.

    ``__init__`` takes the fields of ``_parameters`` and assigns them as they are, as scikit-learn
    requires; ``fit`` checks them.

    Attributes:
        task: the type of the labels.
        item: plural noun of the labelled items.
        predictor_: the fitted model.
    """

    task: ClassVar[Literal["regression", "classification"]]
    item: ClassVar[str]
    predictor_: Any
    _parameters: ClassVar[type]
    _predictor_kind: ClassVar[type[Predictor]]

    def __init_subclass__(cls, **options: Any) -> None:
        if "_parameters" in vars(cls):
            cls.__init__ = _initializer(cls._parameters)
        fill_docstring(cls, cls._parameters)
        super().__init_subclass__(**options)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted estimator: weights as safetensors, the rest as a JSON card.

        Args:
            folder: created if it does not exist.

        Raises:
            NotFittedError: the estimator was not fitted.
            OSError: the folder cannot be written; a model in it is left unchanged.
        """
        write_model(folder, *self.state())

    @classmethod
    def load(cls: type[Self], folder: str | os.PathLike[str]) -> Self:
        """Read a saved model, or the run of a ``train`` command; no code is executed.

        Args:
            folder: the folder of the model.

        Returns:
            The fitted estimator, with the predictions of the saved one.

        Raises:
            RunError: a file is missing, truncated or changed, or holds another kind of model.
        """
        return cls.from_state(folder, *read_model(folder))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors of a fitted estimator and the card with all other values.

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

    @classmethod
    def from_state(
        cls: type[Self],
        folder: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        card: Mapping[str, Any],
    ) -> Self:
        """Make the estimator from the values that :meth:`state` returned.

        Args:
            folder: the folder they were read from, which errors name.
            tensors: the tensors.
            card: all other values.

        Raises:
            RunError: the card is of another estimator or of an incompatible version, or a value
                is missing.
        """
        cls._check_card(folder, card)
        if card.get("estimator") != cls.__name__:
            raise RunError(f"{folder} holds a {card.get('estimator')}, not a {cls.__name__}")
        try:
            estimator = cls(**card["parameters"])
            estimator._load_state(tensors, card)
            estimator._load_labels_state(card["labels"])
            estimator.predictor_ = cls._restore(tensors, card["predictor"])
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"{folder} holds no model of {cls.item}: {error!r}") from error
        return estimator

    @classmethod
    def _restore(cls, tensors: dict[str, Tensor], state: dict[str, Any]) -> Predictor:
        """Make the predictor from the values that its ``state`` returned."""
        return cls._predictor_kind.from_state(tensors, state)

    @property
    def history_(self) -> list[History]:
        """The training history of each network, with a record for every epoch."""
        return self.predictor_.history

    @abstractmethod
    def _labels_state(self) -> dict[str, Any]:
        """Return the classes and the calibration as JSON values."""

    @abstractmethod
    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        """Restore the values of :meth:`_labels_state`."""

    @classmethod
    def _check_card(cls, folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
        """Raise RunError if this version cannot use the model of a card."""

    def _extra_tensors(self) -> dict[str, Tensor]:
        """Return tensors that are not part of the predictor."""
        return {}

    def _extra_state(self) -> dict[str, Json]:
        """Return further JSON values for the card."""
        return {}

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        """Restore the values of :meth:`_extra_tensors` and :meth:`_extra_state`."""


def _initializer(parameters: type) -> Callable[..., None]:
    """Make an ``__init__`` that assigns the fields of a dataclass, with their signature."""
    hints = typing.get_type_hints(parameters)
    fields = [
        field.replace(annotation=hints[field.name])
        for field in inspect.signature(parameters).parameters.values()
    ]

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name in hints.keys() & bound.arguments.keys():
            setattr(self, name, bound.arguments[name])

    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([owner, *fields], return_annotation=None)
    vars(__init__)["__signature__"] = signature
    return __init__


def _plain(value: object) -> Any:
    """Convert a parameter to JSON values: NumPy's scalars to Python's, a sequence to a list."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
