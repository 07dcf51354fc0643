"""Sentences on infinite prediction intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gattn.apps.fitting.conformal import greatest_coverage, least_rows
from gattn.apps.run.text import plural

__all__ = ["infinite_intervals"]


def infinite_intervals(metrics: Mapping[str, Any], item: str) -> list[str]:
    """Return a sentence, without its period, for each target with infinite intervals.

    The intervals of a target are infinite if it has too few validation labels for the coverage.

    Args:
        metrics: content of the ``metrics.json`` of a run or an evaluation.
        item: plural noun of the rows: "molecules", "nodes".

    >>> intervals = {"coverage": 0.9, "mean_width": float("inf")}
    >>> infinite_intervals({"task": "regression", "intervals": intervals, "nodes": {"val": 6}},
    ...                    "nodes")  # doctest: +NORMALIZE_WHITESPACE
    ['6 validation nodes are too few for this coverage, so the intervals are infinite; with a
    --coverage of up to 0.85, they are finite']
    """
    intervals = metrics.get("intervals")
    if intervals is None or metrics["task"] != "regression":
        return []
    coverage = intervals["coverage"]
    if "calibration" in intervals:
        noun, of, counts = "validation molecule", "with a label of", intervals["calibration"]
    elif "labels" in metrics:
        noun, of, labels = "validation label", "of", metrics["labels"]
        counts = {name: parts["val"] for name, parts in labels.items() if "val" in parts}
    elif intervals.get("mean_width") == math.inf and (count := metrics[item].get("val")):
        return [
            f"{count:,} validation {item} are too few for this coverage, so the intervals are "
            f"infinite{_advice(count)}"
        ]
    else:
        return []
    return [
        f"{plural(count, noun)} {of} {target!r} {'is' if count == 1 else 'are'} too few for this "
        f"coverage, so its intervals are infinite{_advice(count)}"
        for target, count in sorted(counts.items(), key=lambda pair: pair[1])
        if count < least_rows(coverage)
    ]


def _advice(count: int) -> str:
    most = greatest_coverage(count)
    return f"; with a --coverage of up to {most}, they are finite" if count else ""
