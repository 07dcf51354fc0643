"""Censored labels: their limits in cells and arrays, and their effect on every part of a model."""

import numpy as np
import pytest
import torch

from gattn.apps.fitting.losses import absolute_error, bounded, squared_error
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.arrays import find_bounds
from gattn.apps.molecules.gaussian_process import truncated_mean
from gattn.apps.molecules.runs.config import override
from gattn.apps.tables.numbers import NumberFormat

TINY = {"epochs": 2, "width": 16, "heads": 2, "layers": 1}
SMILES = [f"{'C' * n}{end}" for n in range(1, 25) for end in "ON"]
LENGTH = np.array([float(len(text)) for text in SMILES])
LIMIT = 15.0
CENSORED = np.array([f">{LIMIT:g}" if y > LIMIT else y for y in LENGTH], dtype=object)


def test_cell_with_an_inequality_sign_is_read_as_two_limits():
    for cell, ends in (
        (">10", (10, np.inf)),
        (">= 10", (10, np.inf)),
        ("≤0.5", (-np.inf, 0.5)),
        ("<<1,008", (-np.inf, 1008)),
        ("~3", (3, 3)),
        ("3", (3, 3)),
        ("", (np.nan, np.nan)),
        ("> high", (np.nan, np.nan)),
    ):
        style = NumberFormat(censored="limit", thousands=",")
        assert style.limits(cell) == pytest.approx(ends, nan_ok=True)
        parsed = style.parse(cell)
        if np.isinf(ends).any():
            assert parsed is not None
            assert np.isnan(parsed)


def test_array_with_inequality_signs_is_read_as_limits():
    exact, bounds = find_bounds(np.array([[">10", 1.0], [None, "<2"], ["3", np.nan]], dtype=object))
    assert exact.tolist()[0] == [None, 1.0]
    assert bounds[0].tolist() == [[10, np.inf], [1, 1]]
    assert bounds[1, 1].tolist() == [-np.inf, 2]
    assert bounds[2, 0].tolist() == [3, 3]
    assert np.isnan(bounds[[1, 2], [0, 1]]).all()


def test_bounded_loss_and_its_gradient_are_zero_beyond_the_limit():
    ends = torch.tensor([[[1.0, torch.inf]], [[1.0, torch.inf]], [[2.0, 2.0]]])
    output = torch.tensor([[3.0], [-1.0], [5.0]], requires_grad=True)
    loss = bounded(squared_error)(output, ends)
    assert loss.flatten().tolist() == [0, 4, 9]
    loss.sum().backward()
    assert output.grad is not None
    assert output.grad.flatten().tolist() == [0, -4, 6]
    assert bounded(absolute_error)(output, ends).flatten().tolist() == [0, 2, 3]


def test_truncated_normal_mean_equals_the_mean_of_samples():
    generator = torch.Generator().manual_seed(0)
    draws = 1.0 + 2.0 * torch.randn(1_000_000, generator=generator).double()
    for lower, upper in ((2.0, torch.inf), (-torch.inf, 0.0), (0.0, 4.0)):
        inside = draws[(draws > lower) & (draws < upper)].mean()
        ends = torch.tensor([lower, upper]).double()
        mean = truncated_mean(torch.ones(1).double(), 2 * torch.ones(1).double(), *ends.split(1))
        assert float(mean) == pytest.approx(float(inside), abs=0.01)
    far = truncated_mean(*(torch.tensor([v]).double() for v in (0.0, 1.0, 50.0, torch.inf)))
    assert float(far) == 50.0


@pytest.mark.parametrize("model", ["attention", "gp"])
def test_training_with_lower_limits_increases_predictions_for_limited_molecules(model):
    options = {**TINY, "epochs": 40, "batch_size": 8, "learning_rate": 1e-2, "model": model}
    short = LENGTH <= LIMIT
    waves = np.sin(3 * LENGTH)  # gives no hint that long molecules have large values
    limited = np.where(short, waves.astype(object), ">3")
    dropped = np.where(short, waves, np.nan)
    long = [text for text, is_short in zip(SMILES, short) if not is_short]
    with_limits = MoleculeRegressor(**options, loss_function="bounded-mse").fit(SMILES, limited)
    without = MoleculeRegressor(**options).fit(SMILES, dropped)
    assert with_limits.predict(long).mean() > 2
    assert without.predict(long).mean() < 1.5
    assert np.isfinite(with_limits.score(SMILES, limited))


@pytest.mark.parametrize("loss", ["mae", "bounded-mae", "bounded-mse"])
def test_without_limits_bounded_mse_gives_the_same_predictions_as_mse_and_mae_gives_others(loss):
    model = MoleculeRegressor(**TINY, model="attention", loss_function=loss).fit(SMILES, LENGTH)
    expected = MoleculeRegressor(**TINY, model="attention").fit(SMILES, LENGTH).predict(SMILES)
    assert np.allclose(model.predict(SMILES), expected) == (loss == "bounded-mse")


def test_censored_labels_raise_error_without_a_bounded_loss_or_without_a_measured_value():
    with pytest.raises(ValueError, match="y must contain numbers"):
        MoleculeRegressor(**TINY).fit(SMILES, CENSORED)
    with pytest.raises(ValueError, match="bounded-mse reads censored labels as limits; leave"):
        override(None, {"loss_function": "bounded-mse", "censored": "drop"})
    validation = (SMILES[::5], CENSORED[::5])
    rest = [i for i in range(len(SMILES)) if i % 5]
    model = MoleculeRegressor(**TINY, model="gp", loss_function="bounded-mse")
    model.fit([SMILES[i] for i in rest], CENSORED[rest], validation=validation)
    assert np.isfinite(model.predict(SMILES)).all()
    with pytest.raises(ValueError, match="y has 48 limits such as '>10' and no measured value"):
        MoleculeRegressor(**TINY, loss_function="bounded-mse").fit(SMILES, [">3"] * len(SMILES))
