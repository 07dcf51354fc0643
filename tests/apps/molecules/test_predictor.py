"""The predictor: means, standard deviations, components, missing labels and its state."""

from itertools import product

import pytest
import torch
from torch import Tensor

from gattn.apps.fitting.loop import History
from gattn.apps.fitting.tasks import TASKS
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.members import (
    MoleculeBatches,
    cross_fit_members,
    make_network,
    predict_members,
)
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import batch_inputs
from gattn.apps.molecules.predictor import MoleculePredictor, assign_folds
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.molecules.target_transform import Prediction

CHAINS = [
    f"{head}{'C' * length}{tail}"
    for head, length, tail in product(("O", "N", "F", "OC(=O)"), range(1, 8), ("C", "O", "C#N"))
]
ONES = torch.ones(len(CHAINS))
TINY = {"width": 16, "layers": 2, "heads": 4, "epochs": 2, "trees": 20}


def chains_and_targets() -> tuple[MoleculeInputs, Tensor]:
    """Return chains and two targets: the number of atoms, and 1 if the first atom is oxygen."""
    inputs = featurise(CHAINS).inputs
    first = torch.tensor([text.startswith("O") for text in CHAINS]).double()
    order = torch.randperm(len(CHAINS), generator=torch.Generator().manual_seed(0))
    y = torch.stack([inputs.molecules.arrays.ptr.diff().double(), first], 1)
    return inputs[order], y[order]


def fitted(y: Tensor, task: str = "regression", **settings) -> MoleculePredictor:
    inputs, _ = chains_and_targets()
    parts = (FitPart(inputs[part], y[part], ONES[part]) for part in (slice(60), slice(60, None)))
    return MoleculePredictor.fit(*parts, TASKS[task], MoleculeSettings(**(TINY | settings)))


