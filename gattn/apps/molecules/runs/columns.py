"""Prediction columns of a table: their names, cells and rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from gattn.apps.molecules.arrays import is_missing
from gattn.apps.molecules.base import MoleculeEstimator
from gattn.apps.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.run.text import with_precision

if TYPE_CHECKING:
    from gattn.apps.molecules.rows import LabelledMolecules
    from gattn.apps.molecules.runs.source import Source

SIMILARITY = "similarity"
"""Name of the column with the similarity to the most similar molecule of the training and
validation parts.
"""


def prediction_columns(estimator: MoleculeEstimator) -> list[str]:
    """Return the names of the prediction columns of a table.

    Args:
        estimator: a fitted estimator.

    Returns:
        The names, which begin with the name of the target if there are several targets. For
        numbers: ``prediction``, ``std``, ``lower`` and ``upper``; for two classes:
        ``prediction``, ``probability`` of class 1 (``probability_NAME`` if the second class is
        called NAME), ``std`` of the probability, and ``set``, the classes that cannot be excluded.
        For several classes there is a column ``probability_NAME`` for each class, and ``std`` is
        that of the predicted class's probability. The last column is ``similarity``, the Tanimoto
        similarity on Morgan bits to the most similar molecule of the training and validation parts.
        In :attr:`MoleculePredictor.validation`, it is the similarity to the training part alone.
    """
    names = target_columns(estimator)
    if len(names) == 1:
        return [*names[0], SIMILARITY]
    return [*(f"{t}_{n}" for t, each in zip(estimator.targets_, names) for n in each), SIMILARITY]


def target_columns(estimator: MoleculeEstimator) -> list[Sequence[str]]:
    """Return the names of the prediction columns of one target, without the target's name."""
    return [_names(estimator, i) for i in range(len(estimator.targets_))]


def prediction_cells(
    estimator: MoleculeEstimator, predicted: Prediction, coverage: float
) -> list[list[str]]:
    """Return the table cells of k predictions, in the order of :func:`prediction_columns`.

    A number has at least six digits, and enough digits to show four of its standard deviation.
    """
    mean, std, columns = predicted.mean, predicted.std, []
    if isinstance(estimator, MoleculeRegressor):
        shown = (mean, std, *estimator.intervals(predicted, coverage))
        for i in range(mean.shape[1]):
            columns += [_precise(values[:, i], std[:, i]) for values in shown]
    elif isinstance(estimator, MoleculeClassifier):
        sets = estimator.sets_of(mean, coverage)
        spreads = std.split(list(estimator.class_counts) or 1, 1)
        chances = estimator.probabilities(mean)
        for i, kinds in enumerate(estimator.classes_by_target):
            chance, spread = chances[i], spreads[i]
            chosen = chance.argmax(1)
            labels = [str(kinds[number]) for number in chosen.tolist()]
            members = [_joined(kinds, is_in) for is_in in sets[:, i].tolist()]
            if estimator.class_counts:
                spread = spread.gather(1, chosen[:, None])
            else:
                chance = mean[:, i, None]
            shown = map(_numbers, (*chance.unbind(1), spread[:, 0]))
            columns += [labels, *shown, members]
    else:
        raise TypeError(f"{type(estimator).__name__} predicts neither numbers nor classes")
    return [list(cells) for cells in zip(*columns, _numbers(predicted.max_train_similarity))]


def prediction_table(
    estimator: MoleculeEstimator,
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

    def labels_of(row: int) -> list[object]:
        labels = source.labels.y[row]
        return ["" if blank else label for label, blank in zip(labels, is_missing(labels))]

    return table_rows(
        source, parts, [*measured, *prediction_columns(estimator)], labels_of,
        lambda part: prediction_cells(estimator, predictions[part], coverage),
    )  # fmt: skip


def table_rows(
    source: Source,
    parts: Mapping[str, LabelledMolecules],
    columns: Sequence[str],
    labels: Callable[[int], Sequence[object]],
    cells: Callable[[str], Iterable[Sequence[object]]],
) -> Iterator[Sequence[object]]:
    """Yield the rows of a prediction table; see :func:`prediction_table`.

    Args:
        source: the table from which the molecules were read.
        parts: molecules by the name of their part.
        columns: names of the columns of labels and of predictions.
        labels: function that returns the cells of the labels in a row of the source.
        cells: function that returns the cells of the predictions for a part.
    """
    yield ["row", "smiles", "part", *columns]
    for part, molecules in parts.items():
        for row, predicted in zip(molecules.rows.tolist(), cells(part)):
            yield [row, source.smiles[row].strip(), part, *labels(row), *predicted]


def _names(estimator: MoleculeEstimator, target: int) -> Sequence[str]:
    if not isinstance(estimator, MoleculeClassifier):
        return ("prediction", "std", "lower", "upper")
    if estimator.class_counts:
        names = estimator.classes_by_target[target].tolist()
        return ("prediction", *(f"probability_{name}" for name in names), "std", "set")
    second = str(estimator.classes_by_target[target][1])
    probability = "probability" if second in ("1", "True") else f"probability_{second}"
    return ("prediction", probability, "std", "set")


def _numbers(column: Tensor) -> list[str]:
    return [f"{value:.6g}" for value in column.tolist()]


def _precise(column: Tensor, std: Tensor) -> list[str]:
    """Format numbers with so many digits that four digits of their standard deviation are shown."""
    pairs = zip(column.tolist(), std.tolist())
    return [with_precision(value, error, digits=6, error_digits=4) for value, error in pairs]


def _joined(kinds: Iterable[object], is_in: Sequence[bool]) -> str:
    return "|".join(str(kind) for kind, chosen in zip(kinds, is_in) if chosen)
