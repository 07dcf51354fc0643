"""Comparison of runs by the errors of their predictions for the same test rows, and its plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gattn.apps.fitting.tasks import TASKS
from gattn.apps.run.model_io import CARD, RunError, check_files, read_json
from gattn.draw.figure import line, render
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESAMPLES = 2000
"""Number of samples of the bootstrap."""


class Difference(NamedTuple):
    """Error of a run for one target, and its difference from the first run.

    Attributes:
        run: the folder of the run.
        target: name of the target; "" if there is a single target.
        error: the error on the test rows: RMSE for numbers, the fraction of wrong classes for
            classes; with several folds, the mean of the errors of the folds.
        difference: the error minus that of the first run, on the same rows; with several folds, the
            mean of the differences of the folds.
        low: lower end of the 95 % confidence interval of the difference.
        high: upper end.
        p: p-value of the hypothesis that the losses are equal, corrected by Holm's method for the
            number of comparisons. NaN for the first run.
    """

    run: str
    target: str
    error: float
    difference: float
    low: float
    high: float
    p: float


def compare_runs(runs: Sequence[str | Path]) -> list[Difference]:
    r"""Compare runs with the first run, on the test rows that all of them have predicted.

    The loss of a row is the squared error of a number, and 1 for a wrong class. With a single
    split, the interval is a paired bootstrap over the rows, and the test is a paired t-test of the
    losses. With the folds of a cross-validation, the training parts overlap, and the losses of a
    fold depend on one model. The test and the interval then use the mean of the differences of the
    K folds, with the corrected variance of Nadeau and Bengio for their variance s²,

    .. math:: s^2 \left(\frac{1}{K} + \frac{1}{K - 1}\right)

    Args:
        runs: two or more folders of ``gattn molecules train`` or ``gattn nodes train``, also with
            several folds.

    Returns:
        A row for each target and run, in this order.

    Raises:
        ValueError: fewer than two runs, or runs with different test rows, labels or tasks.
        RunError: a folder holds no run, or its predictions were changed.
        FileNotFoundError: a run is not finished.

    Warns:
        RuntimeWarning: SciPy's t-test cannot be computed, for example for a single row, or the
            losses differ by a constant.

    References:
        Nadeau and Bengio, "Inference for the generalization error" (Machine Learning 2003); Holm,
        "A simple sequentially rejective multiple test procedure" (1979).
    """
    if len(runs) < 2:
        raise ValueError(f"compare needs at least two runs; got {len(runs)}")
    tables = [_read(Path(run)) for run in runs]
    first, result = tables[0], []
    for run, table in zip(runs[1:], tables[1:]):
        if not table["label"].sort_index().equals(first["label"].sort_index()):
            raise ValueError(
                f"{runs[0]} and {run} have different test parts or labels: train both on the same "
                "table with the same --split and --seed and without --runs, or the same --folds"
            )
    for target in first.index.unique("target"):
        of_first = first.loc[target]
        is_number = of_first["label"].map(type).eq(float).all()
        losses = [_loss(table.loc[target].loc[of_first.index], is_number) for table in tables]
        folds = of_first.index.get_level_values("fold").to_numpy()
        compared = [_difference(each, losses[0], folds, is_number) for each in losses[1:]]
        corrected = _holm([p for *_, p in compared])
        rows_of_target = [(0.0, 0.0, 0.0, np.nan)]
        rows_of_target += [(*one[:3], p) for one, p in zip(compared, corrected)]
        for run, loss, one in zip(runs, losses, rows_of_target):
            error = float(_fold_errors(loss, folds, is_number).mean())
            result.append(Difference(str(run), target, error, *one))
    return result


def _read(run: Path) -> Any:
    """Read the labels and predictions of the test rows of a run, or of the folds in a folder.

    Returns:
        A data frame with the columns ``label`` and ``prediction``, which is indexed by the target,
        the fold and the row. Rows without a label are left out.

    Raises:
        RunError: there is no run, a run has no predictions of molecules or nodes, it predicts atoms
            or bonds, or its file was changed.
        FileNotFoundError: a run has no metrics, because it is not finished.
    """
    folders = (
        [run] if (run / CARD).exists() else sorted(path.parent for path in run.glob(f"*/{CARD}"))
    )
    if not folders:
        raise RunError(f"{run} contains no run")
    tables = []
    for folder in folders:
        if not (folder / "predictions.csv").exists():
            raise RunError(
                f"{folder} has no predictions.csv: compare reads runs of molecules and of nodes"
            )
        check_files(folder, "predictions.csv")
        if read_json(folder / CARD).get("level"):
            raise RunError(
                f"{folder} predicts atoms or bonds, which compare does not read: use evaluate on "
                "one table with each run"
            )
        is_number = not TASKS[read_json(folder / "metrics.json", "task")["task"]].is_class
        frame: Any = pd.read_csv(folder / "predictions.csv", dtype=str, keep_default_na=False)
        frame = frame[frame["part"] == "test"]
        for column in frame.columns:
            if column in ("label", "measured") or column.endswith("_measured"):
                prefix = column.removesuffix("label").removesuffix("measured")
                rows = frame[frame[column] != ""]
                values = rows[[column, f"{prefix}prediction"]]
                tables.append(
                    values.set_axis(["label", "prediction"], axis=1)
                    .astype(float if is_number else object)
                    .assign(
                        target=prefix.removesuffix("_"),
                        fold=folder.name if folder != run else "",
                        row=rows["row" if "row" in rows else "node"],
                    )
                )
    return pd.concat(tables).set_index(["target", "fold", "row"])


def _loss(table: Any, is_number: bool) -> np.ndarray:
    """Return the loss of each row, for example the squared error of a number."""
    if is_number:
        return (table["label"] - table["prediction"]).to_numpy() ** 2
    return (table["label"] != table["prediction"]).to_numpy(float)


def _error(loss: np.ndarray, is_number: bool) -> float:
    return float(np.sqrt(loss.mean()) if is_number else loss.mean())


def _fold_errors(loss: np.ndarray, folds: np.ndarray, is_number: bool) -> np.ndarray:
    """Return the error of each fold, given the losses [n] of the rows and their folds [n]."""
    return np.array([_error(loss[folds == name], is_number) for name in np.unique(folds)])


def _difference(
    loss: np.ndarray, first: np.ndarray, folds: np.ndarray, is_number: bool
) -> tuple[float, float, float, float]:
    """Return the difference of two errors (root mean square errors if ``is_number``, and otherwise
    error rates), the ends of its 95 % interval, and the p-value. If all losses are equal, the
    p-value is 1. For a single fold, the interval comes from bootstrap samples of the rows with a
    fixed seed. With several folds, the difference is the mean over the folds. ``loss`` and
    ``first`` [n] are the losses of the rows, and ``folds`` [n] their folds. SciPy issues a
    RuntimeWarning if the losses of a single fold differ by a constant.
    """
    # SciPy takes half a second to import, which other commands do not need.
    from scipy import stats

    each = _fold_errors(loss, folds, is_number) - _fold_errors(first, folds, is_number)
    count, mean = len(each), float(each.mean())
    if np.array_equal(loss, first):
        return 0.0, 0.0, 0.0, 1.0
    if count == 1:
        random = np.random.default_rng(0)
        # One sample at a time, because a matrix of all samples can exceed the memory.
        drawn = (random.integers(len(loss), size=len(loss)) for _ in range(RESAMPLES))
        apart = [_error(loss[rows], is_number) - _error(first[rows], is_number) for rows in drawn]
        low, high = np.quantile(apart, [0.025, 0.975])
        return mean, float(low), float(high), float(stats.ttest_rel(loss, first).pvalue)
    deviation = each.std(ddof=1) * np.sqrt(1 / count + 1 / (count - 1))
    spread = float(stats.t.ppf(0.975, count - 1) * deviation)
    p = float(2 * stats.t.sf(abs(mean) / max(deviation, 1e-300), count - 1))
    return mean, mean - spread, mean + spread, p


def _holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number by Holm's method.

    >>> _holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    values = np.array(p)
    order = np.argsort(values)
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return corrected.clip(max=1).tolist()


def differences_plot(first: str, rows: Sequence[tuple[str, float, float, float]]) -> bytes:
    """Return a PNG plot of the differences of the errors of runs from the error of one run.

    Args:
        first: name of the run with which the others are compared.
        rows: for each other run, at least one, its name, the difference, and the ends of its
            interval.
    """
    names, middle, low, high = zip(*rows[::-1])

    def draw(axes: Sequence[Axes], theme: Theme) -> None:
        """Draw the difference of each run with its interval, and a line at zero."""
        places = range(len(names))
        ends = np.abs(np.subtract([low, high], middle))
        axes[0].axvline(0, color=theme.muted, linewidth=1, linestyle="--")
        axes[0].errorbar(middle, places, xerr=ends, fmt="o", color=theme.first, capsize=3)
        axes[0].set_yticks(places, list(map(line, names)))
        axes[0].set_ylim(-0.5, len(names) - 0.5)
        axes[0].set_xlabel(f"error minus the error of {line(first)}")
        axes[0].locator_params(axis="x", nbins=6)

    return render(draw, height=min(1.2 + 0.4 * len(rows), 4.2))
