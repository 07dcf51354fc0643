"""Trained models of molecules, which predict without importing scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator
from gattn.apps.molecules.classes import one_hot, split_classes
from gattn.apps.molecules.feature_version import check_predictor_features
from gattn.apps.molecules.inputs import FeaturizedSmiles, Piece, featurise, make_pieces
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.quantiles import QuantileIntervals
from gattn.apps.molecules.row_format import RowFormat
from gattn.apps.molecules.settings import MoleculeParameters, Task
from gattn.apps.molecules.target_transform import restore_intervals
from gattn.apps.run.fitted import FittedModel

__all__ = ["ClassificationModel", "MoleculeModel", "RegressionModel"]

Item = TypeVar("Item")


class MoleculeModel(FittedModel):
    """Base class of the trained models of molecules.

    Attributes:
        targets_: the names of the targets.
        single_target_: True if the labels had no dimension of targets.
        max_atoms: molecules with more atoms are errors.
        workers: number of processes that parse SMILES.
        standardize: steps of the standardisation of every molecule, in training and prediction.
        descriptors_columns_: the names of the descriptor columns that the model reads beside the
            molecule.
        molecules_per_row: number of molecules in a row.
        order_free: whether their order has no meaning.
        reaction: whether a row is a reaction.
        ignore_stereo: whether stereochemistry is ignored.
        add_h: whether hydrogens are atoms of the graphs.
    """

    item: ClassVar[str] = "molecules"
    predictor_: MoleculePredictor
    targets_: list[str]
    single_target_: bool
    descriptors_columns_: list[str]
    max_atoms: int
    workers: int
    standardize: Sequence[str]
    molecules_per_row: int
    order_free: bool
    reaction: bool
    ignore_stereo: bool
    add_h: bool
    _parameters = MoleculeParameters
    _predictor_kind = MoleculePredictor

    @classmethod
    def _check_card(cls, folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
        check_predictor_features(folder, card)

    @property
    def row_format(self) -> RowFormat:
        """Content of a row of the table (one molecule, several, or a reaction), and the changes
        to its molecules before prediction.
        """
        return RowFormat(
            self.molecules_per_row, self.order_free, self.reaction, self.ignore_stereo, self.add_h,
            tuple(self.standardize),
        )  # fmt: skip

    def featurise(self, smiles: Sequence[str]) -> FeaturizedSmiles:
        """Compute the inputs of the model from the SMILES of n rows, as in training.

        Args:
            smiles: n texts.
        """
        return featurise(
            smiles, max_atoms=self.max_atoms, workers=self.workers,
            row_format=self.row_format,
        )  # fmt: skip

    def predictions(
        self,
        items: Iterable[Item],
        *,
        smiles: Callable[[Item], str] | None = None,
        descriptors: Callable[[Item], Sequence[float]] | None = None,
        neighbors: int = 0,
    ) -> Iterator[Piece[Item, Prediction]]:
        """Predict molecules in chunks, in the order of the input and with bounded memory.

        Args:
            items: SMILES, or objects that contain one, such as rows of a table; a generator is
                consumed lazily. The SMILES of several molecules of a row are one text; see
                :func:`gattn.apps.molecules.row_format.join_smiles`.
            smiles: function that returns the SMILES of an item; by default the items are SMILES.
            descriptors: function that returns the values of ``descriptors_columns_`` of an item,
                NaN for a missing value; required if the model was trained with such columns.
            neighbors: number of most similar molecules to find for each; see
                :meth:`MoleculePredictor.nearest`.

        Yields:
            Consecutive items, with the predictions for those whose SMILES are valid.

        Raises:
            ValueError: ``descriptors`` is missing, or the model reads no descriptor columns.
        """
        self.check_fitted()
        columns = self.descriptors_columns_
        if bool(columns) != (descriptors is not None):
            needed = f"the descriptor columns {', '.join(columns)}" if columns else "SMILES alone"
            passed = "no descriptors" if descriptors is None else "descriptors"
            raise ValueError(f"this model reads {needed}; got {passed}")
        predict = self.predictor_.predict
        if neighbors:
            predict = partial(predict, neighbors=neighbors)
        return make_pieces(
            predict, items, smiles=smiles, descriptors=descriptors,
            columns=len(columns), max_atoms=self.max_atoms, workers=self.workers,
            row_format=self.row_format,
        )  # fmt: skip

    def embeddings(
        self, items: Iterable[Item], *, smiles: Callable[[Item], str] | None = None
    ) -> Iterator[Piece[Item, Tensor]]:
        """Yield the embeddings [k, K d] of valid molecules, in chunks like :meth:`predictions`."""
        self.check_fitted()
        return make_pieces(
            self.predictor_.embed, items, smiles=smiles, max_atoms=self.max_atoms,
            workers=self.workers, row_format=self.row_format,
        )  # fmt: skip

    @property
    def embedding_size(self) -> int:
        """Number of features, K d, that :meth:`embed` returns for each molecule."""
        row_format = self.row_format
        inputs = featurise([row_format.example], row_format=row_format).inputs
        return self.predictor_.embed(inputs).shape[1]

    def place_of(self, target: str | None) -> int:
        """Return the index of a target, given its name. None stands for the only target."""
        names = self.targets_
        if target is None and len(names) == 1:
            return 0
        if target is None or target not in names:
            raise ValueError(f"target must be one of {', '.join(names)}; got {target}")
        return names.index(target)

    def scale_of(self, target: int) -> str:
        """Return the name of a target with its transform, such as ``log10(IC50)``.

        Explanations are on this scale.
        """
        name = str(self.targets_[target])
        if self.task != "regression":
            return name
        transform = self.predictor_.transform.names[target]
        return name if transform == "none" else f"{transform}({name})"

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Number of classes of each target if the task is multiclass; empty for other tasks."""
        return ()

    def probabilities(self, mean: Tensor) -> list[Tensor]:
        """Return a tensor of class probabilities [k, c] for each target; raise a TypeError for a
        regression.
        """
        raise TypeError(f"{type(self).__name__} predicts no classes for {len(mean)} molecules")

    def outputs_of(self, y: Tensor) -> Tensor:
        """Convert labels [k, t] to the form of the predictor's outputs.

        For the task multiclass, the result is the one-hot encoding of all targets, whose width is
        the sum of the numbers of classes. For other tasks, the labels do not change.
        """
        return one_hot(y, self.class_counts) if self.class_counts else y

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        self.targets_, self.single_target_ = list(card["targets"]), card["single_target"]
        self.seen_ = tensors["seen"]
        # Models of earlier versions of gattn have no descriptor columns.
        self.descriptors_columns_ = list(card.get("descriptors_columns", ()))


