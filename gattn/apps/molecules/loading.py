"""Loading of a trained model from a folder, and opening of a table of molecules to predict."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from gattn.apps.fitting.tasks import REGRESSION, TASKS, Task
from gattn.apps.molecules.descriptor_columns import DescriptorColumns
from gattn.apps.molecules.estimators import ESTIMATORS
from gattn.apps.molecules.pretrained import resolve
from gattn.apps.molecules.settings import TableReading
from gattn.apps.molecules.smiles_estimator import SmilesEstimator
from gattn.apps.run.model_io import Json, RunError, coverage_of, read_model
from gattn.apps.tables.csv_table import OnBadBytes, Table
from gattn.apps.tables.formats import open_molecules
from gattn.apps.tables.numbers import NumberFormat


class OpenedModel(NamedTuple):
    """Trained model that is ready to read a table.

    Attributes:
        model: the model.
        card: the model card.
        smiles: the names of the columns of SMILES, one for each molecule of a row.
        coverage: coverage of the intervals.
        style: format of the numbers in the columns of descriptors and labels.
    """

    model: Any
    card: dict[str, Json]
    smiles: tuple[str, ...]
    coverage: float
    style: NumberFormat

    def open(
        self, path: str | Path, encoding: str | None, on_bad_bytes: OnBadBytes = "strict"
    ) -> tuple[Table, DescriptorColumns]:
        """Open a file of molecules, and return it before its first row with its descriptor columns,
        which are none if the model has none.

        Args:
            path: the file.
            encoding: text encoding; None for that of the byte order mark, or UTF-8.
            on_bad_bytes: see :class:`gattn.apps.tables.csv_table.Table`.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: the file cannot be read, or the column of SMILES or of a descriptor is
                missing or appears twice.
        """
        names = self.model.descriptors_columns_
        table = open_molecules(
            path, self.smiles, names, encoding=encoding, on_bad_bytes=on_bad_bytes
        )
        return table, DescriptorColumns.of(table, names, self.style)


def smiles_columns(
    card: Mapping[str, Json], names: str | Sequence[str] | None, molecules: int
) -> tuple[str, ...]:
    """Return the names of the columns of SMILES of a table.

    Args:
        card: the model card.
        names: the names that the user passed; None for those of the training. A model that was not
            trained on a table has the column ``smiles``, or ``smiles_1``, ``smiles_2`` and so on.
        molecules: number of molecules in a row of the model.

    Raises:
        ValueError: the number of columns is not the number of molecules.
    """
    default = "smiles" if molecules == 1 else [f"smiles_{i + 1}" for i in range(molecules)]
    columns = names or cast("str | list[str]", card.get("smiles", default))
    columns = (columns,) if isinstance(columns, str) else tuple(columns)
    if len(columns) != molecules:
        raise ValueError(
            f"this model reads {molecules} columns of SMILES; got {len(columns)}: "
            f"{', '.join(columns)}"
        )
    return columns


def load_model(
    folder: str | os.PathLike[str], *, lists: bool = False
) -> tuple[Any, dict[str, Json]]:
    """Load the model and the model card that are stored in a folder.

    Args:
        folder: folder of the model, or the name of a model that is distributed with gattn.
        lists: whether the caller can use a model of atoms or bonds.

    Returns:
        The fitted estimator, and the card.

    Raises:
        RunError: the folder does not contain a readable model that the caller can use.
    """
    tensors, card = read_model(resolve(Path(folder)))
    level = str(card.get("level", ""))
    if level and not lists:
        raise RunError(
            f"{folder} contains a model of atoms or bonds, which only gattn molecules predict, "
            "from one CSV file to another, and evaluate read"
        )
    kind = estimator_kind(TASKS.get(str(card.get("task")), REGRESSION), level)
    return kind.from_state(folder, tensors, card), card


def estimator_kind(task: Task, level: str) -> type[SmilesEstimator]:
    """Return the class of the estimators for labels of molecules, or of atoms or bonds if ``level``
    is not empty.
    """
    if not level:
        return ESTIMATORS[str(task)]
    from gattn.apps.molecules.atoms.estimators import AtomClassifier, AtomRegressor

    return AtomClassifier if task.is_class else AtomRegressor


def open_model(
    folder: str | os.PathLike[str], reading: TableReading, *, lists: bool = False
) -> OpenedModel:
    """Load the model in a folder, and prepare it for a table.

    Args:
        folder: folder of the trained model.
        reading: rules for reading the table.
        lists: whether the model may be one of atoms or bonds.

    Raises:
        RunError: the folder does not contain a readable model.
        ValueError: the number of columns of SMILES is not that of the model, or the coverage is not
            above 0 and below 1.
    """
    model, card = load_model(folder, lists=lists)
    model.set_params(workers=reading.workers, threads=reading.threads)
    columns = smiles_columns(card, reading.smiles, model.molecules_per_row)
    style = NumberFormat(**cast("dict[str, Any]", card.get("numbers", {})))
    return OpenedModel(model, card, columns, coverage_of(card, reading.coverage), style)
