"""Sentences on results that need attention, for the terminal and for the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gattn.apps.fitting.conformal import greatest_coverage, least_rows, too_few
from gattn.apps.fitting.tasks import TASKS
from gattn.apps.report.run_report import best_of
from gattn.apps.report.style import METRICS, number
from gattn.apps.run.text import plural

ERRORS = 3.0
"""A coverage is below its level if it is lower by more than this number of standard errors."""
MOST = 5
"""Maximum number of targets that have a sentence of their own."""
NOISE = {
    "nodes": "On the test part, the model is not significantly better than a constant: the data "
    "may not predict the labels.",
    "links": "By {metrics}, the model does not score links significantly better than a random "
    "order: the data may not predict the links.",
}
"""Messages for a model that is not better than chance."""


def metric_notes(metrics: Mapping[str, Any], item: str) -> list[str]:
    """Return sentences on the metrics of the test part: a model that is not better than chance,
    the baselines that are better than the model, and metrics that are undefined.

    Args:
        metrics: content of the ``metrics.json`` of a run or an evaluation, with the entry ``test``.
        item: "molecules", "nodes" or "links", which selects the sentence of :data:`NOISE`.
    """
    lost = metrics.get("undefined", {}).get("test", {})
    return [
        *([noise_note(item, metrics["noise"])] if metrics.get("noise") else []),
        *baseline_note(metrics["test"], metrics.get("baselines", {})),
        *(f"{METRICS[metric]} of the test part: {reason}." for metric, reason in lost.items()),
    ]


def noise_note(item: str, noise: Any) -> str:
    """Return the message for a model that is not better than chance.

    Args:
        item: "nodes" or "links".
        noise: for links, the metrics by which the model is not better.

    >>> noise_note("links", ["mrr"])  # doctest: +NORMALIZE_WHITESPACE
    'By MRR, the model does not score links significantly better than a random order: the data may
    not predict the links.'
    """
    names = " and ".join(METRICS[name] for name in noise) if item == "links" else ""
    return NOISE[item].format(metrics=names)


def interval_notes(metrics: Mapping[str, Any], item: str) -> list[str]:
    """Return sentences on the intervals or sets of classes; an empty list for a model without them.
    The arguments are those of :func:`metric_notes`.
    """
    intervals = metrics.get("intervals")
    if intervals is None:
        return []
    share = math.nan if intervals["held"] is None else intervals["held"]
    what = TASKS[metrics["task"]].regions
    observed = f"The {what} for {intervals['coverage']:.0%} contain {share:.1%} of the labels."
    return [observed, *interval_warnings(metrics, item)]


def interval_warnings(metrics: Mapping[str, Any], item: str) -> list[str]:
    """Return sentences on intervals or sets of classes that are too small, infinite or always the
    same; the arguments are those of :func:`metric_notes`.
    """
    intervals = metrics.get("intervals")
    if intervals is None:
        return []
    notes = coverage_note(metrics, item)
    if classes := intervals.get("classes_in_every_set"):
        least = intervals.get("least_class_rows")
        noun = metrics.get("item", item)
        notes = [*notes, too_few(classes, intervals["coverage"], noun, least)]
    return [*notes, *infinite_intervals(metrics, item)]


def baseline_note(
    model: Mapping[str, float | None],
    baselines: Mapping[str, Mapping[str, float | None]],
    *,
    where: str = "On the test part",
) -> list[str]:
    """Return the sentence that names the baselines that are better than a model, if there are any.

    Args:
        model: metrics of the model; None or NaN if a metric is undefined.
        baselines: metrics of each baseline, by its name; empty if there are none.
        where: beginning of the sentence.

    >>> baseline_note({"rmse": 0.489}, {"kernel_ridge": {"rmse": 0.455}})
    ['On the test part, a baseline is better: kernel ridge by RMSE (0.455 against 0.489).']
    >>> baseline_note({"rmse": 0.455}, {"kernel_ridge": {"rmse": 0.489}})
    []
    >>> baseline_note({"rmse": 0.4552}, {"kernel_ridge": {"rmse": 0.4551}})
    []
    """
    better = []
    for metric, value in model.items():
        others = [each.get(metric) for each in baselines.values()]
        values = [math.nan if each is None else each for each in (value, *others)]
        best = best_of(values, metric)
        if best and best[0]:
            name = list(baselines)[best[0] - 1].replace("_", " ")
            numbers = [number(values[best[0]]), number(values[0])]
            if numbers[0] != numbers[1]:
                better.append(f"{name} by {METRICS[metric]} ({' against '.join(numbers)})")
    return [f"{where}, a baseline is better: {', '.join(better)}."] if better else []


def coverage_note(metrics: Mapping[str, Any], item: str) -> list[str]:
    r"""Return a list with a sentence if the intervals or sets of classes contain fewer labels than
    chance explains; the list is empty if they do not, and without intervals or labels.

    Let p be the requested coverage, n the number of labelled test rows and m the number of
    labelled rows on which the intervals were calibrated. If the rows of both parts come from one
    distribution, the share of the labels inside has a mean of at least p and a standard error of
    about :math:`\sqrt{p (1 - p) (1/n + 1/(m + 2))}`: the variance of n draws, and that of
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
    alone gives at least 77% (100 test and 98 calibration molecules): the test molecules differ from
    the calibration molecules, and the intervals are too small for them.']
    >>> coverage_note(metrics | {"intervals": intervals | {"held": 0.85}}, "molecules")
    []
    """
    intervals = metrics.get("intervals")
    if intervals is None:
        return []
    level, share = intervals["coverage"], intervals["held"]
    counts = metrics[item]
    test = intervals.get("rows", counts["test"])
    calibration = intervals.get("calibration_rows", counts.get("val"))
    if not test or calibration is None or share is None:
        return []
    error = math.sqrt(level * (1 - level) * (1 / test + 1 / (calibration + 2)))
    least = level - ERRORS * error
    if not share < least:
        return []
    what = TASKS[metrics["task"]].regions
    noun = metrics.get("item", item)
    rows = f"{test:,} test and {calibration:,} calibration {noun}"
    return [
        f"The {what} contain {share:.1%} of the labels of the test part instead of {level:.0%}, "
        f"where chance alone gives at least {least:.0%} ({rows}): the test {noun} differ from the "
        f"calibration {noun}, and the {what} are too small for them."
    ]


def infinite_intervals(metrics: Mapping[str, Any], item: str) -> list[str]:
    """Return a sentence for each of the five targets with infinite intervals that have the fewest
    calibration labels, and a sentence with the number of the other such targets.

    The intervals of a target are infinite if it has too few calibration labels for the coverage.
    The list is empty for classes and for finite intervals.

    Args:
        metrics: content of the ``metrics.json`` of a run or an evaluation.
        item: plural noun of the rows: "molecules", "nodes".

    >>> intervals = {"coverage": 0.9, "mean_width": float("inf")}
    >>> infinite_intervals({"task": "regression", "intervals": intervals, "nodes": {"val": 6}},
    ...                    "nodes")  # doctest: +NORMALIZE_WHITESPACE
    ['6 validation nodes are too few for this coverage, so the intervals are infinite; with a
    --coverage of up to 0.85, they are finite.']
    """
    intervals = metrics.get("intervals")
    if intervals is None or TASKS[metrics["task"]].is_class:
        return []
    coverage = intervals["coverage"]
    if "calibration" in intervals:
        counts = intervals["calibration"]
    elif intervals.get("mean_width") == math.inf and (count := metrics[item].get("val")):
        return [
            f"{count:,} validation {item} are too few for this coverage, so the intervals are "
            f"infinite{_advice(count)}"
        ]
    else:
        return []
    lines = [
        f"{plural(count, 'calibration molecule')} with a label of {target!r} "
        f"{'is' if count == 1 else 'are'} too few for this coverage, so its intervals are "
        f"infinite{_advice(count)}"
        for target, count in sorted(counts.items(), key=lambda pair: pair[1])
        if count < least_rows(coverage)
    ]
    more = len(lines) - MOST
    return lines[:MOST] + [f"The same holds for {more:,} more targets."] * (more > 0)


def _advice(count: int) -> str:
    most = greatest_coverage(count)
    return f"; with a --coverage of up to {most}, they are finite." if count else "."
