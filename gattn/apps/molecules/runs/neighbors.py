"""Measured molecules nearest to a predicted molecule, and the applicability domain of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.pretrained import is_distributed, resolve
from gattn.apps.molecules.runs.training_set import (
    Applicability,
    TrainingSet,
    read_applicability,
    read_training_set,
)
from gattn.apps.run.run_folder import training_folder

__all__ = ["MeasuredMolecules", "read_measured"]


@dataclass(frozen=True, eq=False)
class MeasuredMolecules:
    """Measured molecules of a run, and the applicability domain of the run's model.

    A prediction is inside the domain if the molecule is at least as similar to a measured molecule
    as 95 % of the molecules of the test part are. The errors of the model were measured on such
    molecules. Outside the domain, errors may be larger than the prediction intervals indicate.

    Attributes:
        model: the model of the run.
        training: the molecules of the training and validation parts.
        applicability: the domain.
        count: number of neighbours of each prediction.
    """

    model: MoleculeEstimator
    training: TrainingSet
    applicability: Applicability
    count: int

    @property
    def columns(self) -> list[str]:
        """Names of the output columns: the SMILES, similarity and values of each neighbour, then
        ``in_domain``.
        """
        targets = list(map(str, self.model.targets_))
        values = ["measured"] if len(targets) == 1 else [f"{target}_measured" for target in targets]
        names = ["smiles", "similarity", *values]
        numbered = [f"neighbor{i}_{name}" for i in range(1, self.count + 1) for name in names]
        return [*numbered, "in_domain"]

    def cells(self, predicted: Prediction) -> list[list[str]]:
        """Return the output cells of k predictions with neighbours, in the order of
        :attr:`columns`.
        """
        index, similarity = predicted.nearest_index, predicted.nearest_similarity
        assert index is not None
        assert similarity is not None
        width, rows = 2 + len(self.model.targets_), []
        nearest = predicted.max_train_similarity.tolist()
        for columns, values, best in zip(index.tolist(), similarity.tolist(), nearest):
            cells: list[str] = []
            for column, value in zip(columns, values):
                # A molecule without a common bit is no neighbour.
                cells += self._neighbor(column, value) if value > 0 else [""] * width
            cells += [""] * (width * self.count - len(cells))
            is_inside = self.applicability.is_inside(best)
            rows.append([*cells, str(is_inside).lower()])
        return rows

    def _neighbor(self, column: int, similarity: float) -> list[str]:
        """Return the cells of the measured molecule in a column of the fingerprints."""
        molecule = int(self.training.index[column])
        values = (self.training.value(molecule, i) for i in range(len(self.model.targets_)))
        texts = ("" if value is None else _text(value) for value in values)
        return [self.training.smiles[molecule], f"{similarity:.6g}", *texts]


def read_measured(folder: str | Path, model: MoleculeEstimator, count: int) -> MeasuredMolecules:
    """Read the measured molecules of a run from its table.

    Args:
        folder: the folder of the run.
        model: its model.
        count: number of neighbours of each prediction, at least 1.

    Raises:
        ValueError: ``count`` is below 1, the model does not read single molecules, the folder is
            not a run, or its table is missing or has changed since the training.
    """
    if count < 1:
        raise ValueError(f"neighbors must be at least 1; got {count}")
    if model.row_format.joined:
        raise ValueError(
            "neighbors needs a model of single molecules; this model reads "
            f"{model.row_format.rows_noun}"
        )
    folder = resolve(Path(folder)).absolute()
    if is_distributed(folder):
        raise ValueError(f"{folder.name} is distributed without its training molecules")
    try:
        with training_folder(folder):
            training = read_training_set(folder, model)
        applicability = read_applicability(folder)
    except ValueError as error:
        raise ValueError(f"the measured molecules of {folder} cannot be read: {error}") from error
    return MeasuredMolecules(model, training, applicability, count)


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
