"""Base class of the estimators of molecules, and of those of atoms and bonds."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.settings import settings_of
from gattn.apps.fitting.tasks import REGRESSION, Task, class_task
from gattn.apps.molecules.arrays import as_classes, as_numbers, find_classes
from gattn.apps.molecules.inputs import FeaturizedSmiles, Piece, featurise, make_pieces
from gattn.apps.molecules.members import check_feature_version
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.molecules.row_format import RowFormat
from gattn.apps.molecules.rows import LabelledMolecules, smiles_hashes
from gattn.apps.molecules.settings import MoleculeParameters, MoleculeSettings
from gattn.apps.run.estimator import SerializableEstimator
from gattn.data import BadRow, random_split


def _labels(kinds: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Convert class numbers [n] float64 to labels, an array of the type of ``kinds``. NaN stays
    NaN, and the array then contains float64 numbers or objects.
    """
    unknown = np.isnan(numbers)
    labels = kinds[np.where(unknown, 0, numbers).astype(int)]
    if unknown.any():
        labels = labels.astype(float if kinds.dtype.kind in "biuf" else object)
        labels[unknown] = np.nan
    return labels


Item = TypeVar("Item")
Result = TypeVar("Result")
Labelled = TypeVar("Labelled", bound=LabelledMolecules)
Self = TypeVar("Self", bound="SmilesEstimator")

if TYPE_CHECKING:  # type checkers derive the constructor's signature from the settings
    Parameters = MoleculeParameters
else:
    Parameters = object


