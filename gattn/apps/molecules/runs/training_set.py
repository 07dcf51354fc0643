"""The molecules on which a model was trained, with their measured values."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gattn.apps.fitting.settings import SettingsError, read_toml
from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.pretrained import is_distributed
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.stages import read_run_source
from gattn.apps.run.model_io import RunError, check_files, read_json
from gattn.files import reason

__all__ = ["Applicability", "TrainingSet", "read_applicability", "read_training_set"]

INSIDE = 0.95
"""Fraction of the test molecules that are inside the applicability domain, by definition of the
domain.
"""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Molecules of the training and validation parts, in the order of the model's fingerprints.

    Attributes:
        smiles: n SMILES.
        values: [n, t] measured labels as the table has them; missing labels are NaN or None.
        index: [m] int64, the molecule of each column of the fingerprints; -1 for padding.
        numbers: for each target its measured numbers in ascending order; empty for classes.
    """

    smiles: list[str]
    values: np.ndarray
    index: np.ndarray
    numbers: list[np.ndarray]

    def percentile(self, target: int, value: float) -> float | None:
        """Return the percentage of the measured numbers that are at most ``value``.

        The result is None if there are no numbers, for example if the labels are classes.
        """
        numbers = self.numbers[target] if self.numbers else np.zeros(0)
        if not len(numbers):
            return None
        return 100 * float(np.searchsorted(numbers, value, side="right")) / len(numbers)

    def value(self, molecule: int, target: int) -> float | str | None:
        """Return the measured label of a molecule; None if it was not measured."""
        label: Any = self.values[molecule, target]
        if label is None or label != label:
            return None
        # Labels are stored as float32, in which six digits are exact. The other digits differ from
        # the table.
        return float(f"{label:.6g}") if self.numbers else str(label)


def read_training_set(folder: Path, model: MoleculeEstimator) -> TrainingSet:
    """Read the training molecules of a run from its table, which must not have changed.

    Args:
        folder: the folder of the run.
        model: its model.

    Raises:
        ValueError: the folder holds no settings or parts of a run, the table is missing, has
            changed or cannot be read, or the model was trained on other molecules.
    """
    try:
        check_files(folder, "config.toml", "splits.json")
        settings = read_toml(RunSettings, folder / "config.toml")
        splits = read_json(folder / "splits.json", "train", "val", "sha256", remedy="train again")
        source = read_run_source(settings)
    except OSError as error:
        raise ValueError(reason(error)) from error
    except (RunError, SettingsError) as error:
        raise ValueError(str(error)) from error
    if source.sha256 != splits["sha256"]:
        raise ValueError(f"{source.name} has changed since the model was trained")
    parts: list[list[int]] = [splits["train"], splits["val"]]  # pyright: ignore[reportAssignmentType]
    rows = [row for part in parts for row in part]
    index: list[int] = []
    for part in parts:
        begin = len([i for i in index if i >= 0])
        index += [*range(begin, begin + len(part)), *[-1] * (-len(part) % 8)]
    if len(index) != 8 * model.predictor_.fingerprint_bytes:
        raise ValueError(f"the model was trained on other molecules than those of {source.name}")
    values = np.asarray(source.labels.y)[rows]
    numbers = []
    if source.labels.task == "regression":
        numbers = [np.sort(column[np.isfinite(column)]) for column in values.astype(float).T]
    smiles = [source.smiles[row].strip() for row in rows]
    return TrainingSet(smiles, values, np.array(index, np.int64), numbers)


@dataclass(frozen=True)
class Applicability:
    """Applicability domain of a model, defined by the lowest similarity to training molecules for
    which errors were measured.

    Attributes:
        threshold: Tanimoto similarity that 95 % of the test molecules reach.
    """

    threshold: float

    def is_inside(self, similarity: float) -> bool:
        """Return True if a molecule is as similar to the training molecules as the test
        molecules are.
        """
        return similarity >= self.threshold


def read_applicability(folder: Path) -> Applicability:
    """Compute the applicability domain of a model from the predictions for its test part. The
    threshold of a model that is distributed with gattn is read from its figures.

    Args:
        folder: the folder of the run.

    Raises:
        ValueError: the folder has no predictions of a test part.
    """
    if is_distributed(folder):
        figures = read_json(folder / "figures.json", "test", remedy="install gattn again")
        return Applicability(float(figures["test"]["domain"]))
    path = folder / "predictions.csv"
    try:
        check_files(folder, path.name)
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            similarities = [float(row["similarity"]) for row in rows if row["part"] == "test"]
    except OSError as error:
        raise ValueError(reason(error)) from error
    except KeyError as error:
        raise ValueError(f"{path} has no column {error}") from error
    if not similarities:
        raise ValueError(f"{path} has no molecule of the test part")
    return Applicability(float(np.quantile(similarities, 1 - INSIDE, method="lower")))
