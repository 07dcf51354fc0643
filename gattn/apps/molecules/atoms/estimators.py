"""Estimators that predict a number or a class for every atom or bond of molecules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.settings import SettingsError, settings_of
from gattn.apps.molecules.arrays import as_texts
from gattn.apps.molecules.atoms.entries import find_entries
from gattn.apps.molecules.atoms.labels import (
    AtomCells,
    Coding,
    coding_of,
    labels_of_graphs,
    read_cells,
    without_faults,
)
from gattn.apps.molecules.atoms.predictor import AtomPrediction, AtomPredictor
from gattn.apps.molecules.atoms.values import KINDS, LabelledAtoms, Targets, Values, padded
from gattn.apps.molecules.inputs import Piece
from gattn.apps.molecules.rows import bad_rows, warn_of
from gattn.apps.molecules.settings import MoleculeParameters, MoleculeSettings, Task
from gattn.apps.molecules.smiles_estimator import SmilesEstimator
from gattn.data import BadRow, MoleculeError
from gattn.data.molecules.arrays import MoleculeArrays

Self = TypeVar("Self", bound="AtomEstimator")
Item = TypeVar("Item")
Columns = Mapping[str, Sequence[Any]]
"""Type of the labels of each target, by name. A data frame has this interface, too."""


class AtomEstimator(SmilesEstimator):
    """Base class of the estimators for atoms and bonds."""

    predictor_: AtomPredictor
    targets_: Targets
    coding_: Coding
    _predictor_kind = AtomPredictor

    @property
    def task(self) -> Task:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The task: regression, classification for two classes, or multiclass."""
        return self.coding_.task

    @property
    def classes_by_target(self) -> tuple[tuple[float | str, ...], ...]:
        """The classes of each target; empty for a regression."""
        return self.coding_.classes

    def fit(
        self: Self,
        smiles: Any,
        atoms: Columns | None = None,
        bonds: Columns | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train the model on labels of the atoms and the bonds.

        Args:
            smiles: n SMILES.
            atoms: for each target of atoms the labels of n molecules: lists with a value for each
                atom that the SMILES writes, in its order; None, or None in a list, for missing
                labels. See :func:`gattn.apps.molecules.atoms.entries.find_entries` for hydrogens.
            bonds: the same for bonds, in RDKit's order: a list.
            folder: a folder for checkpoints, from which an interrupted fit continues.
            progress: show a progress bar with the time left.

        Returns:
            The fitted estimator.

        Raises:
            MoleculeError: SMILES or lists that cannot be read under ``on_error="raise"``.
            ValueError: a parameter is out of its range; the labels are too few or all equal.
        """
        cells = read_cells({"atom": atoms or {}, "bond": bonds or {}})
        labelled = self.read(as_texts(smiles, ordered=True), cells)
        return self.fit_labelled(
            *self._split(labelled), folder=None if folder is None else Path(folder),
            progress=progress,
        )  # fmt: skip

    def read(
        self,
        smiles: Sequence[str],
        cells: AtomCells,
        *,
        coding: Coding | None = None,
    ) -> LabelledAtoms:
        """Parse molecules with their labels, and store the targets and their classes.

        Args:
            smiles: n texts.
            cells: the cells of the labels.
            coding: task and classes of the labels; by default they are determined from the labels.

        Returns:
            The valid molecules that have a label.
        """
        settings_of(MoleculeParameters, self)  # raises an error for a parameter out of its range
        check_atom_settings(self.settings())
        if len(cells.problems) != len(smiles):
            raise ValueError(
                f"the labels must have {len(smiles)} rows, one for each molecule; got "
                f"{len(cells.problems)}"
            )
        self.targets_ = cells.targets
        self.coding_ = coding or coding_of(cells, self._task(cells))
        labelled = self.labelled(smiles, cells)
        self.bad_ = labelled.bad
        return labelled

    def labelled(self, smiles: Sequence[str], cells: AtomCells) -> LabelledAtoms:
        """Return the valid molecules that have a label; the labels are encoded as in training."""
        if self.coding_.task == "regression":
            cells = without_faults(cells)
        parsed = self.featurise(smiles)
        rows, inputs = parsed.row_index.tolist(), parsed.inputs
        y, problems = labels_of_graphs(
            cells, self.coding_, rows, [str(smiles[row]) for row in rows],
            inputs.molecules.arrays, add_h=self.add_h,
        )  # fmt: skip
        of_row = dict(zip(rows, problems))
        reasons = [
            error or cells.problems[row] or of_row[row] for row, error in enumerate(parsed.errors)
        ]
        bad = tuple(
            BadRow(row, str(smiles[row]), reason, in_labels=not error)
            for row, (reason, error) in enumerate(zip(reasons, parsed.errors))
            if reason
        )
        if bad and self.on_error == "raise":
            raise MoleculeError(bad, "the table")
        has_label = torch.zeros(len(rows), dtype=torch.bool)
        for kind in self.targets_.kinds:
            missing = y.rows[kind].isnan().all(1)
            has_label[y.owners(kind)[~missing]] = True
        usable = torch.tensor([not reasons[row] for row in rows], dtype=torch.bool)
        everything = LabelledAtoms(inputs, y, parsed.row_index, parsed.canonical, bad)
        return everything[(has_label & usable).nonzero().flatten()]

    def _task(self, cells: AtomCells) -> Task:
        """Return the task of labels that a program passed."""
        raise NotImplementedError

    def fit_labelled(
        self: Self, train: LabelledAtoms, val: LabelledAtoms, *, folder: Path | None = None,
        progress: bool = False,
    ) -> Self:  # fmt: skip
        """Train the model on a training part and a validation part; :meth:`read` returns such
        parts.
        """
        self._read_parts(train, val)
        self.predictor_ = AtomPredictor.fit(
            train, val, self.task, self.settings(), self.targets_,
            tuple(map(len, self.coding_.classes)), folder=folder, progress=progress,
            threads=settings_of(MoleculeParameters, self).threads,
        )  # fmt: skip
        return self

    def predictions(
        self, items: Iterable[Item], *, smiles: Callable[[Item], str] | None = None
    ) -> Iterator[Piece[Item, AtomPrediction]]:
        """Predict molecules in chunks, in the order of the input and with bounded memory."""
        self.check_fitted()
        return self._pieces(self.predictor_.predict, items, smiles=smiles)

    def columns_of(self, y: Values, mean: Values) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the name of each target, its labels [r], and its predictions [r, c]: numbers, the
        probability of the second class, or the probabilities of several classes.
        """
        counts = [len(kinds) for kinds in self.coding_.classes]
        for number, (kind, column, name) in enumerate(self.targets_):
            count = counts[number] if self.task == "multiclass" else 1
            yield name, y.rows[kind][:, column], mean.rows[kind][:, column, :count]

    @staticmethod
    def decide(probabilities: np.ndarray, kinds: Sequence[float | str]) -> list[float | str | None]:
        """Return the most probable class for each row of probabilities [a, c]; None for NaN."""
        return [None if np.isnan(row).any() else kinds[int(row.argmax())] for row in probabilities]

    def label_table(self, y: Values) -> Tensor:
        """Return the labels of all targets as adjacent columns, [r, t]; shorter ones end with
        NaN.
        """
        return padded(y.rows, self.targets_)

    def lists(
        self, values: Values, kind: str, column: int, smiles: Sequence[str], graphs: MoleculeArrays
    ) -> list[np.ndarray]:
        """Return the values of a target as an array for each molecule, in the order of its lists of
        labels. A value of a hydrogen that the SMILES writes and the graph does not have is NaN.

        Args:
            values: predictions of k molecules.
            kind: kind of the target.
            column: its column among the targets of this kind.
            smiles: the SMILES of the molecules.
            graphs: the graphs of the molecules.
        """
        arrays = []
        for i, (rows, text) in enumerate(zip(values.lists(kind, column), smiles)):
            entries = find_entries(text, graphs, i, add_h=self.add_h)
            places = entries.atoms if kind == "atom" else entries.bonds
            array = np.full((len(places), *rows.shape[1:]), np.nan)
            array[places >= 0] = rows.numpy()[places[places >= 0]]
            arrays.append(array)
        return arrays

    def _collect(self, smiles: Any, choose: Callable[[AtomPrediction], Values]) -> dict[str, Any]:
        """Return the values of each target for n SMILES as a list of arrays."""
        self.check_fitted()
        texts = as_texts(smiles, ordered=True)
        parsed = self.featurise(texts)
        warn_of(bad_rows(texts, parsed))
        predicted = self.predictor_.predict(parsed.inputs)
        rows, values = parsed.row_index.tolist(), choose(predicted)
        results: dict[str, Any] = {}
        for kind, column, name in self.targets_:
            results[name] = [np.zeros(0)] * len(texts)
            some = [texts[row] for row in rows]
            arrays = self.lists(values, kind, column, some, predicted.graphs)
            for row, array in zip(rows, arrays):
                results[name][row] = array
        return results

    def _extra_state(self) -> dict[str, Any]:
        return {"targets": {kind: list(self.targets_.of(kind)) for kind in KINDS}}

    def _load_state(self, tensors: dict[str, Tensor], card: Mapping[str, Any]) -> None:
        super()._load_state(tensors, card)
        self.targets_ = Targets(**{kind: tuple(card["targets"][kind]) for kind in KINDS})

    def _labels_state(self) -> dict[str, Any]:
        coding = self.coding_
        classes = [list(kinds) for kinds in coding.classes]
        return {"task": coding.task, "classes": classes}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        classes = tuple(map(tuple, state["classes"]))
        self.coding_ = Coding(state["task"], classes)


class AtomRegressor(AtomEstimator):
    """Regressor that predicts a number for every atom or bond.

    The prediction is a weighted mean of an attention network, which has a head for each kind of
    target, and of the mean label of atoms with the same environment.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets of atoms and bonds.
        bad_: the rows that ``fit`` did not use.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> charges = [[0.1] * n + [-0.4] for n in range(1, 25)]
        >>> model = AtomRegressor(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, atoms={"charge": charges}).predict(["CCO"])["charge"][0].shape
        (3,)
    """

    def _task(self, cells: AtomCells) -> Task:
        return "regression"

    def predict(self, smiles: Any) -> dict[str, Any]:
        """Predict molecules.

        Args:
            smiles: n SMILES.

        Returns:
            For each target n arrays, in the order of the lists of ``fit``. An empty array for a
            SMILES that cannot be parsed, with one warning; NaN for a hydrogen that is not an atom
            of the graph.
        """
        return self._collect(smiles, lambda predicted: predicted.numbers)

    def predict_interval(self, smiles: Any, *, coverage: float = 0.9) -> dict[str, tuple[Any, Any]]:
        """Return the lower and the upper ends of the prediction intervals of each target.

        The coverage holds for a random atom of a new molecule; see
        :class:`gattn.apps.molecules.atoms.environments.GroupedScores`.

        Args:
            smiles: n SMILES.
            coverage: the requested probability, in (0, 1).

        Returns:
            Pairs in the form of :meth:`predict`.
        """
        lower, upper = (
            self._collect(smiles, lambda p, i=i: self.predictor_.interval(p, coverage)[i])
            for i in (0, 1)
        )
        return {name: (lower[name], upper[name]) for name in lower}


class AtomClassifier(AtomEstimator):
    """Classifier that predicts a class for every atom or bond.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets of atoms and bonds.
        bad_: the rows that ``fit`` did not use.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> polar = [["no"] * n + ["yes"] for n in range(1, 25)]
        >>> model = AtomClassifier(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, atoms={"polar": polar}).predict(["CCO"])["polar"][0].shape
        (3,)
    """

    def _task(self, cells: AtomCells) -> Task:
        kinds = [len(set(cells.items(name))) for name in cells.targets.names]
        return "multiclass" if max(kinds) > 2 else "classification"

    def predict(self, smiles: Any) -> dict[str, Any]:
        """Predict the most probable classes. The result has the form of
        :meth:`AtomRegressor.predict`.

        The class of a hydrogen that is not an atom of the graph is None.
        """
        results = self.predict_proba(smiles)
        for name, kinds in zip(self.targets_.names, self.coding_.classes):
            results[name] = [
                np.array(self.decide(probabilities, kinds), dtype=object)
                for probabilities in results[name]
            ]
        return results

    def predict_proba(self, smiles: Any) -> dict[str, Any]:
        """Return the probabilities of the classes ``coding_.classes`` for each target, [a, c]."""
        results = self._collect(smiles, lambda predicted: predicted.mean)
        for name, kinds in zip(self.targets_.names, self.coding_.classes):
            results[name] = [class_probabilities(p, len(kinds)) for p in results[name]]
        return results


def class_probabilities(values: np.ndarray, count: int) -> np.ndarray:
    """Return the probabilities of all classes, [a, c]. A single column is the probability of
    class 1.
    """
    if not len(values):  # A molecule has no values if it has no bonds or cannot be read.
        return np.zeros((0, count))
    values = values.reshape(len(values), -1)
    return np.hstack([1 - values, values]) if values.shape[1] == 1 else values[:, :count]


UNSUPPORTED = (
    "reaction",
    "standardize",
    "target_transform",
    "from_foundation",
)
"""Settings of molecule models that models of atoms and bonds do not support."""
MODELS = ("stacked", "attention")


def check_atom_settings(settings: MoleculeSettings) -> None:
    """Raise an error for settings that models of atoms and bonds do not support.

    Raises:
        SettingsError: such a setting was changed.
    """
    defaults = {field.name: field.default for field in fields(MoleculeSettings)}
    for name in UNSUPPORTED:
        if getattr(settings, name) != defaults[name]:
            raise SettingsError(f"{name} is not available for targets of atoms and bonds")
    if settings.bounded:
        raise SettingsError(
            f"loss_function {settings.loss_function} is not available for targets of atoms and "
            "bonds"
        )
    if settings.model not in MODELS:
        raise SettingsError(
            f"targets of atoms and bonds need the model {' or '.join(MODELS)}; got {settings.model}"
        )
