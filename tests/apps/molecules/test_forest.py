"""The forest: scikit-learn's own predictions, trees that did not read a molecule, contributions."""

import pytest
import torch
from torch import Tensor

from gattn.apps.molecules import forest as forest_module
from gattn.apps.molecules.forest import Forest, OutOfBag
from gattn.apps.molecules.model_inputs import MoleculeInputs
from tests.apps.molecules.test_predictor import chains_and_targets


def grown(
    y: Tensor, inputs: MoleculeInputs | None = None, trees: int = 20, **options
) -> tuple[Forest, list[OutOfBag]]:
    inputs = chains_and_targets()[0] if inputs is None else inputs
    defaults = {"groups": torch.arange(len(y)), "seed": 0, "weights": torch.ones(len(y))}
    return Forest.fit(inputs[:60], inputs[60:], y, trees=trees, **(defaults | options))


def test_forest_predictions_equal_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.tree import ExtraTreeRegressor

    fitted: list[ExtraTreeRegressor] = []
    fit = ExtraTreeRegressor.fit

    def note(tree, x, y, weights):
        fitted.append(tree)
        note.x = x if len(x) > 50 else note.x
        return fit(tree, x, y, weights)

    note.x = None
    monkeypatch.setattr(ExtraTreeRegressor, "fit", note)
    inputs, y = chains_and_targets()
    forest, _ = grown(y)
    columns = inputs.counts[:, forest.state()["columns"]].float()
    x = torch.cat([inputs.descriptors, columns], 1).numpy()
    raw = torch.stack([torch.from_numpy(tree.predict(x)) for tree in fitted]).mean(0)
    state = forest.state()
    expected = raw * state["scale"] + state["mean"]
    assert len(fitted) == 20
    torch.testing.assert_close(forest.predict(inputs), expected, atol=1e-5, rtol=1e-5)
    assert forest.predict(inputs[:0]).shape == (0, 2)


def test_out_of_bag_prediction_does_not_depend_on_labels_of_its_group() -> None:
    _, y = chains_and_targets()
    groups = torch.arange(len(y))
    groups[1] = 0
    y[0], y[1] = 20.0, -20.0
    other = y.clone()
    other[0], other[1] = y[1], y[0]
    (_, before), (_, after) = (grown(each, groups=groups) for each in (y, other))
    for one, two in zip(before, after):
        torch.testing.assert_close(one.mean[:2], two.mean[:2])
        assert (two.mean[2:] - one.mean[2:]).abs().nan_to_num(0.0).max() > 1


def test_trees_grown_on_training_labels_do_not_depend_on_validation_labels() -> None:
    _, y = chains_and_targets()
    other = y.clone()
    other[70:] += 50.0
    (_, (few, every)), (_, (few_too, every_too)) = grown(y), grown(other)
    torch.testing.assert_close(few.mean, few_too.mean, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(few.excess, few_too.excess, equal_nan=True, rtol=0, atol=0)
    assert (every.mean - every_too.mean).abs().nan_to_num(0.0).max() > 1


def test_forest_with_weights_and_missing_labels_learns_from_an_extra_column() -> None:
    inputs, y = chains_and_targets()
    extra = torch.randn(len(y), 1, generator=torch.Generator().manual_seed(0)).double()
    described = inputs.described(extra)
    y = torch.cat([y, extra], 1)
    y[::3, 1] = torch.nan
    weights = torch.linspace(0.1, 2, len(y))
    forest, (few, _) = grown(y, described, weights=weights)
    mean = forest.predict(described)
    assert mean.isfinite().all()
    assert (mean[:, 2] - extra[:, 0]).square().mean() < 0.3
    assert few.mean[::3, 1].isnan().all()
    assert few.mean[:, 0].isfinite().double().mean() > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_forest_of_a_sample_of_molecules_learns_each_target_with_few_labels(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(forest_module, "MOST", 20)
    inputs, y = chains_and_targets()
    y[:, 1] = torch.nan
    y[40:43, 1] = torch.tensor([1.0, 2.0, 3.0]).double()
    forest, (_, every) = grown(y, seed=seed)
    assert every.mean.isfinite().sum(0).tolist() == [20, 3]
    assert forest.predict(inputs)[:, 1].isfinite().all()
