"""Formatting of numbers for tables and reports, and of metrics and titles for reports."""

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


def with_digits(value: float, digits: int, *, zeros: bool = False) -> str:
    """Format a number with some significant digits, or with more if it is below 1 and they would
    round it to 1, which is important for probabilities. A distance of 1e-12 from 1 is a rounding
    error of a mean. Zeros at the end are written if ``zeros`` is True.

    >>> with_digits(0.25, 3), with_digits(0.25, 3, zeros=True), with_digits(0.9996, 3)
    ('0.25', '0.250', '0.9996')
    >>> with_digits(-0.0, 3), with_digits(-0.0, 3, zeros=True)
    ('0', '0.00')
    """
    text = f"{value + 0.0:{'#' * zeros}.{digits}g}".rstrip(".")  # without the sign of -0
    is_rounded = value < 1 - 1e-12 and float(text) == 1
    return with_digits(value, digits + 1, zeros=zeros) if is_rounded else text


def with_precision(value: float, error: float, *, digits: int, error_digits: int) -> str:
    """Format a number with at most 17 significant digits, so that the leading digits of its error
    are shown.

    Args:
        value: the number.
        error: its standard deviation, in the same unit.
        digits: minimum number of significant digits, also used if the error is 0 or not finite.
        error_digits: number of digits of the error that are visible in the number.

    >>> with_precision(1000000.12345678, 0.001, digits=6, error_digits=4)
    '1000000.123457'
    >>> with_precision(5.0e-13, 1.0e-13, digits=6, error_digits=4)
    '5e-13'
    """
    if value != 0 and 0 < error < math.inf and math.isfinite(value):
        places = math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
        digits = min(max(digits, places + error_digits), 17)
    return with_digits(value, digits)


def number(value: float | None) -> str:
    """Format a number with three significant digits; None and NaN become a dash. From 100 on,
    it has all digits before the decimal point, with a thousands separator. A number below 1 has
    more digits if three would round it to 1. Magnitudes below 1e-4 and from 1e9 on have an
    exponent.

    >>> number(0.48912), number(0.9999999), number(12345.6), number(1e-7), number(float("nan"))
    ('0.489', '0.9999999', '12,346', '1e-07', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 100 <= abs(value) < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    if value == 0 or 1e-4 <= abs(value) < 100:
        return with_digits(value, 3, zeros=True).replace("-", "−")
    return "−" * (value < 0) + f"{abs(value):.3g}"


def title(text: str, metrics: Mapping[str, float] | None = None) -> str:
    """Format a title of at most two lines, followed by a line with the metrics.

    >>> title("price of a $x$", {"rmse": 0.5})
    'price of a \\\\$x\\\\$\\nRMSE 0.500'
    """
    facts = (f"{METRICS.get(key, key)} {number(at)}" for key, at in (metrics or {}).items())
    return "\n".join(part for part in (heading(text), "   ".join(facts)) if part)
