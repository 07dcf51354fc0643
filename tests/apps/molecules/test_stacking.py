"""Stacking weights and error sizes, against a grid search and known distributions."""

import pytest
import torch

from gattn.apps.molecules.stacking import (
    PRIOR_ROWS,
    fit_mixture,
    fit_shrinkage,
    fit_spread,
    predicted_std,
)


def test_the_weight_is_the_best_on_a_grid() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 200, generator=generator).double() * torch.tensor([[0.5], [0.7]])
    first[::5] = torch.nan
    excess = torch.full((200,), 0.1)
    measured = first.isfinite()
    apart = ((first - second)[measured].square() - 0.1).mean()

    def loss(w: float, rows: float) -> float:
        mixed = ((1 - w) * first + w * second)[measured]
        return float((mixed.square() - w**2 * 0.1).sum() + rows * apart * (w - 0.8) ** 2)

    grid = [each / 1000 for each in range(1001)]
    free, ridge = (min(grid, key=lambda w: loss(w, rows)) for rows in (0.0, PRIOR_ROWS))
    noise = loss(free, 0.0) / int(measured.sum())
    trust = 1 - noise / ((free - 0.8) ** 2 * apart * int(measured.sum()))
    weight = fit_mixture(first, second, 0.8, excess=excess)
    assert 0.2 < weight < 0.8
    assert abs(weight - float(0.8 + trust * (ridge - 0.8))) < 2e-3


def test_a_difference_within_one_standard_error_is_no_evidence() -> None:
    first, second = torch.randn(2, 40, generator=torch.Generator().manual_seed(1)).double()
    free = float((first * (first - second)).sum() / (first - second).square().sum())
    assert fit_mixture(first, second, free + 0.01) == free + 0.01


def test_without_errors_or_differences_the_weight_is_the_prior() -> None:
    error, missing = torch.randn(5), torch.full((5,), torch.nan)
    for first, second in ((missing, error), (error, error), (error[:0], error[:0])):
        assert fit_mixture(first, second, 0.3) == 0.3


def test_a_component_that_is_clearly_better_is_used_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    good = torch.randn(400, generator=generator)
    bad = good + 2 * torch.randn(400, generator=generator).abs() * good.sign()
    assert fit_mixture(good, bad, 0.5) == 0.0
    assert fit_mixture(bad, good, 0.5) == 1.0
    # With few observations, a single component is not chosen.
    assert 0.0 < fit_mixture(good[:15], bad[:15], 0.5) < 0.5


def test_repeated_errors_of_one_group_count_once() -> None:
    first, second = torch.randn(2, 40, generator=torch.Generator().manual_seed(2)).double()
    second = 0.7 * first + 0.6 * second
    groups, prior = torch.arange(40), 0.1
    once = fit_mixture(first, second, prior)
    repeated = [each.repeat(5) for each in (first, second)]
    of_groups = fit_mixture(*repeated, prior, groups=groups.repeat(5))
    assert of_groups == pytest.approx(once, abs=1e-12)
    # As independent observations, the same errors are stronger evidence against the prior weight.
    assert fit_mixture(*repeated, prior) > once + 0.01
    assert fit_mixture(first, second, prior, groups=groups) == once


def test_factors_count_as_repeated_errors() -> None:
    first, second = torch.randn(2, 50, generator=torch.Generator().manual_seed(0))
    factors = torch.ones(50)
    factors[:10] = 3.0
    rows = torch.cat([torch.arange(50), torch.arange(10), torch.arange(10)])
    weighted = fit_mixture(first, second, 0.5, factors=factors / factors.mean())
    repeated = fit_mixture(first[rows], second[rows], 0.5)
    assert abs(weighted - repeated) < 0.1


def test_the_spread_is_that_of_the_errors() -> None:
    generator = torch.Generator().manual_seed(0)
    one, two = torch.rand(2, 3000, 1, generator=generator).double().unbind()
    expected = (0.5 * one + 2 * two).sqrt()
    error = expected * torch.randn(3000, 1, generator=generator).double()
    error[::7] = torch.nan
    sources = torch.stack([one, two])
    predicted = predicted_std(sources, fit_spread(sources, error))
    assert float((predicted / expected - 1).abs().mean()) < 0.05


def test_no_errors_give_a_spread_all_the_same() -> None:
    sources = torch.ones(2, 4, 1)
    for error in (torch.full((4, 1), torch.nan), torch.zeros(4, 1)):
        assert fit_spread(sources, error).flatten().tolist() == [1.0, 1.0]


def test_overconfident_probabilities_are_calibrated_and_never_0_or_1() -> None:
    y = torch.tensor([[1.0, 0.0]]).repeat(50, 1)
    y[::3] = y[::3].flip(1)
    certain = torch.tensor([[1.0, 0.0]]).repeat(50, 1)
    factor, offset = fit_shrinkage(certain, y, (2,))
    mixed = factor * certain + offset
    assert mixed.min() > 0
    torch.testing.assert_close(mixed.sum(1), torch.ones(50).double())
    frequencies = y.mean(0).double()
    loss = -(y * mixed.log()).sum(1).mean()
    assert loss < -(frequencies * frequencies.log()).sum() + 0.01
    assert fit_shrinkage(y, y, (2,))[0] == pytest.approx(50 / 51)
    assert fit_shrinkage(y[:0], y[:0], (2,))[0] == pytest.approx(1)
