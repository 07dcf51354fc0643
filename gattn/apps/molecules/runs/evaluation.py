"""Model and labelled molecules of the command ``gattn molecules evaluate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gattn.apps.molecules.loading import (
    load_model,
    smiles_columns,
)
from gattn.apps.molecules.runs.columns import prediction_table
from gattn.apps.molecules.runs.report import evaluation_figures
from gattn.apps.molecules.runs.source import Source, read_source
from gattn.apps.report.report import Figure
from gattn.apps.run.model_io import coverage_of
from gattn.apps.tables.numbers import NumberFormat


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Model and the labelled molecules on which it is measured.

    Attributes:
        estimator: the model.
        card: the model card.
        coverage: coverage of the intervals.
        source: all rows of the table.
        molecules: the labelled molecules.
    """

    estimator: Any
    card: Mapping[str, Any]
    coverage: float
    source: Source
    molecules: Any
    prediction_table = staticmethod(prediction_table)

    @classmethod
    def read(
        cls, run: str | Path, path: str | Path, *, smiles: str | Sequence[str] | None,
        targets: Sequence[str] | None, encoding: str | None, numbers: Mapping[str, str] | None,
        skip_bad: bool, coverage: float | None, workers: int, threads: int,
    ) -> Evaluation:  # fmt: skip
        """Load the model and read the table; see :func:`evaluate_table`."""
        estimator, card = load_model(run)
        estimator.set_params(on_error="skip", workers=workers, threads=threads)
        columns = smiles_columns(card, smiles, estimator.molecules_per_row)
        style = NumberFormat(**{**cast(Any, card.get("numbers", {})), **(numbers or {})})
        names = check_targets(targets, estimator.targets_)
        source = read_source(
            str(path), columns, names, estimator.task,
            encoding=encoding, learnable=False, style=style, skip_bad=skip_bad,
            descriptors=estimator.descriptors_columns_,
        )  # fmt: skip
        molecules = estimator.labelled(source.rows, source.labels.y)
        return cls(estimator, card, coverage_of(card, coverage), source, molecules)

    def table(self, test: Any, predicted: Any) -> Iterator[Sequence[object]]:
        """Return the rows of the table of predictions."""
        parts, predictions = {"test": test}, {"test": predicted}
        return self.prediction_table(self.estimator, self.source, parts, predictions, self.coverage)

    def figures(self, test: Any, predicted: Any) -> Mapping[str, Figure]:
        """Return the plots by file name."""
        unit = str(self.card.get("unit", ""))
        return evaluation_figures(self.estimator, test, predicted, unit)


def check_targets(targets: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Return the label columns of a table, which are by default the targets of the model.

    Raises:
        ValueError: there are not as many as the model has targets.
    """
    if targets is not None and len(targets) != len(names):
        raise ValueError(
            f"targets must list a column for each target of the model ({', '.join(names)}); got "
            f"{len(targets)}"
        )
    return list(targets or names)
