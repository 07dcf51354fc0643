"""The predictor: means, standard deviations, components, missing labels and its state."""

from itertools import product

import pytest
import torch
from torch import Tensor

pytest.importorskip("rdkit")

from gattn.apps.fitting.loop import History
from gattn.apps.molecules.baselines import baseline_predictions
from gattn.apps.molecules.evidence import network_prior
from gattn.apps.molecules.fitting import FitPart
from gattn.apps.molecules.folds import assign_folds
from gattn.apps.molecules.inputs import MoleculeInputs, featurise
from gattn.apps.molecules.members import (
    MoleculeBatches,
    cross_fit_members,
    make_network,
    predict_members,
)
from gattn.apps.molecules.network import batch_inputs
from gattn.apps.molecules.prediction import Prediction
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.data import morgan_fingerprints, tanimoto_ridge

CHAINS = [
    f"{head}{'C' * length}{tail}"
    for head, length, tail in product(("O", "N", "F", "OC(=O)"), range(1, 8), ("C", "O", "C#N"))
]
TINY = {"width": 16, "layers": 2, "heads": 4, "epochs": 2}


def chains_and_targets() -> tuple[MoleculeInputs, Tensor]:
    """Return chains and two targets: the number of atoms, and 1 if the first atom is oxygen."""
    inputs = featurise(CHAINS).inputs
    first = torch.tensor([text.startswith("O") for text in CHAINS]).double()
    order = torch.randperm(len(CHAINS), generator=torch.Generator().manual_seed(0))
    y = torch.stack([inputs.molecules.arrays.ptr.diff().double(), first], 1)
    return inputs[order], y[order]


def fitted(y: Tensor, task: Task = "regression", **settings) -> MoleculePredictor:
    inputs, _ = chains_and_targets()
    return MoleculePredictor.fit(
        FitPart(inputs[:60], y[:60]),
        FitPart(inputs[60:], y[60:]),
        task,
        MoleculeSettings(**(TINY | settings)),
    )


