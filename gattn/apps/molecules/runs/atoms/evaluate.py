"""Evaluation of models of atoms and bonds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gattn.apps.molecules.atoms.values import KINDS
from gattn.apps.molecules.runs.atoms.columns import prediction_table
from gattn.apps.molecules.runs.atoms.source import check_values, load_atoms, read_list_cells
from gattn.apps.molecules.runs.evaluation import Evaluation, check_targets
from gattn.apps.molecules.runs.measure import measure_coverage
from gattn.apps.molecules.runs.source import read_source
from gattn.apps.report.report import Figure
from gattn.apps.run.model_io import coverage_of

__all__ = ["AtomEvaluation"]


class AtomEvaluation(Evaluation):
    """Model of atoms and bonds, and the labelled molecules on which it is measured."""

    @classmethod
    def read(
        cls, run: str | Path, path: str | Path, *, smiles: str | Sequence[str] | None,
        targets: Sequence[str] | None, encoding: str | None, skip_bad: bool,
        coverage: float | None, workers: int, threads: int, **unused: object,
    ) -> AtomEvaluation:  # fmt: skip
        """Load the model and read the table."""
        model, card, column = load_atoms(
            run, smiles, threads=threads, workers=workers, on_error="skip"
        )
        names = check_targets(targets, model.targets_.names)
        columns: dict[str, list[str]] = {kind: [] for kind in KINDS}
        for name, (kind, _, _) in zip(names, model.targets_):
            columns[kind].append(name)
        source = read_source(
            str(path), column, (), "regression", encoding=encoding, skip_bad=skip_bad
        )
        cells = read_list_cells([str(path)], columns, encoding)
        check_values(source, cells, model.coding_, skip_bad=skip_bad)
        values = dict(zip(model.targets_.names, cells.values.values()))
        cells = replace(cells, targets=model.targets_, values=values)
        molecules = model.labelled(source.smiles, cells)
        return cls(model, card, coverage_of(card, coverage), source, molecules, cells)

    def intervals(self, y: Any, predicted: Any) -> dict[str, Any]:
        """Return the metrics of the intervals; empty for classes."""
        if self.estimator.task != "regression":
            return {}
        return measure_coverage(self.estimator, y, predicted, self.coverage)

    def table(self, test: Any, predicted: Any) -> Iterator[Sequence[object]]:
        """Return the rows of the table of predictions."""
        return prediction_table(
            self.estimator, self.source, self.cells, {"test": test}, {"test": predicted},
            self.coverage,
        )  # fmt: skip

    def figures(self, test: Any, predicted: Any) -> Mapping[str, Figure]:
        """Return no plots."""
        return {}
