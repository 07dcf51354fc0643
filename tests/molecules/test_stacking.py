"""Stacking weights and error sizes, against a grid search and known distributions."""

import torch

from gattn.molecules.stacking import EQUAL_ROWS, combine, fit_spread, fit_weights, predicted_std


def test_weights_are_the_best_on_a_grid() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(200, 2, generator=generator).double()
    y[::5, 1] = torch.nan
    noise = torch.randn(3, 200, 2, generator=generator)
    parts = y.nan_to_num() + noise * torch.tensor([0.3, 0.5, 2.0])[:, None, None]
    has_label = y.isfinite()
    apart = (parts[:, has_label] - parts[:, has_label].mean(0)).square().mean()

    def loss(w: torch.Tensor) -> float:
        miss = (y - combine(parts, w))[has_label].square().sum() / apart
        return float(miss + EQUAL_ROWS * (w - 1 / 3).square().sum())

    weights = fit_weights(parts, y)
    grid = [
        torch.tensor([a, b, 100 - a - b]).double() / 100 for a in range(101) for b in range(101 - a)
    ]
    assert weights.min() >= 0
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0).double())
    assert loss(weights) <= min(map(loss, grid)) + 1e-9


def test_without_labels_or_differences_weights_are_equal() -> None:
    parts = torch.randn(2, 5, 1)
    assert fit_weights(parts, torch.full((5, 1), torch.nan)).tolist() == [0.5, 0.5]
    assert fit_weights(parts[:1].expand(2, -1, -1), torch.randn(5, 1)).tolist() == [0.5, 0.5]
    assert fit_weights(parts, torch.ones(5, 1)).tolist() == [0.5, 0.5]
    assert fit_weights(parts[:1], torch.randn(5, 1)).tolist() == [1.0]


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
