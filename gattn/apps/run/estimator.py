"""Base class of gattn's scikit-learn estimators."""

from __future__ import annotations

import inspect
import os
import typing
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from gattn.apps.fitting.settings import check_value, fill_docstring
from gattn.apps.fitting.tasks import Task
from gattn.apps.fitting.types import History
from gattn.apps.run.model_io import Json, RunError, read_model, write_model

Self = TypeVar("Self", bound="SerializableEstimator")


class SerializableEstimator(BaseEstimator, ABC):
    """Base class of the estimators, with scikit-learn's interface and ``save`` and ``load``.

    ``__init__`` has the fields of the dataclass ``_parameters`` as arguments and stores them
    unchanged, as scikit-learn requires; ``fit`` checks them.

    Attributes:
        task: the type of the labels.
        item: plural noun of the labelled items, for example "molecules".
        predictor_: the fitted model.
        calibrator_: the calibration of its intervals or sets of classes; some models have none.
        threads: number of threads inside an operator; 0 chooses it by the size of the input.
    """

    task: ClassVar[Task]
    item: ClassVar[str]
    predictor_: Any
    calibrator_: Any
    threads: int
    _parameters: ClassVar[type]
    _predictor_kind: ClassVar[Any]

    def __init_subclass__(cls, **options: Any) -> None:
        """Create the constructor of a subclass from its class ``_parameters``, and add the
        parameters to its docstring.
        """
        if "_parameters" in vars(cls):
            cls.__init__ = _initializer(cls._parameters)
        if hasattr(cls, "_parameters"):
            fill_docstring(cls, cls._parameters)
        super().__init_subclass__(**options)

    @classmethod
    def load(cls: type[Self], folder: str | os.PathLike[str]) -> Self:
        """Load a saved model, or the model of a training run. No code in the files is executed.

        Args:
            folder: the folder of the model or of the run.

        Returns:
            The fitted estimator, whose predictions equal the predictions of the saved estimator.

        Raises:
            RunError: a file is missing, truncated or changed, or is of another kind of model.
        """
        return cls.from_state(folder, *read_model(folder))

    @classmethod
    def from_state(
        cls: type[Self],
        folder: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        card: Mapping[str, Any],
    ) -> Self:
        """Restore a model from the result of an estimator's method ``state``.

        Args:
            folder: the folder from which the values were read, for error messages.
            tensors: the tensors of the model.
            card: all other values of the model.

        Returns:
            The fitted estimator.

        Raises:
            RunError: the card is from another estimator or an incompatible version, or a value is
                missing.
        """
        if card.get("estimator") != cls.__name__:
            raise RunError(f"{folder} contains a {card.get('estimator')}, not a {cls.__name__}")
        cls._check_card(folder, card)
        try:
            model = cls(**_restored(cls._parameters, card["parameters"]))
            model._load_state(tensors, card)
            model._load_labels_state(card["labels"])
            model.predictor_ = cls._restore(tensors, card["predictor"])
            model.predictor_.threads = model.threads
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(
                f"{folder} does not contain a model of {cls.item} that this version of gattn "
                f"reads: {error!r}; train it again"
            ) from error
        return model

    @classmethod
    def _restore(cls, tensors: dict[str, Tensor], state: dict[str, Any]) -> Any:
        """Create the predictor from the result of its method ``state``."""
        return cls._predictor_kind.from_state(tensors, state)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder, as safetensors and JSON files.

        Args:
            folder: the folder, which is created if it does not exist.

        Raises:
            NotFittedError: the model was not fitted.
            OSError: the folder cannot be written; a model in it is left unchanged.
        """
        write_model(folder, *self.state())

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors of a fitted model, and a dictionary with all other values, which is
        called the card.

        Raises:
            NotFittedError: the model was not fitted.
        """
        self.check_fitted()
        tensors, predictor = self.predictor_.state()
        names = sorted(inspect.signature(self._parameters).parameters)
        return tensors | self._extra_tensors(), {
            "estimator": type(self).__name__,
            "task": self.task.name,
            "parameters": {name: _plain(getattr(self, name)) for name in names},
            **self._extra_state(),
            "labels": self._labels_state(),
            "predictor": predictor,
        }

    @property
    def history_(self) -> list[History]:
        """Training history of each network, with a record of every epoch."""
        return self.predictor_.history

    def check_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError if the model is not fitted."""
        check_is_fitted(self, "predictor_")

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters of the estimator, and return it. Only ``threads`` also changes a fitted
        model. Raises ValueError for an unknown parameter; ``fit`` checks the values.
        """
        super().set_params(**params)
        if hasattr(self, "predictor_"):
            self.predictor_.threads = self.get_params()["threads"]
        return self

    def checked(self, name: str) -> Any:
        """Return a parameter after a check of its type and range, which raises ValueError."""
        return check_value(self._parameters, name, getattr(self, name))

    def _labels_state(self) -> dict[str, Any]:
        """Return the calibration as JSON values, or {} if there is none; estimators of classes add
        the classes.
        """
        has_calibrator = hasattr(self, "calibrator_")
        return {"calibration": self.calibrator_.state()} if has_calibrator else {}

    def _extra_tensors(self) -> dict[str, Tensor]:
        """Return additional tensors to save that are not part of the predictor."""
        return {}

    def _extra_state(self) -> dict[str, Json]:
        """Return additional JSON values to save that are not part of the predictor."""
        return {}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        """Restore the calibration from JSON values; classifiers also restore their classes."""
        if "calibration" in state:
            self.calibrator_ = self.task.calibrator.from_state(state["calibration"])

    @classmethod
    def _check_card(cls, folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
        """Raise a RunError if this version of gattn cannot use the saved model."""

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        """Restore additional values that are not part of the predictor."""


def _plain(value: object) -> Any:
    """Convert a parameter to JSON values: NumPy scalars to Python numbers, sequences to lists."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _restored(parameters: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameter values that were read from JSON, in which tuples are stored as lists: a list
    becomes a tuple again if that is the declared type.
    """
    hints = typing.get_type_hints(parameters)
    tuples = {name for name, hint in hints.items() if typing.get_origin(hint) is tuple}
    return {n: tuple(v) if n in tuples and v is not None else v for n, v in values.items()}


def _initializer(parameters: type) -> Callable[..., None]:
    """Create an ``__init__`` method that takes the fields of a dataclass and stores them as
    attributes.
    """
    hints = typing.get_type_hints(parameters)
    fields = [
        field.replace(annotation=hints[field.name])
        for field in inspect.signature(parameters).parameters.values()
    ]

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:
        """Store each parameter in the attribute of its name, with its default if it is
        not passed.
        """
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for name in hints.keys() & bound.arguments.keys():
            setattr(self, name, bound.arguments[name])

    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([owner, *fields], return_annotation=None)
    vars(__init__)["__signature__"] = signature
    return __init__
