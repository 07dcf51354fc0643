"""Conformal prediction: prediction intervals and sets of classes with a guaranteed coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from gattn.apps.fitting.settings import check_fraction

Self = TypeVar("Self", bound="_Calibrator")


@dataclass(frozen=True)
class _Calibrator:
    """Base class of calibrators, which store the conformal scores of a calibration part."""

    scores: tuple[Any, ...]

    def state(self) -> dict[str, Any]:
        """Return the attributes as JSON values, from which :meth:`from_state` restores the
        calibrator.
        """
        return dict(vars(self))

    @classmethod
    def from_state(cls: type[Self], state: Mapping[str, Any]) -> Self:
        """Restore a calibrator from the result of :meth:`state`, possibly after a conversion to
        JSON. Raises KeyError if it has no scores.
        """
        return cls(_as_tuples(state["scores"]))


@dataclass(frozen=True)
class IntervalCalibrator(_Calibrator):
    """Calibrator of prediction intervals, based on the errors on a calibration part.

    This is split conformal prediction with normalised scores. The scores of n calibration rows with
    predictions m_i and standard deviations s_i are

        r_i = |y_i - m_i| / s_i

    and the interval of a new row is m ± q s, where q is the ⌈(n + 1) coverage⌉-th smallest score,
    or infinite if n is too small to guarantee that coverage.

    **Guarantee.** If the calibration rows and a new row are exchangeable (from one distribution, in
    any order) and the model was not trained on either, the interval contains the new y with a
    probability of at least ``coverage``, and of at most coverage + 1/(n + 1) if no two scores are
    equal. The probability is a mean over calibration parts and new rows, not a guarantee for
    special kinds of rows. For one calibration part, the fraction of covered rows varies around
    this mean with a standard deviation of about sqrt(coverage (1 - coverage) / n). The guarantee
    does not apply to rows from another distribution. If the calibration rows were also used to
    choose the model's epoch, their scores are too small, unless the predictions are cross-fitted.

    Attributes:
        scores: for each of t targets the scores of its measured calibration rows, ascending.

    References:
        Papadopoulos et al., "Inductive Confidence Machines for Regression" (ECML 2002);
        Lei et al., "Distribution-Free Predictive Inference for Regression" (JASA 2018).

    Example:
        >>> y = torch.arange(19.0)[:, None]
        >>> calibrator = IntervalCalibrator.fit(y, torch.zeros(19, 1), torch.ones(19, 1))
        >>> low, high = calibrator.interval(torch.zeros(1, 1), torch.ones(1, 1), coverage=0.9)
        >>> low.item(), high.item()
        (-17.0, 17.0)
    """

    scores: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, y: Tensor, mean: Tensor, std: Tensor) -> IntervalCalibrator:
        """Create a calibrator from the errors on a calibration part.

        Args:
            y: [n, t] in any unit or scale; NaN for a target that was not measured.
            mean: [n, t] predictions on the same scale.
            std: [n, t] positive standard deviations of the predictions' errors.

        Returns:
            The calibrator. A target without a measured row has infinite intervals.

        Raises:
            ValueError: the shapes differ, y is infinite, or a measured row has a prediction that
                is not finite or a standard deviation that is not positive.
        """
        _alike("y, mean and std must be [n, t]", y, mean, std)
        if y.isinf().any():
            raise ValueError("y must be finite or NaN; it has an infinite value")
        labelled = ~y.isnan()
        usable = mean.isfinite() & std.isfinite() & (std > 0)
        if not usable[labelled].all():
            raise ValueError(
                "a measured row has a mean that is not finite or a std that is not positive"
            )
        scores = (y.double() - mean.double()).abs() / std.double()
        return cls(tuple(_ascending(s[k]) for s, k in zip(scores.T, labelled.T)))

    def interval(
        self, mean: Tensor, std: Tensor, *, coverage: float = 0.9
    ) -> tuple[Tensor, Tensor]:
        """Return the lower and upper ends of the prediction intervals.

        Args:
            mean: [k, t] predictions.
            std: [k, t] standard deviations of the predictions' errors.
            coverage: the requested probability, in (0, 1).

        Returns:
            The lower and the upper ends, both [k, t] float64. They are NaN for predictions that
            are NaN, and infinite if there are too few calibration rows for the coverage.

        Raises:
            ValueError: the shapes do not match, or the coverage is not in (0, 1).
        """
        _alike(f"mean and std must be [k, {len(self.scores)}]", mean, std, t=len(self.scores))
        factor = torch.tensor([quantile(one, coverage) for one in self.scores]).double()
        half = factor.to(mean.device) * std.double()
        return mean.double() - half, mean.double() + half


@dataclass(frozen=True)
class LabelSetCalibrator(_Calibrator):
    """Calibrator of sets of classes that contain the true class. Each class is calibrated
    separately.

    The scores of the n_c calibration rows of class c are r_i = 1 - p_i(c). The set of a new row
    contains every class c with 1 - p(c) ≤ q_c, where q_c is the ⌈(n_c + 1) coverage⌉-th smallest
    score of the class, or infinite if n_c is too small to guarantee that coverage. A set of all
    classes means that the model cannot distinguish them for this row. An empty set means that the
    row is unlike the calibration rows of every class.

    **Guarantee.** If the calibration rows and a new row are exchangeable within each class and the
    model was not trained on either, the set contains the true class with a probability of at least
    ``coverage``, for every class, also for rare ones. As for intervals, the probability is a mean
    over rows and calibration parts, and the guarantee does not apply to rows from another
    distribution.

    Attributes:
        scores: for each of t targets and each of c classes the scores of the class, ascending.

    References:
        Vovk, "Conditional Validity of Inductive Conformal Predictors" (ACML 2012);
        Norinder et al., "Introducing Conformal Prediction in Predictive Modeling" (JCIM 2014).

    Example:
        >>> p = torch.linspace(0.05, 0.95, 40)[:, None]
        >>> y = (p > 0.5).double()
        >>> calibrator = LabelSetCalibrator.fit(y, [torch.cat([1 - p, p], 1)])
        >>> calibrator.sets([torch.tensor([[0.9, 0.1]])], coverage=0.9)
        tensor([[[ True, False]]])
    """

    scores: tuple[tuple[tuple[float, ...], ...], ...]

    @classmethod
    def fit(cls, y: Tensor, probability: Sequence[Tensor]) -> LabelSetCalibrator:
        """Create a calibrator from the predicted probabilities on a calibration part.

        Args:
            y: [n, t] classes, numbered from 0; NaN for missing labels.
            probability: for each of t targets [n, c], the predicted probability of each class.

        Returns:
            The calibrator. A class without calibration rows is in every set.

        Raises:
            ValueError: the shapes do not match, a label is not the number of a class, or a
                probability of a labelled row is not in [0, 1].
        """
        targets = []
        for label, chances in zip(y.T, probability, strict=True):
            if chances.dim() != 2 or len(chances) != len(label):
                raise ValueError(
                    f"y must be [n, t] and the probabilities [n, c]; got {(*y.shape,)} and "
                    f"{(*chances.shape,)}"
                )
            classes, labelled = chances.shape[1], ~label.isnan()
            numbers = label[labelled]
            if not ((numbers >= 0) & (numbers < classes) & (numbers == numbers.round())).all():
                raise ValueError(f"labels must be whole numbers from 0 to {classes - 1}, or NaN")
            if not ((chances[labelled] >= 0) & (chances[labelled] <= 1)).all():
                raise ValueError("a probability of a labelled row is not in [0, 1]")
            scores = 1 - chances.double()
            targets.append(tuple(_ascending(scores[label == c, c]) for c in range(classes)))
        return cls(tuple(targets))

    def sets(self, probability: Sequence[Tensor], *, coverage: float = 0.9) -> Tensor:
        """Return the set of classes for each row.

        Args:
            probability: for each of t targets [k, c], the predicted probability of each class.
            coverage: the requested probability, in (0, 1).

        Returns:
            [k, t, c] bool for the largest number c of classes; False beyond the classes of a
            target. The set is empty if the probabilities are NaN.

        Raises:
            ValueError: the shape does not fit, or the coverage is not in (0, 1).
        """
        width = max(map(len, self.scores))
        sets = torch.zeros(len(probability[0]), len(self.scores), width, dtype=torch.bool)
        for i, (chances, scores) in enumerate(zip(probability, self.scores, strict=True)):
            if chances.dim() != 2 or chances.shape[1] != len(scores):
                raise ValueError(
                    f"probabilities must be [k, {len(scores)}]; got {(*chances.shape,)}"
                )
            bounds = torch.tensor([quantile(each, coverage) for each in scores]).double()
            sets[:, i, : len(scores)] = 1 - chances.double() <= bounds
        return sets

    def in_every_set(self, coverage: float, classes: Mapping[str, Sequence[object]]) -> list[str]:
        """Return the names of the classes that have too few calibration rows for a coverage.

        Such classes are in every set, independent of the probabilities. With several targets, a
        name is ``CLASS of TARGET``. The coverage needs :func:`least_rows` calibration rows of each
        class. ``classes`` are the classes by target, in the order in which they were calibrated.
        Raises ValueError unless the coverage is in (0, 1).
        """
        rows, several = least_rows(coverage), len(classes) > 1
        return [
            f"{name} of {target}" if several else str(name)
            for (target, names), one in zip(classes.items(), self.scores)
            for name, scores in zip(names, one)
            if len(scores) < rows
        ]


def quantile(ascending: Sequence[float], coverage: float) -> float:
    """Return the k-th smallest of n scores, where k = ⌈(n + 1) coverage⌉; return infinity if k
    exceeds n.

    With this rank, a new score from the same distribution is at most the result with a
    probability of at least ``coverage``, for every n; the rank ⌈n coverage⌉ would be too small.

    Args:
        ascending: the n scores in ascending order.
        coverage: the requested probability, in (0, 1).

    Returns:
        A score, or infinity.

    Raises:
        ValueError: the coverage is not in (0, 1).

    Example:
        >>> quantile([1.0, 2.0, 3.0, 4.0], 0.8), quantile([1.0, 2.0, 3.0, 4.0], 0.9)
        (4.0, inf)
    """
    check_fraction("coverage", coverage)
    # A small number is subtracted before rounding up: if the product should be an integer, rounding
    # errors could make it slightly larger, and the rank would be too large by 1.
    rank = math.ceil((len(ascending) + 1) * coverage - 1e-9)
    return ascending[rank - 1] if rank <= len(ascending) else math.inf


def least_rows(coverage: float) -> int:
    """Return the minimum number of calibration rows for which a coverage can be guaranteed.

    The result is the smallest n with ⌈(n + 1) coverage⌉ ≤ n, see :func:`quantile`. Raises
    ValueError unless the coverage is in (0, 1).

    Example:
        >>> least_rows(0.9), least_rows(0.8), least_rows(0.99)
        (9, 4, 99)
    """
    check_fraction("coverage", coverage)
    return max(math.ceil(coverage / (1 - coverage) - 1e-9), 1)


def too_few(classes: Sequence[str], coverage: float, item: str, least: int | None = None) -> str:
    """Return a sentence on the classes that are in every set because they have too few calibration
    rows, and how to change that.

    Args:
        classes: the names of such classes; the sentence has the first five.
        coverage: the requested coverage.
        item: plural noun of the rows.
        least: number of calibration rows of the class that has the fewest; None if it is unknown.

    >>> too_few(["toxic"], 0.9, "nodes", 4)  # doctest: +NORMALIZE_WHITESPACE
    'Every set contains toxic, because this coverage needs at least 9 validation nodes of each
    class. Use more labelled nodes, or a --coverage of up to 0.8.'
    """
    names = ", ".join([*classes[:5], *["..."] * (len(classes) > 5)])
    lower = ", or a lower --coverage" if least is None else ""
    if least:
        lower = f", or a --coverage of up to {greatest_coverage(least)}"
    return (
        f"Every set contains {names}, because this coverage needs at least "
        f"{least_rows(coverage):,} validation {item} of each class. Use more labelled "
        f"{item}{lower}."
    )


def greatest_coverage(rows: int) -> float:
    """Return the greatest coverage, rounded down to a percentage, for which a number of calibration
    rows is sufficient.

    >>> greatest_coverage(9), greatest_coverage(6), least_rows(greatest_coverage(6))
    (0.9, 0.85, 6)
    """
    return (100 * rows // (rows + 1)) / 100


def _as_tuples(scores: Any) -> Any:
    return float(scores) if isinstance(scores, int | float) else tuple(map(_as_tuples, scores))


def _ascending(scores: Tensor) -> tuple[float, ...]:
    return tuple(scores.sort().values.tolist())


def _alike(expected: str, *tensors: Tensor, t: int | None = None) -> None:
    """Raise ValueError, whose message begins with ``expected``, unless the tensors have the same
    shape [k, t]. With ``t`` None, any number of columns is allowed.
    """
    shapes = [(*tensor.shape,) for tensor in tensors]
    if len(set(shapes)) > 1 or len(shapes[0]) != 2 or t not in (None, shapes[0][1]):
        raise ValueError(f"{expected}, all equal; got {' and '.join(map(str, shapes))}")
