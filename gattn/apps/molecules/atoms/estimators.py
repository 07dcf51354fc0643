"""Estimators that predict a number or a class for every atom or bond of molecules."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import torch

from gattn.apps.fitting.settings import settings_of
from gattn.apps.molecules.arrays import as_texts
from gattn.apps.molecules.atoms.entries import find_entries, order_problem
from gattn.apps.molecules.atoms.faults import without_faults
from gattn.apps.molecules.atoms.labels import (
    AtomCells,
    Coding,
    coding_of,
    labels_of_graphs,
    read_cells,
)
from gattn.apps.molecules.atoms.predictor import AtomPrediction, AtomPredictor
from gattn.apps.molecules.atoms.settings import AtomParameters, check_atom_settings
from gattn.apps.molecules.atoms.values import KINDS, LabelledAtoms, Targets
from gattn.apps.molecules.feature_version import check_predictor_features
from gattn.apps.molecules.inputs import (
    FeaturizedSmiles,
    Piece,
    check_is_list,
    featurise,
    make_pieces,
)
from gattn.apps.molecules.row_format import RowFormat
from gattn.apps.molecules.rows import bad_rows, smiles_hashes, warn_of
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.run.fitted import FittedModel
from gattn.data import BadRow, MoleculeError, random_split

__all__ = ["AtomClassifier", "AtomEstimator", "AtomRegressor"]

Self = TypeVar("Self", bound="AtomEstimator")
Item = TypeVar("Item")
Columns = Mapping[str, Sequence[Any]]
"""Type of the labels of each target, by name. A data frame has this interface, too."""


if TYPE_CHECKING:  # type checkers derive the constructor's signature from the settings
    Parameters = AtomParameters
else:
    Parameters = object


class AtomEstimator(FittedModel, Parameters):
    """Base class of the estimators for atoms and bonds."""

    item: ClassVar[str] = "molecules"
    predictor_: AtomPredictor
    targets_: Targets
    coding_: Coding
    bad_: tuple[BadRow, ...]
    seen_: torch.Tensor
    _parameters = AtomParameters
    _predictor_kind = AtomPredictor
    _task: ClassVar[Literal["auto"] | Task] = "auto"

    @property
    def task(self) -> Task:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The task: regression, classification for two classes, or multiclass."""
        return self.coding_.task

    @property
    def row_format(self) -> RowFormat:
        """Changes that are made to the molecules before the model reads them."""
        return RowFormat(ignore_stereo=self.ignore_stereo, add_h=self.add_h)

    def fit(
        self: Self,
        smiles: Any,
        atoms: Columns | None = None,
        bonds: Columns | None = None,
        molecules: Columns | None = None,
        *,
        sample_weight: Any = None,
        folder: str | os.PathLike[str] | None = None,
        progress: bool = False,
    ) -> Self:
        """Train the model on labels of the atoms, the bonds and the molecules.

        Args:
            smiles: n SMILES.
            atoms: for each target of atoms the labels of n molecules: lists with a value for each
                atom that the SMILES writes, in its order; None, or None in a list, for missing
                labels. See :func:`gattn.apps.molecules.atoms.entries.find_entries` for hydrogens.
            bonds: the same for bonds, in RDKit's order: a list, or a square matrix of all atoms.
            molecules: for each target of molecules n values.
            sample_weight: [n] weights of the rows, above 0; equal by default.
            folder: a folder for checkpoints, from which an interrupted fit continues.
            progress: show a progress bar with the time left.

        Returns:
            The fitted estimator.

        Raises:
            MoleculeError: SMILES or lists that cannot be read under ``on_error="raise"``.
            ValueError: a parameter is out of its range; the labels are too few or all equal.
        """
        cells = read_cells({"molecule": molecules or {}, "atom": atoms or {}, "bond": bonds or {}})
        weights = None if sample_weight is None else torch.tensor(np.asarray(sample_weight, float))
        labelled = self.read(as_texts(smiles, ordered=True), cells, weights=weights)
        fraction = float(self.validation_fraction)
        split = random_split(
            len(labelled), seed=self.seed, fractions=(1 - fraction, fraction, 0.0),
            groups=labelled.canonical,
        )  # fmt: skip
        train, val = labelled[split.train], labelled[torch.cat([split.val, split.test])]
        return self.fit_labelled(
            train, val, folder=None if folder is None else Path(folder), progress=progress
        )

    def read(
        self,
        smiles: Sequence[str],
        cells: AtomCells,
        *,
        coding: Coding | None = None,
        weights: torch.Tensor | None = None,
    ) -> LabelledAtoms:
        """Parse molecules with their labels, and store the targets and their classes.

        Args:
            smiles: n texts.
            cells: the cells of the labels.
            coding: task and classes of the labels; by default they are determined from the labels.
            weights: [n] weights of the rows.

        Returns:
            The valid molecules that have a label.
        """
        settings_of(AtomParameters, self)
        settings = self.settings()
        check_atom_settings(settings, len(cells.targets))
        if len(cells.problems) != len(smiles):
            raise ValueError(
                f"the labels must have {len(smiles)} rows, one for each molecule; got "
                f"{len(cells.problems)}"
            )
        self.targets_ = cells.targets
        self.coding_ = coding or coding_of(
            cells, self._task, bounded=settings.bounded
        )  # fmt: skip
        labelled = self.labelled(smiles, cells, weights=weights)
        self.bad_ = labelled.bad
        return labelled

    def labelled(
        self,
        smiles: Sequence[str],
        cells: AtomCells,
        *,
        weights: torch.Tensor | None = None,
    ) -> LabelledAtoms:
        """Return the valid molecules that have a label; the labels are encoded as in training."""
        if self.coding_.task == "regression":
            cells = without_faults(cells, bounded=self.coding_.bounded)
        problems = self._order_problems(smiles)
        parsed = self._featurise(smiles, problems)
        # With reorder_atoms, atom map numbers that cannot be used are a problem of the labels,
        # because the order of the lists is not known.
        bad = [replace(row, in_labels=bool(problems[row.row])) for row in bad_rows(smiles, parsed)]
        unread = {row.row for row in bad}
        bad += [
            BadRow(row, str(smiles[row]), problem, in_labels=True)
            for row, problem in enumerate(cells.problems)
            if problem and row not in unread
        ]
        rows = parsed.row_index.tolist()
        inputs = parsed.inputs
        y, bounds, problems = labels_of_graphs(
            cells, self.coding_, rows, [str(smiles[row]) for row in rows],
            inputs.molecules.arrays, add_h=self.add_h, reorder=self.reorder_atoms,
        )  # fmt: skip
        of_row = {row: cells.problems[row] or problems[i] for i, row in enumerate(rows)}
        bad += [
            BadRow(row, str(smiles[row]), problem, in_labels=True)
            for row, problem in of_row.items()
            if problem and not cells.problems[row]
        ]
        if bad and self.on_error == "raise":
            raise MoleculeError(sorted(bad, key=lambda each: each.row), "the table")
        has_label = torch.zeros(len(rows), dtype=torch.bool)
        for values in (y, bounds) if bounds is not None else (y,):
            for kind in self.targets_.kinds:
                labelled = values.rows[kind].isnan().logical_not().flatten(1).any(1)
                has_label[values.owners(kind)[labelled]] = True
        usable = torch.tensor([not of_row[row] for row in rows], dtype=torch.bool)
        index = (has_label & usable).nonzero().flatten()
        everything = LabelledAtoms(
            inputs, y, parsed.row_index, parsed.canonical,
            tuple(sorted(bad, key=lambda each: each.row)), bounds,
            None if weights is None else weights[parsed.row_index],
        )  # fmt: skip
        return everything[index]

    def fit_labelled(
        self: Self, train: LabelledAtoms, val: LabelledAtoms, *, folder: Path | None = None,
        progress: bool = False,
    ) -> Self:  # fmt: skip
        """Train the model on a training part and a validation part; :meth:`read` returns such
        parts.
        """
        for name, part, least in (("training", train, 2), ("validation", val, 1)):
            if len(part) < least:
                raise ValueError(
                    f"the {name} part needs at least {least} molecules with a label; it has "
                    f"{len(part)}"
                )
        self.predictor_ = AtomPredictor.fit(
            train, val, self.task, self.settings(), self.targets_,
            tuple(map(len, self.coding_.classes)), folder=folder, progress=progress,
            threads=settings_of(AtomParameters, self).threads,
        )  # fmt: skip
        self.seen_ = smiles_hashes([*train.canonical, *val.canonical]).unique()
        return self

    def settings(self) -> MoleculeSettings:
        """Return the settings of the model."""
        return settings_of(MoleculeSettings, self)

    def featurise(self, smiles: Sequence[str]) -> FeaturizedSmiles:
        """Compute the inputs of the model from n SMILES."""
        return self._featurise(smiles, self._order_problems(smiles))

    def _order_problems(self, smiles: Sequence[object]) -> list[str]:
        """Return the result of :func:`order_problem` for each SMILES with ``reorder_atoms``;
        otherwise empty texts.
        """
        check_is_list(smiles)
        if not self.reorder_atoms:
            return [""] * len(smiles)
        return [order_problem(str(text)) for text in smiles]

    def _featurise(self, smiles: Sequence[str], problems: Sequence[str]) -> FeaturizedSmiles:
        """Compute the inputs from n SMILES. A SMILES with a problem is not parsed, and the problem
        is its error.
        """
        if any(problems):
            smiles = ["" if problem else text for text, problem in zip(smiles, problems)]
        parsed = featurise(
            smiles, max_atoms=self.max_atoms, workers=self.workers, row_format=self.row_format
        )
        return replace(parsed, errors=[p or e for p, e in zip(problems, parsed.errors)])

    def predictions(
        self, items: Iterable[Item], *, smiles: Callable[[Item], str] | None = None
    ) -> Iterator[Piece[Item, AtomPrediction]]:
        """Predict molecules in chunks, in the order of the input and with bounded memory."""
        self.check_fitted()
        check_is_list(items)
        get = cast("Callable[[Item], str]", smiles or str)
        # Each item is parsed once for the order of its atoms. Its text is empty if this failed,
        # because an empty text has no result.
        with_problems = (
            (item, order_problem(get(item)) if self.reorder_atoms else "") for item in items
        )
        pieces = make_pieces(
            self.predictor_.predict, with_problems,
            smiles=lambda pair: "" if pair[1] else get(pair[0]),
            max_atoms=self.max_atoms, workers=self.workers, row_format=self.row_format,
        )  # fmt: skip
        for piece in pieces:
            yield Piece(
                piece.row_index,
                [problem or error for (_, problem), error in zip(piece.items, piece.errors)],
                [item for item, _ in piece.items],
                piece.result,
            )

    def in_order(
        self, values: list[torch.Tensor], kind: str, smiles: Sequence[str], arrays: Any
    ) -> list[np.ndarray]:
        """Return the values of each molecule in the order of its lists of labels.

        Args:
            values: for each molecule the values of its nodes or bonds.
            kind: ``"atom"`` or ``"bond"``.
            smiles: the SMILES of the molecules.
            arrays: the graphs of the molecules.

        Returns:
            float64 arrays; NaN for a hydrogen that the SMILES writes and the graph does not have.
        """
        lists = []
        for i, (rows, text) in enumerate(zip(values, smiles)):
            entries = find_entries(text, arrays, i, add_h=self.add_h, reorder=self.reorder_atoms)
            places = entries.atoms if kind == "atom" else entries.bonds
            array = np.full((len(places), *rows.shape[1:]), np.nan)
            array[places >= 0] = rows.numpy()[places[places >= 0]]
            lists.append(array)
        return lists

    def _collect(
        self, smiles: Any, choose: Callable[[AtomPrediction], Mapping[str, torch.Tensor]]
    ) -> dict[str, Any]:
        """Return the values of each target for n SMILES, as an array [n] or a list of arrays."""
        self.check_fitted()
        texts = as_texts(smiles, ordered=True)
        parsed = self.featurise(texts)
        warn_of(bad_rows(texts, parsed))
        predicted = self.predictor_.predict(parsed.inputs)
        rows, arrays = parsed.row_index.tolist(), predicted.graphs
        values = type(predicted.mean)(choose(predicted), predicted.mean.ptr)
        results: dict[str, Any] = {}
        for kind, column, name in self.targets_:
            pieces = values.lists(kind, column)
            if kind == "molecule":
                shape = values.rows[kind].shape[2:]
                result: Any = np.full((len(texts), *shape), np.nan)
                result[rows] = values.rows[kind][:, column].numpy()
            else:
                result = [np.zeros(0)] * len(texts)
                ordered = self.in_order(pieces, kind, [texts[row] for row in rows], arrays)
                for row, array in zip(rows, ordered):
                    result[row] = array
            results[name] = result
        return results

    @classmethod
    def _check_card(cls, folder: str | os.PathLike[str], card: Mapping[str, Any]) -> None:
        check_predictor_features(folder, card)

    def _extra_tensors(self) -> dict[str, torch.Tensor]:
        return {"seen": self.seen_}

    def _extra_state(self) -> dict[str, Any]:
        return {"targets": {kind: list(self.targets_.of(kind)) for kind in KINDS}}

    def _load_state(self, tensors: dict[str, torch.Tensor], card: Mapping[str, Any]) -> None:
        self.seen_ = tensors["seen"]
        self.targets_ = Targets(**{kind: tuple(card["targets"][kind]) for kind in KINDS})

    def _labels_state(self) -> dict[str, Any]:
        coding = self.coding_
        classes = [list(kinds) for kinds in coding.classes]
        return {"task": coding.task, "classes": classes, "bounded": coding.bounded}

    def _load_labels_state(self, state: Mapping[str, Any]) -> None:
        classes = tuple(map(tuple, state["classes"]))
        self.coding_ = Coding(state["task"], classes, state["bounded"])


