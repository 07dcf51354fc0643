"""Prediction columns of a table: their names, cells and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from torch import Tensor

from gattn.apps.molecules.arrays import is_missing
from gattn.apps.molecules.atoms.labels import join_cells
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.report.style import with_digits, with_precision

if TYPE_CHECKING:
    from gattn.apps.molecules.rows import LabelledMolecules
    from gattn.apps.molecules.runs.source import Source

SIMILARITY = "similarity"
"""Name of the column with the similarity to the most similar molecule of the training and
validation parts.
"""
RADIUS = "radius"
"""Name of the column with the largest radius of the environments of atoms or bonds that the
training molecules contain, -1 for an unknown atom.
"""


def prediction_columns(estimator: Any) -> list[str]:
    """Return the names of the prediction columns of a table.

    Args:
        estimator: a fitted estimator.

    Returns:
        The names, which begin with the name of the target if there are several targets. For
        numbers: ``prediction``, ``std``, ``lower`` and ``upper``; for two classes:
        ``prediction``, ``probability`` of class 1 (``probability_NAME`` if the second class is
        called NAME), ``std`` of the probability, and ``set``, the classes that cannot be excluded.
        For several classes there is a column ``probability_NAME`` for each class, and ``std`` is
        that of the predicted class's probability. ``percentile`` is that of the number, or of the
        probability of class 1, among drug-like molecules
        (:meth:`.MoleculeEstimator.predict_percentile`), if it was stored. The last column is
        ``similarity``, the Tanimoto similarity on Morgan bits to the most similar molecule of the
        training and validation parts.
        In :attr:`MoleculePredictor.validation`, it is the similarity to the training part alone.
        For atoms and bonds it is ``radius``, and classes have no ``set``.
    """
    names, last = target_columns(estimator), RADIUS if estimator.level_ else SIMILARITY
    if len(names) == 1:
        return [*names[0], last]
    return [*(f"{t}_{n}" for t, each in zip(estimator.targets_, names) for n in each), last]


def target_columns(estimator: Any) -> list[Sequence[str]]:
    """Return the names of the prediction columns of each target, without the target's name."""
    return [_names(estimator, i) for i in range(len(estimator.targets_))]


def prediction_cells(
    estimator: Any, predicted: Any, coverage: float, texts: Sequence[str] = ()
) -> list[list[str]]:
    """Return the table cells of k predictions, in the order of :func:`prediction_columns`.

    A number has at least six digits, and enough digits to show four of its standard deviation. For
    atoms and bonds, a cell is a list in JSON.

    Args:
        estimator: the model.
        predicted: its predictions.
        coverage: coverage of the intervals or sets.
        texts: SMILES of the k molecules, which are needed for atoms and bonds.
    """
    mean, std, columns = predicted.mean, predicted.std, []
    percent = [[] for _ in estimator.targets_]
    if estimator.percentiles_ is not None:
        percent = [[_numbers(column)] for column in estimator.percentile(mean).unbind(1)]
    if not estimator.task.is_class:
        shown = (mean, std, *estimator.intervals(predicted, coverage))
        for i in range(mean.shape[1]):
            columns += [_precise(values[:, i], std[:, i]) for values in shown] + percent[i]
    else:
        sets = None if estimator.level_ else estimator.sets_of(mean, coverage)
        spreads = std.split(list(estimator.class_counts) or 1, 1)
        chances = estimator.probabilities(mean)
        for i, kinds in enumerate(estimator.classes_by_target):
            chance, spread = chances[i], spreads[i]
            chosen = chance.argmax(1)
            labels = [str(kinds[number]) for number in chosen.tolist()]
            if estimator.class_counts:
                spread = spread.gather(1, chosen[:, None])
            else:
                chance = mean[:, i, None]
            columns += [labels, *map(_numbers, (*chance.unbind(1), spread[:, 0]))]
            if sets is not None:
                rows = ([*map(str, compress(kinds, is_in))] for is_in in sets[:, i].tolist())
                columns.append(["|".join(row) for row in rows])
            columns += percent[i]
    if not estimator.level_:
        return [list(cells) for cells in zip(*columns, _numbers(predicted.max_train_similarity))]
    columns.append(_numbers(predicted.radius))
    return join_cells(columns, estimator.list_rows(texts, predicted.graphs))


def prediction_table(
    estimator: Any,
    source: Source,
    parts: Mapping[str, LabelledMolecules],
    predictions: Mapping[str, Prediction],
    coverage: float,
) -> Iterator[Sequence[object]]:
    """Yield the rows of a prediction table: a header, then one row for each molecule.

    Args:
        estimator: the estimator that predicted the molecules.
        source: the table from which the molecules were read.
        parts: molecules by the name of their part.
        predictions: predictions for each part.
        coverage: coverage of the intervals.
    """
    targets = estimator.targets_
    measured = ["measured"] if len(targets) == 1 else [f"{target}_measured" for target in targets]

    yield ["row", "smiles", "part", *measured, *prediction_columns(estimator)]
    for part, molecules in parts.items():
        rows = molecules.rows.tolist()
        texts = [source.smiles[row].strip() for row in rows]
        cells = prediction_cells(estimator, predictions[part], coverage, texts)
        for row, text, predicted in zip(rows, texts, cells):
            yield [row, text, part, *_label_cells(source, row), *predicted]


def _label_cells(source: Source, row: int) -> list[object]:
    """Return the cells with the labels of a row, one for each target; "" for a missing number or
    class.
    """
    if source.places is not None:
        return [source.lists[target][row] for target in source.targets]
    labels = source.labels.y[row]
    return ["" if blank else label for label, blank in zip(labels, is_missing(labels))]


def _names(estimator: Any, target: int) -> Sequence[str]:
    """Return the names of the columns that contain the predictions of the target with this index,
    in the order of the columns. ``estimator`` is fitted.
    """
    percentile = [] if estimator.percentiles_ is None else ["percentile"]
    if not estimator.task.is_class:
        return ("prediction", "std", "lower", "upper", *percentile)
    sets = [] if estimator.level_ else ["set"]
    if estimator.class_counts:
        names = estimator.classes_by_target[target].tolist()
        return ("prediction", *(f"probability_{name}" for name in names), "std", *sets)
    second = str(estimator.classes_by_target[target][1])
    probability = "probability" if second in ("1", "True") else f"probability_{second}"
    return ("prediction", probability, "std", *sets, *percentile)


def _numbers(column: Tensor) -> list[str]:
    return [with_digits(value, 6) for value in column.tolist()]


def _precise(column: Tensor, std: Tensor) -> list[str]:
    """Format numbers with so many digits that four digits of their standard deviation are shown."""
    pairs = zip(column.tolist(), std.tolist())
    return [with_precision(value, error, digits=6, error_digits=4) for value, error in pairs]
