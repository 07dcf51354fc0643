"""Sentences on results that need attention: a better baseline, and a coverage below its level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gattn.apps.report.run_report import best_of, compare

__all__ = ["baseline_note", "coverage_note"]

ERRORS = 3.0
"""A coverage is below its level if it is lower by more than this number of standard errors."""


def baseline_note(
    model: Mapping[str, float | None],
    baselines: Mapping[str, Mapping[str, float | None]],
    *,
    where: str = "On the test part",
) -> list[str]:
    """Return the sentence of the report that compares a model with its baselines, unless the model
    is better than all of them.

    Args:
        model: metrics of the model; None or NaN if a metric is undefined.
        baselines: metrics of each baseline, by its name; empty if there are none.
        where: beginning of the sentence.

    >>> baseline_note({"rmse": 0.489}, {"kernel_ridge": {"rmse": 0.455}})
    ['On the test part, a baseline is better: kernel ridge by RMSE (0.455 against 0.489).']
    >>> baseline_note({"rmse": 0.455}, {"kernel_ridge": {"rmse": 0.489}})
    []
    """
    if not baselines:
        return []
    ours, others = _numbers(model), {name: _numbers(each) for name, each in baselines.items()}
    best = [
        best_of([value, *(each.get(metric, math.nan) for each in others.values())], metric)
        for metric, value in ours.items()
    ]
    if all(places in ([], [0]) for places in best):
        return []
    return [compare(ours, others, where=where)[1]]


def coverage_note(metrics: Mapping[str, Any], item: str) -> list[str]:
    r"""Return a sentence if the intervals or sets of classes contain fewer labels than chance
    explains.

    Let p be the requested coverage, n the number of labelled test rows and m the number of
    labelled validation rows, on which the intervals were calibrated. If the rows of both parts come
    from one distribution, the share of the labels inside has a mean of at least p and a standard
    error of about :math:`\sqrt{p (1 - p) (1/n + 1/(m + 2))}`: the variance of n draws, and that of
    the coverage of a calibration on m rows. The sentence is returned if the share is more than
    three standard errors below p.

    Args:
        metrics: content of the ``metrics.json`` of a run or an evaluation. Its entry ``item`` is
            the plural noun of the rows.
        item: name of the entry with the numbers of rows, and the noun if there is no ``item``:
            "molecules", "nodes".

    References:
        Vovk, "Conditional Validity of Inductive Conformal Predictors" (ACML 2012).

    >>> intervals = {"coverage": 0.9, "held": 0.02}
    >>> metrics = {"task": "regression", "intervals": intervals,
    ...            "molecules": {"val": 98, "test": 100}}
    >>> coverage_note(metrics, "molecules")  # doctest: +NORMALIZE_WHITESPACE
    ['The intervals contain 2.0% of the labels of the test part instead of 90%, where chance
    alone gives at least 77% (100 test and 98 validation molecules): the test molecules differ from
    the validation molecules, and the intervals are too narrow for them.']
    >>> coverage_note(metrics | {"intervals": intervals | {"held": 0.85}}, "molecules")
    []
    """
    intervals = metrics.get("intervals")
    if intervals is None:
        return []
    level, share = intervals["coverage"], intervals["held"]
    counts = metrics[item]
    test = intervals.get("rows", counts["test"])
    calibration = intervals.get("validation_rows", counts.get("val"))
    if not test or calibration is None or share is None:
        return []
    error = math.sqrt(level * (1 - level) * (1 / test + 1 / (calibration + 2)))
    least = level - ERRORS * error
    if not share < least:
        return []
    numbers = metrics["task"] == "regression"
    what, small = ("intervals", "narrow") if numbers else ("sets of classes", "small")
    noun = metrics.get("item", item)
    rows = f"{test:,} test and {calibration:,} validation {noun}"
    return [
        f"The {what} contain {share:.1%} of the labels of the test part instead of {level:.0%}, "
        f"where chance alone gives at least {least:.0%} ({rows}): the test {noun} differ from the "
        f"validation {noun}, and the {what} are too {small} for them."
    ]


def _numbers(scores: Mapping[str, float | None]) -> dict[str, float]:
    """Replace None, which a file of metrics contains for an undefined metric, by NaN."""
    return {name: math.nan if value is None else value for name, value in scores.items()}