class RegressionModel(MoleculeModel):
    """Trained model of a :class:`gattn.apps.molecules.MoleculeRegressor`, which predicts numbers.

    Attributes:
        calibrator_: the calibration of the intervals.
    """

    task: ClassVar[Task] = "regression"
    calibrator_: IntervalCalibrator | QuantileIntervals
    _saved_as = "MoleculeRegressor"

    @property
    def quantile_levels(self) -> tuple[float, ...]:
        """Levels of the predicted quantiles, ascending; empty if the loss function is not
        quantile.
        """
        return self.predictor_.levels

    def intervals(self, predicted: Prediction, coverage: float) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper ends of the prediction intervals, [k, t] each.

        Args:
            predicted: a prediction of k molecules by :attr:`predictor_`.
            coverage: the requested probability, in (0, 1).
        """
        mean, std = predicted.mean, predicted.std
        if isinstance(self.calibrator_, IntervalCalibrator):
            return self.calibrator_.interval(mean, std, coverage=coverage)
        assert predicted.quantiles is not None
        return self.calibrator_.interval(mean, predicted.quantiles, std, coverage=coverage)

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        calibration = state["calibration"]
        if calibration.get("quantiles"):
            self.calibrator_ = QuantileIntervals.from_state(calibration)
        else:
            self.calibrator_ = restore_intervals(calibration)


class ClassificationModel(MoleculeModel):
    """Trained model of a :class:`gattn.apps.molecules.MoleculeClassifier`, which predicts classes.

    Attributes:
        classes_: the classes [c], or a list of them for each target.
        calibrator_: the calibration of the sets of classes.
    """

    classes_: Any
    calibrator_: LabelSetCalibrator
    _saved_as = "MoleculeClassifier"

    @property
    def task(self) -> Task:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The task: multiclass if a target has more than two classes, otherwise classification."""
        return "multiclass" if self.class_counts else "classification"

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

    def probabilities(self, mean: Tensor) -> list[Tensor]:
        """Return a tensor of class probabilities [k, c] for each target.

        Args:
            mean: [k, O], the mean of a prediction.
        """
        if self.class_counts:
            return list(split_classes(mean, self.class_counts))
        return [torch.stack([1 - each, each], 1) for each in mean.unbind(1)]

    def sets_of(self, mean: Tensor, coverage: float) -> Tensor:
        """Return a set of classes for each prediction that contains the true class with the given
        probability, and always the predicted class.

        Args:
            mean: [k, O], the mean of a prediction.
            coverage: probability that a set contains the true class.

        Returns:
            [k, t, c] bool for the largest number c of classes; False beyond the classes of a
            target.
        """
        chances, scores = self.probabilities(mean), self.calibrator_.scores
        sets = torch.zeros(len(mean), len(chances), max(map(len, scores)), dtype=torch.bool)
        for i, (chance, one) in enumerate(zip(chances, scores, strict=True)):
            calibrator = LabelSetCalibrator((one,))
            sets[:, i, : len(one)] = calibrator.sets(chance[:, None], coverage=coverage)[:, 0]
            readable = chance.isfinite().all(1).nonzero()[:, 0]
            sets[readable, i, chance[readable].argmax(1)] = True
        return sets

    def calibrate_sets(self, y: Tensor, mean: Tensor) -> LabelSetCalibrator:
        """Fit the conformal calibration of the class sets to labels y [k, t] and predicted class
        probabilities [k, O].
        """
        chances = self.probabilities(mean)
        each = [
            LabelSetCalibrator.fit(y[:, i, None], p[:, None].clamp(0, 1))
            for i, p in enumerate(chances)
        ]
        return LabelSetCalibrator(tuple(one.scores[0] for one in each))

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        classes = [np.array(kinds) for kinds in state["classes"]]
        self.classes_ = classes[0] if self.single_target_ else classes
        self.calibrator_ = LabelSetCalibrator.from_state(state["calibration"])