class AtomRegressor(AtomEstimator):
    """Regressor that predicts a number for every atom, bond or molecule.

    The prediction is a weighted mean of an attention network, which has a head for each kind of
    target, and of the mean label of atoms with the same environment.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets of molecules, atoms and bonds.
        bad_: the rows that ``fit`` did not use.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> charges = [[0.1] * n + [-0.4] for n in range(1, 25)]
        >>> model = AtomRegressor(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, atoms={"charge": charges}).predict(["CCO"])["charge"][0].shape
        (3,)
    """

    _task = "regression"

    def predict(self, smiles: Any) -> dict[str, Any]:
        """Predict molecules.

        Args:
            smiles: n SMILES.

        Returns:
            For each target of atoms or bonds n arrays, in the order of the lists of ``fit``; for
            each target of molecules an array [n]. NaN or an empty array for a SMILES that cannot
            be parsed, with one warning; NaN for a hydrogen that is not an atom of the graph.
        """
        return self._collect(
            smiles, lambda p: {kind: mean[..., 0] for kind, mean in p.mean.rows.items()}
        )

    def predict_interval(self, smiles: Any, *, coverage: float = 0.9) -> dict[str, tuple[Any, Any]]:
        """Return the lower and the upper ends of the prediction intervals of each target.

        The coverage holds for a random atom of a new molecule; see
        :class:`gattn.apps.molecules.atoms.intervals.GroupedScores`.

        Args:
            smiles: n SMILES.
            coverage: the requested probability, in (0, 1).

        Returns:
            Pairs in the form of :meth:`predict`.
        """
        lower, upper = (
            self._collect(smiles, lambda p, i=i: self.predictor_.interval(p, coverage)[i].rows)
            for i in (0, 1)
        )
        return {name: (lower[name], upper[name]) for name in lower}


