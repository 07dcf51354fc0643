"""Intervals and label sets have the promised coverage over many random draws."""

import math

import pytest
import torch

from gattn.apps.fitting.calibration import probability_reliability
from gattn.apps.fitting.conformal import IntervalCalibrator, LabelSetCalibrator, quantile

DRAWS = 2000


def draws(seed: int, rows: int, targets: int = DRAWS) -> tuple[torch.Tensor, ...]:
    """Return values whose errors have heavy tails and are three times as large as predicted."""
    generator = torch.Generator().manual_seed(seed)
    std = torch.rand(rows, targets, generator=generator, dtype=torch.float64) + 0.2
    mean, noise, *squares = torch.randn(5, rows, targets, generator=generator, dtype=torch.float64)
    chi = torch.stack(squares).square().mean(0).sqrt()
    return mean + 3 * std * noise / chi, mean, std


@pytest.mark.parametrize("rows", [10, 19, 64])
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9])
def test_calibrated_intervals_have_the_requested_coverage(rows, coverage) -> None:
    """Each target is a random draw of a calibration part and of a new row. Half of the targets have
    missing labels.
    """
    y, mean, std = draws(rows, rows + 1, 2 * DRAWS)
    y[: rows // 5, DRAWS:] = math.nan
    calibrator = IntervalCalibrator.fit(y[:-1], mean[:-1], std[:-1])
    low, high = calibrator.interval(mean[-1:], std[-1:], coverage=coverage)
    shares = ((low <= y[-1:]) & (y[-1:] <= high)).double().reshape(2, DRAWS).mean(1)
    noise = 4 * math.sqrt(coverage * (1 - coverage) / DRAWS)
    for share, labelled in zip(shares, (rows, rows - rows // 5), strict=True):
        assert coverage - noise <= share <= coverage + 1 / (labelled + 1) + noise


@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_label_sets_have_the_requested_coverage_for_a_rare_class(coverage) -> None:
    """The new row is of class 0 in the first half of the draws, and of class 1 in the second."""
    y = torch.zeros(81, 2 * DRAWS, dtype=torch.float64)
    y[:15], y[-1, DRAWS:] = 1, 1
    generator = torch.Generator().manual_seed(1)
    p = torch.sigmoid(torch.randn(y.shape, generator=generator, dtype=torch.float64) + 2 * y - 2)
    probability = torch.stack([1 - p, p], 2)
    calibrator = LabelSetCalibrator.fit(y[:-1], probability[:-1].unbind(1))
    sets = calibrator.sets(probability[-1:].unbind(1), coverage=coverage)
    shares = sets[0].gather(1, y[-1, :, None].long()).double().reshape(2, DRAWS).mean(1)
    noise = 4 * math.sqrt(coverage * (1 - coverage) / DRAWS)
    for share, rows in zip(shares, (65, 15), strict=True):
        assert coverage - noise <= share <= coverage + 1 / (rows + 1) + noise


def test_conformal_quantile_of_n_scores_has_the_rank_of_coverage_times_n_plus_1() -> None:
    scores = [float(i) for i in range(1, 101)]
    assert quantile(scores[:9], 0.9) == 9.0  # The rank is ⌈10 · 0.9⌉ = 9.
    assert quantile(scores[:8], 0.9) == math.inf
    assert quantile(scores[:99], 0.9) == 90.0
    assert quantile(scores, 0.9) == 91.0
    assert quantile([], 0.5) == math.inf
    # In floating point, a product such as 0.07 * 100 may be slightly above the integer that it
    # should be. The rank must not be rounded up then.
    for n in range(1, 300):
        for percent in range(1, 100):
            rank = -(-(n + 1) * percent // 100)
            expected = float(rank) if rank <= n else math.inf
            assert quantile(range(1, n + 1), percent / 100) == expected


def test_calibrator_raises_error_for_invalid_labels_predictions_or_coverage() -> None:
    one, nan = torch.ones(3, 1), torch.full((3, 1), math.nan)
    for bad in (torch.zeros(3, 1), nan, -one):
        with pytest.raises(ValueError, match="std that is not positive"):
            IntervalCalibrator.fit(one, one, bad)
    # Without labels, the calibrator cannot be wrong, so there is no error.
    IntervalCalibrator.fit(nan, nan, nan)
    calibrator = IntervalCalibrator.fit(one, one, one)
    with pytest.raises(ValueError, match=r"must be \[k, 1\], all equal; got \(3, 2\)"):
        calibrator.interval(torch.ones(3, 2), torch.ones(3, 2))
    for coverage in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="coverage must be above 0 and below 1"):
            calibrator.interval(one, one, coverage=coverage)
    with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
        LabelSetCalibrator.fit(2 * one, [torch.ones(3, 2)])
    with pytest.raises(ValueError, match=r"not in \[0, 1\]"):
        LabelSetCalibrator.fit(one, [2 * torch.ones(3, 2)])


def test_observed_frequencies_of_true_probabilities_are_near_the_expected_frequencies() -> None:
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(20_000, 2, generator=generator)
    y = (torch.rand(20_000, 2, generator=generator) < p).double()
    y[::3] = math.nan
    table = probability_reliability(y, p)
    assert sum(table.count) == int((~y.isnan()).sum())
    assert len(table.count) == 10
    assert table.observed == pytest.approx(table.expected, abs=0.04)
    wrong = probability_reliability(y, p**2)
    assert wrong.observed != pytest.approx(wrong.expected, abs=0.1)
    # A probability of 1 belongs to the last bin, and empty bins are omitted.
    edge = probability_reliability(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]))
    assert edge.expected == edge.observed == (0.0, 1.0)
    empty = probability_reliability(torch.tensor([math.nan]), torch.tensor([0.5]))
    assert empty.count == ()
