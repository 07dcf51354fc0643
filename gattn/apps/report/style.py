"""Formatting of metrics, numbers and titles for reports and their plots."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gattn.draw.figure import heading

METRICS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
    "roc_auc": "ROC-AUC",
    "pr_auc": "PR-AUC",
    "accuracy": "accuracy",
    "f1": "macro F1",
    "mcc": "MCC",
    "log_loss": "log loss",
    "mrr": "MRR",
    "hits@1": "hits@1",
    "hits@10": "hits@10",
    "hits@50": "hits@50",
}
"""Names under which the metrics of :mod:`gattn.apps.fitting.metrics` are displayed."""


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with ``digits`` significant digits; None and NaN become a dash. From 100 on,
    it has all digits before the decimal point, with a thousands separator. A number below 1 has up
    to six digits if fewer would round it to 1. Magnitudes below 1e-4 and from 1e9 on have an
    exponent.

    >>> number(0.48912), number(0.9996), number(12345.6), number(1e-7), number(float("nan"))
    ('0.489', '0.9996', '12,346', '1e-07', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 100 <= abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    if value == 0 or 1e-4 <= abs(value) < 100:
        text = f"{value:#.{digits}g}".rstrip(".").replace("-", "−")
        is_near_one = value < 1 and digits < 6 and text == f"{1:#.{digits}g}"
        return number(value, digits + 1) if is_near_one else text
    return f"{value:.3g}"


def title(text: str, metrics: Mapping[str, float] | None = None) -> str:
    """Format a title of at most two lines, followed by a line with the metrics.

    >>> title("price of a $x$", {"rmse": 0.5})
    'price of a \\\\$x\\\\$\\nRMSE 0.500'
    """
    facts = (f"{METRICS.get(key, key)} {number(at)}" for key, at in (metrics or {}).items())
    return "\n".join(part for part in (heading(text), "   ".join(facts)) if part)
