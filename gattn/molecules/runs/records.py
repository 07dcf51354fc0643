"""The table of what was measured and predicted of the molecules of some parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pandas import isna

from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.predictor import Prediction
from gattn.molecules.rows import LabelledMolecules
from gattn.molecules.runs.columns import prediction_cells, prediction_columns
from gattn.molecules.runs.source import Source

__all__ = ["prediction_table"]


def prediction_table(
    estimator: MoleculeEstimator,
    source: Source,
    parts: Mapping[str, LabelledMolecules],
    predictions: Mapping[str, Prediction],
    coverage: float,
) -> Iterator[Sequence[object]]:
    """Give a header, then a row a molecule: where it came from, its labels, what was predicted.

    Args:
        estimator: what predicted.
        source: the rows that the molecules came from.
        parts: molecules by the name of their part.
        predictions: of each part.
        coverage: the promise of the intervals.
    """
    targets = estimator.targets_
    measured = ["measured"] if len(targets) == 1 else [f"{target}_measured" for target in targets]
    yield ["row", "smiles", "part", *measured, *prediction_columns(estimator)]
    for part, known in parts.items():
        cells = prediction_cells(estimator, predictions[part], coverage)
        for row, predicted in zip(known.rows.tolist(), cells):
            truth = ["" if isna(label) else label for label in source.labels.y[row]]
            yield [row, source.smiles[row].strip(), part, *truth, *predicted]
