"""Estimators that predict a number or a class for every atom or bond of molecules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.settings import SettingsError, settings_of
from gattn.apps.molecules.arrays import as_table, as_texts
from gattn.apps.molecules.atoms.labels import (
    Places,
    first_rows,
    labels_of_graphs,
    list_rows,
    read_lists,
)
from gattn.apps.molecules.atoms.predictor import AtomPrediction, AtomPredictor
from gattn.apps.molecules.rows import LabelledMolecules, bad_rows, warn_of
from gattn.apps.molecules.settings import MoleculeParameters, MoleculeSettings
from gattn.apps.molecules.smiles_estimator import ClassLabels, NumberLabels, SmilesEstimator
from gattn.data import BadRow, MoleculeError
from gattn.data.molecules.arrays import MoleculeArrays

Self = TypeVar("Self", bound="AtomEstimator")
Item = TypeVar("Item")

Columns = Mapping[str, Sequence[Any]]
"""Type of the labels of each target, by name. A data frame has this interface, too."""


class AtomEstimator(SmilesEstimator):
    """Base class of the estimators for atoms and bonds."""

    predictor_: AtomPredictor
    single_target_ = False
    _predictor_kind = AtomPredictor

    def fit(
        self: Self,
        smiles: Any,
        atoms: Columns | None = None,
        bonds: Columns | None = None,
        *,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train the model on labels of the atoms, or of the bonds.

        Args:
            smiles: n SMILES.
            atoms: a dictionary or a data frame with n lists for each target: a label for each atom
                in the order of the SMILES, None or NaN for a missing label, and None for a missing
                list.
            bonds: the same for bonds, in RDKit's order.
            folder: folder for checkpoints, from which an interrupted training continues.
            progress: whether to show the progress.

        Returns:
            The estimator itself.

        Raises:
            ValueError: the labels cannot be learned.
            MoleculeError: a SMILES or a list cannot be used, and ``on_error`` is ``"raise"``.
            SettingsError: a parameter has an invalid value.
            TrainingError: a checkpoint is damaged or belongs to another training, or the loss is
                not finite.
            RuntimeError: a process that parses SMILES or trains networks was killed.
        """
        if (atoms is None) == (bonds is None):
            raise ValueError(
                "fit needs labels of atoms or of bonds: train one model for the atoms, and another "
                "one for the bonds"
            )
        texts = as_texts(smiles, ordered=True)
        table: Any = bonds if atoms is None else atoms
        columns = {str(name): list(cells) for name, cells in dict(table).items()}
        for name, cells in columns.items():
            if len(cells) != len(texts):
                raise ValueError(
                    f"{name} must have {len(texts)} rows, one for each molecule; got {len(cells)}"
                )
        lists = read_lists(list(zip(*columns.values())), list(columns))
        places = Places("atom" if bonds is None else "bond", lists.owners)
        y = np.array(lists.values, object).reshape(-1, len(columns))
        labelled = self.read(texts, y, targets=[*columns], places=places, problems=lists.problems)
        return self.fit_labelled(*self._split(labelled), folder=folder, progress=progress)

    def read(
        self, smiles: Sequence[str], y: Any, *, targets: Sequence[str], places: Places,
        problems: Sequence[str] = (),
    ) -> LabelledMolecules:  # fmt: skip
        """Parse molecules with their labels, and store the targets and their classes.

        Args:
            smiles: n SMILES.
            y: [r, t] labels of all atoms or bonds, in the order of the lists.
            targets: names of the targets.
            places: what the labels belong to.
            problems: for each row the reason why its labels cannot be used, or "".

        Returns:
            The molecules that have a label.

        Raises:
            ValueError: the labels cannot be learned.
            MoleculeError: a row cannot be used, and ``on_error`` is ``"raise"``.
            SettingsError: a parameter has an invalid value.
        """
        settings_of(MoleculeParameters, self)  # raises an error for a parameter out of its range
        check_atom_settings(self.settings())
        self.targets_, self.level_ = list(targets), places.level
        self._fit_labels(as_table(y, len(places.owners)))
        labelled = self.labelled(smiles, y, places, problems)
        self.bad_ = labelled.bad
        return labelled

    def labelled(
        self, smiles: Sequence[str], y: Any, places: Places, problems: Sequence[str] = ()
    ) -> LabelledMolecules:
        """Return the valid molecules that have a label; see :meth:`read`.

        Raises:
            MoleculeError: if a row cannot be used and ``on_error`` is "raise".
            ValueError: the number of labels is not that of the places, or a label is no number or
                not one of the classes.
        """
        y = torch.from_numpy(self._encode(as_table(y, len(places.owners))))
        parsed = self.featurise(smiles)
        rows, graphs = parsed.row_index.tolist(), parsed.inputs.molecules.arrays
        labels, faults = labels_of_graphs(
            y, places, rows, [str(smiles[row]) for row in rows], graphs, add_h=self.add_h
        )
        of_row = dict(zip(rows, faults))
        reasons = [
            error or (problems[row] if problems else "") or of_row[row]
            for row, error in enumerate(parsed.errors)
        ]
        bad = tuple(
            BadRow(row, str(smiles[row]), reason, in_labels=not error)
            for row, (reason, error) in enumerate(zip(reasons, parsed.errors))
            if reason
        )
        if bad and self.on_error == "raise":
            raise MoleculeError(bad, "the table")
        everything = LabelledMolecules(
            parsed.inputs, labels, torch.ones(len(rows)), rows=parsed.row_index,
            canonical=parsed.canonical, bad=bad, level=places.level,
            ptr=first_rows(graphs, places.level),
        )  # fmt: skip
        usable = torch.tensor([not reasons[row] for row in rows], dtype=torch.bool)
        has_label = torch.zeros(len(rows), dtype=torch.bool)
        has_label[everything.owners[labels.isfinite().any(1)]] = True
        return everything[(has_label & usable).nonzero().flatten()]

    def list_rows(self, smiles: Sequence[str], graphs: MoleculeArrays) -> Iterator[np.ndarray]:
        """Yield for each molecule the rows of the predictions in the order of its lists; see
        :func:`gattn.apps.molecules.atoms.labels.list_rows`.
        """
        return list_rows(self.level_, smiles, graphs, add_h=self.add_h)

    def _collect(
        self, smiles: Any, choose: Callable[[AtomPrediction], Sequence[np.ndarray]]
    ) -> dict[str, Any]:
        """Return the values of each target for n SMILES as a list of arrays.

        Args:
            smiles: n SMILES.
            choose: function that returns the values [n, ...] of each target.

        Raises:
            NotFittedError: if the estimator is not fitted.

        Warns:
            UnreadableMolecules: for rows that cannot be read; their arrays are empty.
        """
        self.check_fitted()
        texts = as_texts(smiles, ordered=True)
        parsed = self.featurise(texts)
        warn_of(bad_rows(texts, parsed))
        predicted = self.predictor_.predict(parsed.inputs)
        rows = parsed.row_index.tolist()
        some = list(self.list_rows([texts[row] for row in rows], predicted.graphs))
        results: dict[str, Any] = {}
        for name, values in zip(self.targets_, choose(predicted)):
            missing = None if values.dtype == object else np.nan
            padded = np.concatenate([values, np.full((1, *values.shape[1:]), missing)])
            results[name] = [values[:0]] * len(texts)
            for row, places in zip(rows, some):
                results[name][row] = padded[places]
        return results


