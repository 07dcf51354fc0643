"""Stages of ``gattn molecules train`` for targets that are values of atoms and bonds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from gattn.apps.molecules.atoms.estimators import AtomClassifier, AtomRegressor
from gattn.apps.molecules.atoms.settings import check_atom_settings
from gattn.apps.molecules.atoms.training import one_hot_labels
from gattn.apps.molecules.atoms.values import Values
from gattn.apps.molecules.runs.atoms.columns import prediction_table
from gattn.apps.molecules.runs.atoms.source import check_share, read_atom_source
from gattn.apps.molecules.runs.measure import count_labels, measure_coverage, measure_part
from gattn.apps.molecules.runs.stages import (
    MoleculeData,
    MoleculeParts,
    MoleculeProduct,
    MoleculeRun,
    with_all_bad,
)
from gattn.apps.run.product import Report
from gattn.apps.run.run_folder import CHECKPOINTS
from gattn.data import Split

__all__ = ["AtomProduct"]


class AtomProduct(MoleculeProduct):
    """Stages of a run whose labels are lists; all atoms of a molecule are in one part."""

    def load(self) -> MoleculeData:
        """Read the table, and parse its SMILES and lists."""
        settings = self.settings
        check_atom_settings(settings.model)
        source, cells, coding = read_atom_source(settings)
        kind = AtomRegressor if coding.task == "regression" else AtomClassifier
        estimator = kind(
            **asdict(settings.model), on_error="skip", workers=settings.workers,
            threads=settings.threads,
        )  # fmt: skip
        weights = None if source.weights is None else torch.from_numpy(source.weights)
        labelled = estimator.read(source.smiles, cells, coding=coding, weights=weights)
        labelled = with_all_bad(labelled, source)
        lists = [row for row in labelled.bad if source.smiles[row.row] and row.in_labels]
        check_share(source, lists, skip_bad=settings.skip_bad_labels)
        return self.loaded(MoleculeData(source, labelled, estimator, cells))

    def check_training(self, data: MoleculeData, split: Split) -> None:
        """Check that the training part has a label of each target."""
        train = data.molecules.y[split.train]
        for target, counts in count_labels(data.estimator, {"train": train}).items():
            count = counts["train"]
            if not (sum(count.values()) if isinstance(count, dict) else count):
                raise ValueError(
                    f"the training part has no label of {target!r}: choose another split"
                )

    def fit(self, data: MoleculeData, parts: MoleculeParts) -> Any:
        """Train the networks, and compute the mean labels of environments."""
        molecules: Any = data.molecules
        train, val = molecules[parts.split.train], molecules[parts.split.val]
        estimator: Any = data.estimator
        return estimator.fit_labelled(
            train, val, folder=self.out / CHECKPOINTS, progress=self.progress
        )

    def intervals(self, model: Any, y: Any, predicted: Any) -> dict[str, Any]:
        """Return the metrics of the intervals of the test part; empty for classes."""
        if model.task != "regression":
            return {}
        return measure_coverage(model, y, predicted, self.settings.coverage)

    def baselines(
        self, model: Any, train: Any, test: Any, predicted: Any
    ) -> dict[str, dict[str, float]]:
        """Return the metrics of the mean of all labels, and of each part of the model alone."""
        width = model.predictor_.width
        means = {}
        for kind in model.targets_.kinds:
            mean = one_hot_labels(train.y.rows[kind], width).nanmean(0)
            means[kind] = mean.expand(len(test.y.rows[kind]), *mean.shape)
        parts = dict(predicted.parts)
        if self.settings.model.model == "attention":
            del parts["attention"]
        return {
            name: measure_part(model, test.y, Values(mean, test.y.ptr))
            for name, mean in {"mean": means, **parts}.items()
        }

    def notes(self, intervals: Mapping[str, Any], predicted: Any, validation: Any) -> list[str]:
        """Return no sentences: the predictions of atoms have no similarity of molecules."""
        return []

    def report(self, run: MoleculeRun) -> Report:
        """Return the report page."""
        from gattn.apps.molecules.runs.atoms.report import atom_report

        return atom_report(run)

    def tables(self, run: MoleculeRun) -> Mapping[str, Iterator[Sequence[object]]]:
        """Return the table of predictions for the validation and test parts."""
        data, parts = run.data, {part: run.part(part) for part in run.predictions}
        assert data.cells is not None
        rows = prediction_table(
            run.estimator, data.source, data.cells, parts, run.predictions, self.settings.coverage
        )
        return {"predictions.csv": rows}
