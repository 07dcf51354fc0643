"""Quantile loss: quantiles of each component, intervals from quantiles, estimators and settings."""

import numpy as np
import pytest
import torch

pytest.importorskip("rdkit")

from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

from gattn.apps.fitting.losses import quantile_error
from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules import AtomRegressor, MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.forest import Forest
from gattn.apps.molecules.quantiles import (
    QuantileIntervals,
    level_name,
    normal_quantiles,
    quantile_metrics,
    sorted_quantiles,
)
from gattn.apps.molecules.runs.columns import prediction_columns
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.molecules.target_transform import TargetTransform
from tests.apps.molecules.test_forest import grown
from tests.apps.molecules.test_predictor import chains_and_targets

LEVELS = (0.1, 0.5, 0.8, 0.9)
SMILES = [f"{'C' * n}{end}" for n in range(1, 31) for end in ("O", "N", "Cl")]
LENGTH = np.array([float(len(text)) for text in SMILES])
TINY = {"epochs": 3, "width": 16, "heads": 2, "layers": 1, "trees": 20}
QUANTILE = {**TINY, "loss_function": "quantile", "quantiles": (0.9, 0.1, 0.8)}
PLAIN = TargetTransform(("none",))


def test_levels_that_are_nearly_equal_have_columns_of_different_names() -> None:
    levels = (0.49999999, 0.5, 0.9999999)
    assert [level_name(level) for level in levels] == [
        "quantile_0.49999999", "quantile_0.5", "quantile_0.9999999",
    ]  # fmt: skip


def skewed(seed: int = 0) -> np.ndarray:
    return LENGTH * (1 + 0.3 * np.random.default_rng(seed).standard_exponential(len(LENGTH)))


def test_the_quantile_loss_is_the_mean_pinball_loss_of_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    output = torch.randn(50, 2 * len(LEVELS), generator=generator).double()
    target = torch.randn(50, 2, generator=generator).double()
    losses = quantile_error(LEVELS)(output, target)
    assert losses.shape == (50, 2)
    for t in range(2):
        expected = [
            mean_pinball_loss(target[:, t], output[:, t * len(LEVELS) + i], alpha=level)
            for i, level in enumerate(LEVELS)
        ]
        assert losses[:, t].mean().item() == pytest.approx(np.mean(expected))


def test_normal_quantiles_are_those_of_scipy():
    mean, variance = torch.tensor([[1.0], [-2.0]]).double(), torch.tensor([[4.0], [0.25]]).double()
    expected = norm.ppf(
        LEVELS, loc=mean.numpy()[..., None], scale=variance.numpy()[..., None] ** 0.5
    )
    assert np.allclose(normal_quantiles(mean, variance, LEVELS), expected)


def test_sorting_does_not_increase_the_quantile_loss():
    crossing = torch.randn(100, len(LEVELS), generator=torch.Generator().manual_seed(1))
    y = torch.zeros(100, 1)
    loss = quantile_error(LEVELS)
    assert (loss(sorted_quantiles(crossing), y) <= loss(crossing, y) + 1e-6).all()


def test_the_quantiles_of_a_forest_are_those_over_its_trees():
    inputs, y = chains_and_targets()
    forest, (few, every) = grown(y, levels=LEVELS)
    state = forest.state()
    block, roots = state["block"], state["0.roots"]
    assert not block.any()  # both targets are predicted by the same trees
    trees = [Forest(state | {"0.roots": root[None]}).predict(inputs).numpy() for root in roots]
    expected = np.quantile(trees, LEVELS, axis=0)
    assert np.allclose(np.moveaxis(forest.quantiles(inputs, LEVELS).numpy(), 2, 0), expected)
    for out in (few, every):
        assert out.quantiles is not None
        measured = out.mean.isfinite()
        assert torch.equal(out.quantiles[..., 1][measured], out.mean[measured])
        assert (out.quantiles.diff(dim=-1)[measured] >= 0).all()
    assert grown(y)[1][0].quantiles is None


def test_the_intervals_have_the_requested_coverage_for_wrong_quantiles():
    generator = torch.Generator().manual_seed(0)
    y = torch.empty(4000, 1).exponential_(generator=generator).double()
    median, std = torch.full_like(y, 0.3), torch.ones_like(y)
    quantiles = torch.tensor([0.2, 0.3, 0.7]).double().expand(4000, 1, 3)
    some, rest = slice(0, 2000), slice(2000, None)
    calibrator = QuantileIntervals.fit(PLAIN, y[some], median[some], quantiles[some], std[some])
    for coverage in (0.5, 0.8, 0.9):
        low, high = calibrator.interval(median[rest], quantiles[rest], std[rest], coverage=coverage)
        assert ((low <= y[rest]) & (y[rest] <= high)).double().mean() == pytest.approx(
            coverage, abs=0.03
        )
        distances = (high - 0.3) / (0.3 - low)
        assert torch.allclose(distances, torch.full_like(distances, 4.0))
    restored = QuantileIntervals.from_state(calibrator.state())
    assert restored.state() == calibrator.state()
    with pytest.raises(ValueError, match="not finite"):
        QuantileIntervals.fit(PLAIN, y, median, quantiles * torch.nan, std)


def test_scores_of_equal_quantiles_are_finite_and_few_rows_give_infinite_intervals():
    y, same = torch.tensor([[1.0], [2.0], [torch.nan]]).double(), torch.ones(3, 1).double()
    calibrator = QuantileIntervals.fit(PLAIN, y, same, same[..., None].expand(-1, -1, 3), same)
    assert calibrator.scores == ((0.0, 100.0),)
    low, high = calibrator.interval(same, same[..., None], same, coverage=0.9)
    assert low.isneginf().all()
    assert high.isposinf().all()