def assert_equal(one: Prediction, other: Prediction) -> None:
    for name in ("mean", "std", "member_predictions", "max_train_similarity"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert one.component_means.keys() == other.component_means.keys()
    assert all(
        torch.equal(one.component_means[name], other.component_means[name])
        for name in one.component_means
    )


@pytest.mark.parametrize("model", ["stacked", "attention", "gp"])
def test_a_restored_model_predicts_the_same(model: str) -> None:
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


def test_the_mean_is_that_of_the_parts_and_the_part_that_knows_weighs_more() -> None:
    inputs, y = chains_and_targets()
    predictor = fitted(y)
    prediction, weights = predictor.predict(inputs), predictor.weights
    expected = sum(weights[name] * part for name, part in prediction.component_means.items())
    torch.testing.assert_close(prediction.mean, expected)
    assert sum(weights.values()) == pytest.approx(1)
    # The Gaussian process is better: its descriptors count atoms, and the network was trained for
    # only two epochs.
    assert weights["gp"] > 0.8
    assert (prediction.mean - y)[60:, 0].abs().max() < 0.5
    torch.testing.assert_close(
        prediction.member_predictions.mean(0), prediction.component_means["attention"]
    )


def test_the_unit_of_a_target_is_that_of_mean_and_std() -> None:
    inputs, y = chains_and_targets()
    one, other = (fitted(y * scale + shift).predict(inputs) for scale, shift in ((1, 0), (1e3, 5)))
    torch.testing.assert_close(other.mean, 1e3 * one.mean + 5, rtol=1e-3, atol=1)
    torch.testing.assert_close(other.std, 1e3 * one.std, rtol=1e-2, atol=1)


@pytest.mark.parametrize("model", ["stacked", "gp"])
def test_the_error_of_a_molecule_without_similar_ones_is_that_of_the_labels(model: str) -> None:
    _, y = chains_and_targets()
    predictor = fitted(y[:, :1], model=model)
    far, near = predictor.predict(featurise(["[Na+].[Cl-]", "OCCCC"]).inputs).std[:, 0].tolist()
    assert far > 0.999 * float(y[:60, 0].std(correction=0)) > 3 * near


def test_same_seed_same_numbers() -> None:
    inputs, y = chains_and_targets()
    one, same, other = (fitted(y, seed=seed).predict(inputs) for seed in (0, 0, 1))
    assert_equal(one, same)
    assert not torch.equal(one.member_predictions, other.member_predictions)


def test_members_differ_and_the_first_is_the_network_alone() -> None:
    inputs, y = chains_and_targets()
    several, alone = (
        fitted(y, ensemble=number).predict(inputs).member_predictions for number in (2, 1)
    )
    assert not torch.equal(several[0], several[1])
    assert torch.equal(several[0], alone[0])


def test_classes_with_gaps_are_probabilities() -> None:
    inputs, y = chains_and_targets()
    y = torch.stack([y[:, 1], (y[:, 0] > 6).double()], 1)
    y[::4, 0] = torch.nan
    y[60:, 1] = torch.nan  # The validation part has no label of the second target.
    predictor = fitted(y, "classification")
    prediction = predictor.predict(inputs)
    assert predictor.validation.mean.isfinite().all()
    for probability in (
        prediction.mean,
        prediction.member_predictions,
        *prediction.component_means.values(),
    ):
        assert ((probability >= 0) & (probability <= 1)).all()
    assert ((prediction.mean > 0.5) == (y == 1))[y.isfinite()].double().mean() > 0.9
    assert (prediction.std >= 0).all()


def test_a_validation_part_of_one_class_leaves_the_prior_weight_of_the_network() -> None:
    _, y = chains_and_targets()
    y = y[:, 1:].clone()
    y[60:] = 1
    predictor = fitted(y, "classification")
    prior = network_prior(predictor.validation.max_train_similarity, 60)
    assert predictor.weights["attention"] == pytest.approx(prior)
    assert predictor.history[0].chosen == TINY["epochs"] - 1


def test_nearest_is_the_similarity_to_the_most_similar_training_molecule() -> None:
    inputs, y = chains_and_targets()
    similarity = fitted(y, model="gp").predict(inputs).max_train_similarity
    # The final Gaussian process is also fitted on the validation part.
    assert (similarity == 1).all()
    bits = morgan_fingerprints(inputs.molecules)
    both = bits @ bits[:60].t()
    either = bits.sum(1)[:, None] + bits[:60].sum(1) - both
    nearest = fitted(y, model="gp").validation.max_train_similarity
    torch.testing.assert_close(nearest, (both / either).amax(1)[60:])


@pytest.mark.parametrize("model", ["stacked", "attention", "gp"])
def test_the_validation_part_is_predicted_by_a_model_chosen_without_it(model: str) -> None:
    _, y = chains_and_targets()
    settings = {"model": model, "seed": 1}
    folds = assign_folds(torch.arange(24), seed=1)
    row, other = 60 + int(folds.argmax()), y.clone()  # This is a molecule of the last fold.
    other[row] += torch.tensor([40.0, 3.0])
    predictor = fitted(y, **settings)
    one, two = predictor.validation, fitted(other, **settings).validation
    at = row - 60
    torch.testing.assert_close(two.mean[at], one.mean[at], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(two.std[at], one.std[at], rtol=2e-3, atol=1e-6)
    assert not torch.allclose(
        two.std, one.std, rtol=0.1
    )  # The label is used in the predictions of the other folds.
    assert (one.std > 0).all()
    again = MoleculePredictor.from_state(*predictor.state())
    assert len(again.validation.mean) == 0


def test_each_fold_takes_the_epoch_that_the_others_choose() -> None:
    inputs, y = chains_and_targets()
    val = MoleculeBatches(inputs[60:], y[60:, :1])
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
        [network], [history], val, folds, "regression", MoleculeSettings(**TINY)
    )[0]
    # The weights of epoch 0, which was selected.
    final = predict_members([network], val.inputs, 1)[0]
    assert torch.equal(cross_fitted[folds == 0], final[folds == 0])
    for epoch in (1, 2):
        assert torch.equal(cross_fitted[folds == epoch], (truth + 5).double()[folds == epoch])


def test_rows_of_one_molecule_are_left_out_together() -> None:
    inputs, y = chains_and_targets()
    twice = torch.cat([torch.arange(60, 84), torch.tensor([60, 61])])
    settings = MoleculeSettings(model="gp")
    y = y[:, :1]
    y[60:62] += 5  # No similar molecule has labels of this size.
    fits = [
        MoleculePredictor.fit(
            FitPart(inputs[:60], y[:60]),
            FitPart(inputs[twice], y[twice], groups=groups),
            "regression",
            settings,
        ).validation.mean
        for groups in (None, [str(row) for row in twice.tolist()])
    ]
    errors = [(mean - y[twice]).abs()[[0, 1, 24, 25]] for mean in fits]
    assert (errors[1] > 3).all()
    # Without groups, the copy of a molecule is in another fold and predicts it.
    assert (errors[0] < errors[1]).all()


def test_no_molecules_and_embeddings() -> None:
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


def test_wrong_shapes_and_missing_labels_are_told() -> None:
    inputs, y = chains_and_targets()
    for wrong in (y[:, 0], y[:3]):
        with pytest.raises(ValueError, match=r"y of the training part must be \(84, t\)"):
            MoleculePredictor.fit(
                FitPart(inputs, wrong), FitPart(inputs, y), "regression", MoleculeSettings()
            )
    with pytest.raises(ValueError, match="a label for every target"):
        fitted(torch.cat([y, torch.full_like(y[:, :1], torch.nan)], 1))


def test_a_wrong_state_is_told() -> None:
    _, y = chains_and_targets()
    tensors, facts = fitted(y).state()
    with pytest.raises(ValueError, match="not the state of a model"):
        MoleculePredictor.from_state({}, facts)
    with pytest.raises(ValueError, match="not the state of a model"):
        MoleculePredictor.from_state(tensors, facts | {"targets": 3})
    settings = facts["settings"]
    assert isinstance(settings, dict)
    wrong = {**facts, "settings": {**settings, "width": "many"}}
    with pytest.raises(ValueError, match="width"):
        MoleculePredictor.from_state(tensors, wrong)


def test_settings_are_checked() -> None:
    for wrong in (
        {"model": "forest"}, {"epochs": 0}, {"learning_rate": 0.0}, {"dropout": 1.0},
        {"seed": -1}, {"width": 30}, {"weight_decay": -1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=next(iter(wrong))):
            MoleculeSettings(**wrong)  # type: ignore[arg-type]


def test_baselines_are_the_mean_and_the_ridge_of_what_is_known() -> None:
    inputs, y = chains_and_targets()
    y[::3, 0] = torch.nan
    baselines = baseline_predictions(inputs[:60], y[:60], inputs[60:], "regression")
    torch.testing.assert_close(baselines["mean"][0], y[:60].nanmean(0))
    bits, has_label = morgan_fingerprints(inputs.molecules), y[:60, 0].isfinite()
    expected = tanimoto_ridge(bits[:60][has_label], y[:60, 0][has_label], bits[60:])
    torch.testing.assert_close(baselines["kernel_ridge"][:, 0], expected)
    classes = baseline_predictions(inputs[:60], y[:60, 1:], inputs[60:], "classification")
    assert ((classes["kernel_ridge"] >= 0) & (classes["kernel_ridge"] <= 1)).all()