class AtomClassifier(AtomEstimator):
    """Classifier that predicts a class for every atom, bond or molecule.

    Args:
        {settings}

    Attributes:
        predictor_: the fitted model.
        targets_: the names of the targets of molecules, atoms and bonds.
        bad_: the rows that ``fit`` did not use.

    Example:
        >>> smiles = ["C" * n + "O" for n in range(1, 25)]
        >>> polar = [["no"] * n + ["yes"] for n in range(1, 25)]
        >>> model = AtomClassifier(epochs=2, width=16, heads=2)
        >>> model.fit(smiles, atoms={"polar": polar}).predict(["CCO"])["polar"][0].shape
        (3,)
    """

    def read(self, smiles: Sequence[str], cells: AtomCells, **options: Any) -> LabelledAtoms:
        """Parse molecules with their labels; see :meth:`AtomEstimator.read`."""
        if options.get("coding") is None:
            kinds = [len(set(cells.items(name))) for name in cells.targets.names]
            task = "multiclass" if max(kinds) > 2 else "classification"
            options["coding"] = coding_of(cells, task)
        return super().read(smiles, cells, **options)

    def predict(self, smiles: Any) -> dict[str, Any]:
        """Predict the most probable classes. The result has the form of
        :meth:`AtomRegressor.predict`.

        The class of a hydrogen that is not an atom of the graph is None.
        """
        results = self.predict_proba(smiles)
        for (kind, _, name), kinds in zip(self.targets_, self.coding_.classes):
            probabilities = results[name]
            each = [probabilities] if kind == "molecule" else probabilities
            chosen = [_classes(p, kinds) for p in each]
            results[name] = chosen[0] if kind == "molecule" else chosen
        return results

    def predict_proba(self, smiles: Any) -> dict[str, Any]:
        """Return the probabilities of the classes ``coding_.classes`` for each target, [a, c]."""
        results = self._collect(smiles, lambda p: p.mean.rows)
        for (kind, _, name), kinds in zip(self.targets_, self.coding_.classes):
            each = [results[name]] if kind == "molecule" else results[name]
            full = [_probabilities(p, len(kinds)) for p in each]
            results[name] = full[0] if kind == "molecule" else full
        return results


def _probabilities(values: np.ndarray, count: int) -> np.ndarray:
    """Return the probabilities of all classes, [a, c]. A single column is the probability of
    class 1.
    """
    if not len(values):  # A molecule has no values if it has no bonds or cannot be read.
        return np.zeros((0, count))
    values = values.reshape(len(values), -1)
    return np.hstack([1 - values, values]) if values.shape[1] == 1 else values[:, :count]


def _classes(probabilities: np.ndarray, kinds: Sequence[float | str]) -> np.ndarray:
    labels = np.array(kinds, dtype=object)
    missing = np.isnan(probabilities).any(axis=1)
    chosen = labels[np.nan_to_num(probabilities).argmax(1)] if len(probabilities) else labels[:0]
    chosen[missing] = None
    return chosen