def test_metrics_of_quantiles():
    y = torch.tensor([[0.0], [1.0], [2.0], [torch.nan]]).double()
    quantiles = torch.tensor([0.5, 1.5]).double().expand(4, 1, 2)
    metrics = quantile_metrics(y, quantiles, (0.1, 0.9))
    assert metrics["below"] == {"0.1": pytest.approx(1 / 3), "0.9": pytest.approx(2 / 3)}
    flat = y[:3, 0].numpy()
    expected = [mean_pinball_loss(flat, [q] * 3, alpha=a) for a, q in ((0.1, 0.5), (0.9, 1.5))]
    assert metrics["loss"] == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("model", ["gp", "attention", "stacked"])
@pytest.mark.parametrize("several", [False, True])
def test_quantiles_ascend_and_the_prediction_is_the_median(model, several, tmp_path):
    y = np.c_[skewed(), -skewed(1)] if several else skewed()
    fitted = MoleculeRegressor(model=model, **QUANTILE).fit(SMILES, y)
    assert fitted.quantile_levels == LEVELS
    quantiles = fitted.predict_quantiles(SMILES)
    assert quantiles.shape == (len(SMILES), 2, 4) if several else (len(SMILES), 4)
    assert (np.diff(quantiles) >= 0).all()
    assert np.array_equal(quantiles[..., 1], fitted.predict(SMILES))
    lower, upper = fitted.predict_interval(SMILES, 0.5)
    assert ((lower <= quantiles[..., 1]) & (quantiles[..., 1] <= upper)).all()
    fitted.save(tmp_path / "model")
    loaded = MoleculeRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_quantiles(SMILES), quantiles)
    assert np.array_equal(loaded.predict_interval(SMILES, 0.5), (lower, upper))
    names = [f"quantile_{level:g}" for level in LEVELS]
    expected = ["prediction", "std", "lower", "upper", *names]
    columns = prediction_columns(loaded)
    if not several:
        assert columns == [*expected, "similarity"]
    else:
        assert columns == [*(f"y{t}_{name}" for t in (0, 1) for name in expected), "similarity"]


def test_a_row_that_cannot_be_read_has_no_quantiles():
    fitted = MoleculeRegressor(model="gp", **QUANTILE).fit(SMILES, skewed())
    with pytest.warns(UserWarning, match="could not be read"):
        quantiles = fitted.predict_quantiles(["CCO", "bad("])
    assert np.isnan(quantiles[1]).all()
    assert np.isfinite(quantiles[0]).all()
    other = MoleculeRegressor(model="gp").fit(SMILES, LENGTH)
    with pytest.raises(ValueError, match="need a model with loss_function 'quantile'"):
        other.predict_quantiles(["CCO"])


def test_other_settings_of_the_training():
    options: dict[str, object] = {
        "ensemble": 2, "target_transform": "log10",
    }  # fmt: skip
    fitted = MoleculeRegressor(**QUANTILE, **options)
    weights = np.linspace(0.5, 2, len(SMILES))
    quantiles = fitted.fit(SMILES, skewed(), sample_weight=weights).predict_quantiles(SMILES)
    assert (quantiles > 0).all()
    assert (np.diff(quantiles) >= 0).all()
    assert fitted.predict_interval(SMILES, 0.5)[0].min() > 0
    explanation = fitted.explain(["CCCO"], method="integrated_gradients")[0]
    assert explanation is not None
    assert np.isfinite(explanation.weights.numpy()).all()


def test_a_classifier_ignores_the_setting():
    labels = [text[-1] == "O" for text in SMILES]
    fitted = MoleculeClassifier(model="gp", **QUANTILE).fit(SMILES, labels)
    plain = MoleculeClassifier(model="gp", **TINY).fit(SMILES, labels)
    assert np.array_equal(fitted.predict_proba(SMILES), plain.predict_proba(SMILES))


def test_the_spread_of_the_quantiles_follows_the_spread_of_the_labels():
    generator = np.random.default_rng(0)
    rows = [text for text in SMILES for _ in range(6)]
    is_wide = np.array([text.endswith("O") for text in rows])
    y = np.where(is_wide, 3.0, 0.3) * generator.standard_normal(len(rows))
    options = {"epochs": 40, "batch_size": 32, "learning_rate": 1e-2}
    fitted = MoleculeRegressor(**{**QUANTILE, **options}, model="attention").fit(rows, y)
    quantiles = fitted.predict_quantiles(["CCCCCCO", "CCCCCCN"])
    wide, narrow = quantiles[:, 3] - quantiles[:, 0]
    assert wide > 3 * narrow


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantiles": (0.1, 0.9)}, "are predicted with loss_function quantile"),
        ({"loss_function": "quantile", "quantiles": (0.0, 0.9)}, "above 0 and below 1; got 0, 0.9"),
        ({"loss_function": "quantile", "quantiles": (0.9,)}, "a level below 0.5 and a level above"),
    ],
)
def test_levels_that_are_not_possible(options, message):
    with pytest.raises(SettingsError, match=message):
        MoleculeSettings(**options)
    assert MoleculeSettings(loss_function="quantile").quantile_levels == (0.05, 0.5, 0.95)
    assert MoleculeSettings().quantile_levels == ()


def test_atoms_have_no_quantiles():
    charges = [[0.1] * len(text) for text in ("CC", "CCC", "CCCC")]
    with pytest.raises(SettingsError, match="quantile is not available for targets of atoms"):
        AtomRegressor(loss_function="quantile").fit(["CC", "CCC", "CCCC"], atoms={"c": charges})