def assert_equal(one: Prediction, other: Prediction) -> None:
    for name in ("mean", "std", "member_predictions", "max_train_similarity"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert one.component_means.keys() == other.component_means.keys()
    means = other.component_means
    assert all(torch.equal(mean, means[name]) for name, mean in one.component_means.items())


@pytest.mark.parametrize("model", ["stacked", "attention", "gp"])
def test_restored_predictor_gives_the_same_predictions_as_the_original_predictor(
    model: str,
) -> None:
    inputs, y = chains_and_targets()
    predictor = fitted(y, model=model, ensemble=2)
    tensors, facts = predictor.state()
    again = MoleculePredictor.from_state(tensors, facts)
    prediction = predictor.predict(inputs)
    assert_equal(prediction, again.predict(inputs))
    assert prediction.mean.shape == prediction.std.shape == (len(CHAINS), 2)
    assert prediction.member_predictions.shape == (0 if model == "gp" else 2, len(CHAINS), 2)
    assert prediction.mean.dtype == prediction.std.dtype == torch.float64
    assert (prediction.std > 0).all()
    assert len(predictor.history) == len(predictor.networks)


def test_stacked_mean_gives_the_better_component_more_weight() -> None:
    inputs, y = chains_and_targets()
    predictor = fitted(y)
    prediction = predictor.predict(inputs)
    for target in range(2):
        weights = predictor.weights_of(target)
        parts = prediction.component_means.items()
        expected = sum(weights[name] * part[:, target] for name, part in parts)
        torch.testing.assert_close(prediction.mean[:, target], expected)
        assert sum(weights.values()) == pytest.approx(1)
    weights = predictor.weights
    # The Gaussian process is better: its descriptors count atoms, and the network was trained for
    # only two epochs.
    assert weights["gp"] > 0.8
    assert (prediction.mean - y)[60:, 0].abs().max() < 0.5
    torch.testing.assert_close(
        prediction.member_predictions.mean(0), prediction.component_means["attention"]
    )


@pytest.mark.parametrize("model", ["stacked", "gp"])
def test_std_for_a_molecule_unlike_training_molecules_is_the_std_of_the_labels(model: str) -> None:
    _, y = chains_and_targets()
    predictor = fitted(y[:, :1], model=model)
    far, near = predictor.predict(featurise(["[Na+].[Cl-]", "OCCCC"]).inputs).std[:, 0].tolist()
    assert far > 0.999 * float(y[:60, 0].std(correction=0)) > 3 * near


def test_first_network_of_an_ensemble_gives_the_same_predictions_as_a_single_network() -> None:
    inputs, y = chains_and_targets()
    several, alone = (
        fitted(y, model="attention", ensemble=number).predict(inputs).member_predictions
        for number in (2, 1)
    )
    assert not torch.equal(several[0], several[1])
    assert torch.equal(several[0], alone[0])


def test_predictions_of_classes_with_missing_labels_are_probabilities() -> None:
    inputs, y = chains_and_targets()
    y = torch.stack([y[:, 1], (y[:, 0] > 6).double()], 1)
    y[::4, 0] = torch.nan
    y[60:, 1] = torch.nan  # The validation part has no label of the second target.
    predictor = fitted(y, "classification", ensemble=2)
    prediction = predictor.predict(inputs)
    assert predictor.validation.mean.isfinite().all()
    means = prediction.component_means.values()
    for probability in (prediction.mean, prediction.member_predictions, *means):
        assert ((probability >= 0) & (probability <= 1)).all()
    assert ((prediction.mean > 0.5) == (y == 1))[y.isfinite()].double().mean() > 0.9
    network, *others = predictor.weights_of(1).values()
    w = torch.tensor([network / 2, network / 2, *others])[:, None]
    x = torch.stack([*prediction.member_predictions, *list(means)[1:]])[..., 1]
    square = w.sum() * (w * x.square()).sum(0) - (w * x).sum(0).square()
    torch.testing.assert_close(prediction.std[:, 1], square.sqrt(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", ["stacked", "attention", "gp"])
def test_validation_prediction_does_not_depend_on_the_label_of_its_row(model: str) -> None:
    _, y = chains_and_targets()
    settings = {"model": model, "seed": 1}
    folds = assign_folds(torch.arange(24), seed=1)
    row, other = 60 + int(folds.argmax()), y.clone()  # This is a molecule of the last fold.
    other[row] += torch.tensor([40.0, 3.0])
    predictor = fitted(y, **settings)
    one, two = predictor.validation, fitted(other, **settings).validation
    at = row - 60
    torch.testing.assert_close(two.mean[at], one.mean[at], rtol=1e-6, atol=1e-6)
    if model == "attention":  # A Gaussian process predicts the other folds from the label.
        torch.testing.assert_close(two.std[at], one.std[at], rtol=2e-3, atol=1e-6)
    assert not torch.allclose(
        two.std, one.std, rtol=0.1
    )  # The label is used in the predictions of the other folds.
    assert (one.std > 0).all()
    again = MoleculePredictor.from_state(*predictor.state())
    assert len(again.validation.mean) == 0


def test_intervals_are_calibrated_by_leave_out_predictions_of_training_rows() -> None:
    inputs, y = chains_and_targets()
    predictor = fitted(y)
    measured = predictor.left_out[0].isfinite()
    assert measured.double().mean() > 0.9  # The others are in the samples of all trees.
    labels, mean, std = (each[measured] for each in predictor.left_out)
    assert torch.equal(labels, y[:60][measured])
    fitted_errors = predictor.predict(inputs[:60]).mean[measured] - labels
    assert (mean - labels).abs().mean() > fitted_errors.abs().mean()
    assert ((mean - labels) / std).square().mean().sqrt() == pytest.approx(1, abs=0.3)


def test_epoch_of_each_validation_fold_is_selected_by_the_other_folds() -> None:
    inputs, y = chains_and_targets()
    val = MoleculeBatches(inputs[60:], y[60:, :1], ONES[60:])
    network = make_network(MoleculeSettings(**TINY), 1)
    folds = torch.arange(len(val)) % 3
    outputs = torch.zeros(3, len(val), 1)
    truth = y[60:, :1].float()
    # The predictions of epoch 0 are wrong in fold 0 only, and so on. So the other folds select
    # epoch 0 for fold 0.
    for epoch in range(3):
        outputs[epoch] = torch.where((folds == epoch)[:, None], truth + 5, truth)
    history = History((), 0, outputs)
    cross_fitted = cross_fit_members(
        [network], [history], val, folds, TASKS["regression"], MoleculeSettings(**TINY)
    )[0]
    # The weights of epoch 0, which was selected.
    final = predict_members([network], val.inputs, 1)[0]
    assert torch.equal(cross_fitted[folds == 0], final[folds == 0])
    for epoch in (1, 2):
        assert torch.equal(cross_fitted[folds == epoch], (truth + 5).double()[folds == epoch])


def test_leave_out_prediction_of_a_row_omits_all_rows_of_its_molecule() -> None:
    inputs, y = chains_and_targets()
    twice = torch.cat([torch.arange(60, 84), torch.tensor([60, 61])])
    settings = MoleculeSettings(model="gp")
    y = y[:, :1]
    y[60:62] += 5  # No similar molecule has labels of this size.
    train, task = FitPart(inputs[:60], y[:60], ONES[:60]), TASKS["regression"]
    fits = []
    for groups in (None, [str(row) for row in twice.tolist()]):
        val = FitPart(inputs[twice], y[twice], ONES[twice], groups=groups)
        fits.append(MoleculePredictor.fit(train, val, task, settings).validation.mean)
    errors = [(mean - y[twice]).abs()[[0, 1, 24, 25]] for mean in fits]
    assert (errors[1] > 3).all()
    # Without groups, the copy of a molecule is in another fold and predicts it.
    assert (errors[0] < errors[1]).all()


def test_predictions_and_embeddings_of_no_molecules_are_empty() -> None:
    inputs, y = chains_and_targets()
    predictor = fitted(y)
    prediction = predictor.predict(inputs[:0])
    assert prediction.mean.shape == prediction.std.shape == (0, 2)
    assert prediction.member_predictions.shape == (1, 0, 2)
    assert prediction.max_train_similarity.shape == (0,)
    assert predictor.embed(inputs).shape == (len(CHAINS), 5 * TINY["width"])
    assert predictor.embed(inputs[:0]).shape == (0, 5 * TINY["width"])
    two = fitted(y, ensemble=2)
    made_by = [network.embed(batch_inputs(inputs[:3])) for network in two.networks]
    assert two.predict(inputs[:0]).std.shape == (0, 2)
    torch.testing.assert_close(two.embed(inputs[:3]), torch.cat(made_by, 1))
    with pytest.raises(ValueError, match="embed needs a network"):
        fitted(y, model="gp").embed(inputs)


def test_stacked_model_without_trees_states_why_its_forest_is_absent() -> None:
    _, y = chains_and_targets()
    assert list(fitted(y).weights) == ["attention", "gp", "forest"]
    without = fitted(y, trees=0)
    assert list(without.weights) == ["attention", "gp"]
    assert "trees" in without.without_forest
    assert fitted(y, model="gp").without_forest == ""


def test_measured_label_of_one_target_improves_the_prediction_of_the_other_target() -> None:
    inputs, y = chains_and_targets()
    shared = torch.randn(len(y), 1, generator=torch.Generator().manual_seed(1)).double()
    complete = y[:, :1] + shared.expand(-1, 2)
    gaps = complete.clone()
    gaps[::3, 1] = torch.nan
    predictor = fitted(gaps, model="gp")
    unknown = gaps[:, 1].isnan()
    plain, corrected = predictor.predict_transformed(inputs), predictor.predict(inputs)
    before, after = (
        (each.mean - complete)[unknown, 1].square().mean().sqrt() for each in (plain, corrected)
    )
    assert after < 0.7 * before
    assert (corrected.std[unknown, 1] < plain.std[unknown, 1]).all()
    assert torch.equal(corrected.mean[~unknown], plain.mean[~unknown])
    assert torch.equal(corrected.mean[unknown, 0], plain.mean[unknown, 0])