class SmilesEstimator(SerializableEstimator, Parameters):
    """Base class of the estimators whose input is SMILES.

    Attributes:
        targets_: the names of the targets.
        percentiles_: [t, 101] percentiles of the predictions of drug-like molecules
            (:mod:`gattn.apps.molecules.estimators`); None if they were not predicted.
        level_: what a label belongs to: ``"atom"``, ``"bond"``, or "" for a molecule.
        bad_: the rows that the training left out.
        seen_: sorted hashes of the canonical SMILES of the training and the validation part.
    """

    item: ClassVar[str] = "molecules"
    targets_: list[str]
    percentiles_: Tensor | None = None
    level_: str = ""
    descriptors_columns_: Sequence[str] = ()
    bad_: tuple[BadRow, ...]
    seen_: Tensor
    _predictor_kind: ClassVar[Any]
    _parameters = MoleculeParameters

    def settings(self) -> MoleculeSettings:
        """Return the settings of the model."""
        return settings_of(MoleculeSettings, self)

    @property
    def row_format(self) -> RowFormat:
        """Content of a row of the table (one molecule, several, or a reaction), and the changes
        to its molecules before prediction.
        """
        return RowFormat(
            self.molecules_per_row, self.reaction, self.ignore_stereo, self.add_h,
            tuple(self.standardize),
        )  # fmt: skip

    def featurise(self, smiles: Sequence[str], descriptors: Any = None) -> FeaturizedSmiles:
        """Compute the inputs of the model from the SMILES of n rows, as in training.

        Args:
            smiles: n texts.
            descriptors: [n, f] values of descriptor columns; None if there are no such columns.

        Raises:
            ValueError: ``max_atoms`` or ``workers`` is below 1.
        """
        parsed = featurise(
            smiles, max_atoms=self.max_atoms, workers=self.workers, row_format=self.row_format
        )
        if descriptors is None:
            return parsed
        columns = torch.as_tensor(descriptors, dtype=torch.float64)[parsed.row_index]
        return replace(parsed, inputs=parsed.inputs.described(columns))

    def _pieces(
        self, make: Callable[[MoleculeInputs], Result], items: Iterable[Item], **options: Any
    ) -> Iterator[Piece[Item, Result]]:
        """Yield the results of a function, which gets the valid molecules of a chunk, in the order
        of the items. The options and the errors are those of
        :func:`gattn.apps.molecules.inputs.make_pieces`.
        """
        return make_pieces(
            make, items, max_atoms=self.max_atoms, workers=self.workers,
            row_format=self.row_format, **options,
        )  # fmt: skip

    def _split(self, data: Labelled) -> tuple[Labelled, Labelled]:
        """Split molecules into a training and a validation part; rows of one molecule stay
        together, and each part is in the order of a permutation that the seed of the estimator
        determines. Raises ValueError for a ``validation_fraction`` outside [0, 1].
        """
        fraction = float(self.validation_fraction)
        fractions = (1 - fraction, fraction, 0.0)
        split = random_split(len(data), seed=self.seed, fractions=fractions, groups=data.canonical)
        return data[split.train], data[torch.cat([split.val, split.test])]

    def fit_labelled(
        self: Self,
        train: LabelledMolecules,
        val: LabelledMolecules,
        *,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train the model on a training part and a validation part; the method ``read`` returns
        such parts.

        If whole groups of molecules were held out, such as scaffolds, ``groups`` of the parts names
        the group of each molecule; by default each molecule is a group.

        Raises:
            ValueError: a part has too few molecules, or a target no label in the training part.
            SettingsError: a setting for numbers was set for classes.
            TrainingError: a checkpoint is damaged or belongs to another training, or the loss is
                not finite.
            RuntimeError: a process that trains networks was killed.
            RunError: the encoder to start from (``from_foundation``) cannot be read.
        """
        if self.task.is_class:
            self.settings().check_classes()
        for name, part, least in (("training", train, 2), ("validation", val, 1)):
            if len(part) < least:
                raise ValueError(
                    f"the {name} part needs at least {least} molecule{'s' * (least > 1)} with a "
                    f"label; it has {len(part)}"
                )
        for name, column in zip(self.targets_, train.y.T):
            if not column.isfinite().any():
                raise ValueError(
                    f"the training part has no label of {name!r}: choose another split"
                )
        self.seen_ = smiles_hashes([*train.canonical, *val.canonical]).unique()
        self.percentiles_ = None
        parts = (
            replace(part, y=self.outputs_of(part.y), groups=part.groups or part.canonical)
            for part in (train, val)
        )
        self.predictor_ = self._predictor_kind.fit(
            *parts, self.task, self.settings(), classes=self.class_counts,
            folder=None if folder is None else Path(folder), progress=progress,
            threads=settings_of(MoleculeParameters, self).threads,
        )  # fmt: skip
        self._calibrate(val.y, self.predictor_.validation)
        return self

    def _calibrate(self, y: Tensor, prediction: Any) -> None:
        """Calibrate the prediction intervals, or the sets of classes, on the validation part."""

    def predictions(
        self,
        items: Iterable[Item],
        *,
        read: Callable[[Item], tuple[str, Sequence[float]]] | None = None,
        neighbors: int = 0,
    ) -> Iterator[Piece[Item, Any]]:
        """Predict molecules in chunks, in the order of the input and with bounded memory.

        Args:
            items: SMILES, or objects that contain one, such as rows of a table; a generator is
                consumed lazily. The SMILES of several molecules of a row are one text; see
                :func:`gattn.apps.molecules.row_format.join_smiles`.
            read: function that returns the SMILES of an item, and the values of
                ``descriptors_columns_``, NaN for a missing value; by default the items are SMILES.
            neighbors: number of most similar molecules to find for each; see
                :meth:`MoleculePredictor.nearest`.

        Yields:
            Consecutive items, with the predictions for those whose SMILES are valid.

        Raises:
            ValueError: ``read`` is missing, and the model reads descriptor columns.
            NotFittedError: the estimator was not fitted.
            RuntimeError: a worker process was killed, which the iterator raises.
        """
        self.check_fitted()
        columns = self.descriptors_columns_
        if columns and read is None:
            raise ValueError(
                f"this model reads the descriptor columns {', '.join(columns)}; got no descriptors"
            )
        predict = self.predictor_.predict
        if neighbors:
            predict = partial(predict, neighbors=neighbors)
        return self._pieces(predict, items, read=read, columns=len(columns))

    @property
    def classes_by_target(self) -> list[np.ndarray]:
        """The classes of each target; empty for a regression."""
        return []

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Number of classes of each target if the task is multiclass; empty for other tasks."""
        return ()

    def probabilities(self, mean: Tensor) -> list[Tensor]:
        """Return a tensor of class probabilities [k, c] for each target, given the mean [k, O] of a
        prediction; raise a TypeError for a regression.
        """
        return self.task.probabilities(mean, self.class_counts)

    def outputs_of(self, y: Tensor) -> Tensor:
        """Convert labels [k, t] to the form of the predictor's outputs, [k, O]."""
        return self.task.outputs_of(y, self.class_counts)

    @abstractmethod
    def _fit_labels(self, table: np.ndarray) -> None:
        """Check the training labels [n, t], and store the classes of each target."""

    @abstractmethod
    def _encode(self, table: np.ndarray) -> np.ndarray:
        """Convert labels [n, t] to float64, with NaN for missing labels."""

    @abstractmethod
    def _decide(self, mean: Tensor) -> np.ndarray:
        """Convert predicted means to labels [n, t], encoded as by :meth:`_encode`."""

    @classmethod
    def load(cls: type[Self], folder: str | os.PathLike[str]) -> Self:
        """Load a saved model, the model of a training run, or a model of gattn by its name, such as
        ``bbb``. Raises RunError if it is missing, changed or of another kind.
        """
        return super().load(resolve(Path(folder)))

    @classmethod
    def _check_card(cls, folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
        """Raise RunError if the model reads features of another version of gattn."""
        if isinstance(state := card.get("predictor"), dict):
            check_feature_version(folder, state)

    def _extra_tensors(self) -> dict[str, Tensor]:
        return {"seen": self.seen_}

    def _extra_state(self) -> dict[str, Any]:
        return {"targets": list(self.targets_), "level": self.level_}

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        self.seen_, self.targets_, self.level_ = tensors["seen"], [*card["targets"]], card["level"]


class NumberLabels(SmilesEstimator):
    """Base class of the regressors."""

    task: ClassVar[Task] = REGRESSION

    def _fit_labels(self, table: np.ndarray) -> None:
        """Raise ValueError if all labels of a target are the same number."""
        for name, column in zip(self.targets_, as_numbers(table).T):
            labels = column[np.isfinite(column)]
            if len(labels) > 1 and labels.min() == labels.max():
                raise ValueError(
                    f"{name} must have different numbers; every label is {labels[0]:g}"
                )

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_numbers(table)

    def _decide(self, mean: Tensor) -> np.ndarray:
        return mean.numpy()


class ClassLabels(SmilesEstimator):
    """Base class of the classifiers.

    Attributes:
        classes_: the classes of the only target, or a list of the classes of each target.
    """

    classes_: Any
    single_target_: bool

    @property
    def task(self) -> Task:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The task: multiclass if a target has more than two classes, otherwise classification."""
        return class_task(max(self.class_counts, default=2))

    @property
    def classes_by_target(self) -> list[np.ndarray]:
        """The classes of each target, as a list even if there is only one target."""
        return [self.classes_] if self.single_target_ else self.classes_

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Number of classes of each target if the task is multiclass; empty if every target has
        two classes.
        """
        if not hasattr(self, "classes_"):
            return ()
        counts = tuple(map(len, self.classes_by_target))
        return counts if max(counts) > 2 else ()

    def _fit_labels(self, table: np.ndarray) -> None:
        classes = find_classes(table, self.targets_)
        self.classes_ = classes[0] if self.single_target_ else classes

    def _encode(self, table: np.ndarray) -> np.ndarray:
        return as_classes(table, self.classes_by_target, self.targets_)

    def _decide(self, mean: Tensor) -> np.ndarray:
        """Return the number of the most probable class (the first of several equal ones); NaN is
        returned unchanged.
        """
        chosen = [
            p.argmax(1).double().masked_fill(p.isnan().any(1), torch.nan)
            for p in self.probabilities(mean)
        ]
        return torch.stack(chosen, 1).numpy()

    def _labels_state(self) -> dict[str, Any]:
        classes = [kinds.tolist() for kinds in self.classes_by_target]
        return super()._labels_state() | {"classes": classes}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        """Set the classes from the model card: an array for one target, a list of arrays for
        several.
        """
        super()._load_labels_state(state)
        classes = list(map(np.array, state["classes"]))
        self.classes_ = classes[0] if self.single_target_ else classes

    def labels_of(self, mean: Tensor) -> list[np.ndarray]:
        """Return the most probable class of each prediction [k, O], one array for each target."""
        numbers = self._decide(mean)
        return [_labels(kinds, each) for kinds, each in zip(self.classes_by_target, numbers.T)]
