"""Base of fitted models: parameters from a declaration, and loading without scikit-learn."""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from torch import Tensor

from gattn.training.model_io import RunError, read_model
from gattn.training.settings import fill_docstring
from gattn.training.types import History

__all__ = ["FittedModel"]

Self = TypeVar("Self", bound="FittedModel")


class Predictor(Protocol):
    """A fitted model that can be converted to tensors and JSON values."""

    history: list[History]
    threads: int

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the JSON values that :meth:`from_state` needs."""
        ...

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], state: dict[str, Any], /) -> Predictor:
        """Make the model from the values that :meth:`state` returned."""
        ...


class FittedModel:
    """A model that predicts, with the parameters of its estimator.

    The import of scikit-learn takes longer than a prediction: commands that only predict load a
    subclass of this class, and an estimator is such a subclass with scikit-learn's protocol.
    ``__init__`` takes the fields of ``_parameters`` and assigns them as they are, as scikit-learn
    requires; ``fit`` checks them.

    Attributes:
        task: the type of the labels.
        item: plural noun of the labelled items.
        predictor_: the fitted model.
        threads: intra-operator threads; 0 chooses them by the work.
    """

    task: ClassVar[Literal["regression", "classification"]]
    item: ClassVar[str]
    predictor_: Any
    threads: int
    _parameters: ClassVar[type]
    _predictor_kind: ClassVar[type[Predictor]]
    _saved_as: ClassVar[str] = ""
    """Name of the estimator that wrote the models which this class reads; its own if empty."""

    def __init_subclass__(cls, **options: Any) -> None:
        if "_parameters" in vars(cls):
            cls.__init__ = _initializer(cls._parameters)
        if hasattr(cls, "_parameters"):
            fill_docstring(cls, cls._parameters)
        super().__init_subclass__(**options)

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

    @classmethod
    def from_state(
        cls: type[Self],
        folder: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        card: Mapping[str, Any],
    ) -> Self:
        """Make the model from the values that the ``state`` of an estimator returned.

        Args:
            folder: the folder they were read from, which errors name.
            tensors: the tensors.
            card: all other values.

        Raises:
            RunError: the card is of another estimator or of an incompatible version, or a value
                is missing.
        """
        name = cls._saved_as or cls.__name__
        if card.get("estimator") != name:
            raise RunError(f"{folder} holds a {card.get('estimator')}, not a {name}")
        cls._check_card(folder, card)
        try:
            model = cls(**card["parameters"])
            model._load_state(tensors, card)
            model._load_labels_state(card["labels"])
            model.predictor_ = cls._restore(tensors, card["predictor"])
            model.predictor_.threads = model.threads
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RunError(f"{folder} holds no model of {cls.item}: {error!r}") from error
        return model

    @classmethod
    def _restore(cls, tensors: dict[str, Tensor], state: dict[str, Any]) -> Predictor:
        """Make the predictor from the values that its ``state`` returned."""
        return cls._predictor_kind.from_state(tensors, state)

    def check_fitted(self) -> None:
        """Raise scikit-learn's NotFittedError if there is no fitted model."""
        if "predictor_" not in vars(self):
            from sklearn.utils.validation import check_is_fitted

            check_is_fitted(self, "predictor_")

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        """Restore the classes and the calibration."""
        raise NotImplementedError

    @classmethod
    def _check_card(cls, folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
        """Raise RunError if this version cannot use the model of a card."""

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        """Restore values of the card that are not part of the predictor."""


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