class AtomRegressor(NumberLabels, AtomEstimator):
    """Regressor that predicts a number for every atom or bond.

    The prediction is a weighted mean of an attention network, and of the mean label of atoms with
    the same environment.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets.
        bad_: the rows that ``fit`` did not use.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> charges = [[0.1] * n + [-0.4] for n in range(1, 25)]
        >>> model = AtomRegressor(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, atoms={"charge": charges}).predict(["CCO"])["charge"][0].shape
        (3,)
    """

    def predict(self, smiles: Any) -> dict[str, Any]:
        """Predict molecules.

        Args:
            smiles: n SMILES.

        Returns:
            For each target n arrays, in the order of the lists of ``fit``. An empty array for a
            SMILES that cannot be parsed, with one warning; NaN for a hydrogen that is not an atom
            of the graph.

        Raises:
            NotFittedError: the estimator was not fitted.
        """
        return self._collect(smiles, lambda predicted: list(predicted.mean.numpy().T))

    def predict_interval(self, smiles: Any, *, coverage: float = 0.9) -> dict[str, tuple[Any, Any]]:
        """Return the lower and the upper ends of the prediction intervals of each target.

        The coverage holds for a random atom of a new molecule; see
        :class:`gattn.apps.molecules.atoms.predictor.GroupedScores`.

        Args:
            smiles: n SMILES.
            coverage: the requested probability, in (0, 1).

        Returns:
            For each target the lower and the upper ends, each in the form of :meth:`predict`, which
            has the same warning; infinite if the validation part has too few molecules for the
            coverage.

        Raises:
            NotFittedError: the estimator was not fitted.
            ValueError: the coverage is not above 0 and below 1.
        """
        ends = self._collect(
            smiles, lambda p: list(np.stack(self.intervals(p, coverage), 2).swapaxes(0, 1))
        )
        return {name: ([e[:, 0] for e in at], [e[:, 1] for e in at]) for name, at in ends.items()}

    def intervals(self, predicted: AtomPrediction, coverage: float) -> tuple[Tensor, Tensor]:
        """Return the lower and the upper ends of the intervals of n atoms or bonds, [n, t] each.
        Raises ValueError unless the coverage is in (0, 1).
        """
        scores = self.predictor_.scores
        half = torch.tensor([each.quantile(coverage) for each in scores]).double() * predicted.std
        return predicted.mean - half, predicted.mean + half

    @property
    def calibration_rows(self) -> list[int]:
        """Number of validation molecules with a label of each target."""
        return [scores.molecules for scores in self.predictor_.scores]


class AtomClassifier(ClassLabels, AtomEstimator):
    """Classifier that predicts a class for every atom or bond.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets.
        bad_: the rows that ``fit`` did not use.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> polar = [["no"] * n + ["yes"] for n in range(1, 25)]
        >>> model = AtomClassifier(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, atoms={"polar": polar}).predict(["CCO"])["polar"][0].shape
        (3,)
    """

    def predict(self, smiles: Any) -> dict[str, Any]:
        """Predict the most probable classes. The argument, the form of the result, the errors and
        the warning are those of :meth:`AtomRegressor.predict`.

        The class of a hydrogen that is not an atom of the graph is None.
        """
        return self._collect(
            smiles, lambda p: [each.astype(object) for each in self.labels_of(p.mean)]
        )

    def predict_proba(self, smiles: Any) -> dict[str, Any]:
        """Return the probabilities of the classes ``classes_`` for each target: for each molecule
        an array [a, c] of its a atoms or bonds; see :meth:`predict`.
        """
        return self._collect(smiles, lambda p: [c.numpy() for c in self.probabilities(p.mean)])


UNSUPPORTED = ("reaction", "standardize", "target_transform", "from_foundation")
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
