"""Stacking weights and error sizes, against a grid search and known distributions."""

import pytest
import torch

from gattn.apps.molecules.forest import OutOfBag
from gattn.apps.molecules.stacking import (
    PRIOR_ROWS,
    Evidence,
    fit_mixture,
    fit_shrinkage,
    fit_spread,
    part_weights,
)


def test_fitted_mixture_weight_equals_the_best_weight_of_a_grid() -> None:
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
    weight = fit_mixture(first, second, 0.8, torch.ones(200), torch.arange(200), excess)
    assert 0.2 < weight < 0.8
    assert abs(weight - float(0.8 + trust * (ridge - 0.8))) < 2e-3


def test_repeated_errors_of_one_group_count_once_in_the_mixture_weight() -> None:
    first, second = torch.randn(2, 40, generator=torch.Generator().manual_seed(2)).double()
    second = 0.7 * first + 0.6 * second
    groups, prior = torch.arange(40), 0.1
    ones, zeros = torch.ones(200), torch.zeros(200)
    once = fit_mixture(first, second, prior, ones[:40], groups, zeros[:40])
    repeated = [each.repeat(5) for each in (first, second)]
    of_groups = fit_mixture(*repeated, prior, ones, groups.repeat(5), zeros)
    assert of_groups == pytest.approx(once, abs=1e-12)
    # As independent observations, the same errors are stronger evidence against the prior weight.
    assert fit_mixture(*repeated, prior, ones, torch.arange(200), zeros) > once + 0.01


def test_shrinkage_calibrates_overconfident_probabilities() -> None:
    y = torch.tensor([[1.0, 0.0]]).repeat(50, 1)
    y[::3] = y[::3].flip(1)
    certain = torch.tensor([[1.0, 0.0]]).repeat(50, 1)
    factor, offset = fit_shrinkage(certain, y, torch.ones(50), (2,))
    mixed = factor * certain + offset
    assert mixed.min() > 0
    torch.testing.assert_close(mixed.sum(1), torch.ones(50).double())
    frequencies = y.mean(0).double()
    loss = -(y * mixed.log()).sum(1).mean()
    assert loss < -(frequencies * frequencies.log()).sum() + 0.01
    assert fit_shrinkage(y, y, torch.ones(50), (2,))[0] == pytest.approx(50 / 51)
    assert fit_shrinkage(y[:0], y[:0], torch.ones(0), (2,))[0] == pytest.approx(1)


def test_weights_of_a_target_with_few_labels_are_near_the_common_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(400, 3, generator=generator).double()
    y[5:, 2] = torch.nan
    kernel, forest = (
        y + torch.tensor(sizes) * torch.randn(400, 3, generator=generator).double()
        for sizes in ((0.2, 1.0, 1.0), (1.0, 0.2, 0.2))
    )
    trees = OutOfBag(forest, torch.zeros(400, 3))
    rows, one = torch.arange(400), torch.ones(3)
    nothing, no_trees = y[:0], OutOfBag(forest[:0], forest[:0])
    evidence = Evidence(kernel, kernel, nothing, trees, no_trees, nothing, y, rows, rows[:0])
    every = torch.ones(0, dtype=torch.bool)
    weights = torch.ones(400), torch.ones(0)
    arguments = (evidence, nothing, nothing, every, one, 0.0, weights, lambda mean: mean)
    _, gaussian, by_forest = part_weights(*arguments)
    assert gaussian[0] > 0.9 > 0.1 > gaussian[1]
    common = part_weights(*arguments, by_target=False)[2, 0]
    assert abs(by_forest[2] - common) < abs(by_forest[1] - common)


@pytest.mark.parametrize("measured", [0, 1, 90])
def test_spread_coefficients_fitted_to_few_validation_errors_are_below_3(measured) -> None:
    draw = torch.Generator().manual_seed(0)
    kernel, gap = torch.rand(590, 1, generator=draw), torch.rand(590, 1, generator=draw)
    # Only the 90 validation molecules at the end have a difference to the network.
    gap[:500] = 0
    error = torch.randn(590, 1, generator=draw) * (kernel + gap).sqrt()
    error[500 + measured :] = torch.nan
    sources = torch.stack([torch.ones(590, 1), kernel, gap])
    coefficients = fit_spread(sources, error, torch.ones(590))
    assert 0 < float(coefficients.min()) <= float(coefficients.max()) < 3
