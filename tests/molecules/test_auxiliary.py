"""Descriptors as additional targets of the networks."""

import pytest
import torch

from gattn.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.auxiliary import AuxiliaryNetwork, descriptor_targets, with_auxiliary
from gattn.molecules.inputs import featurise
from gattn.molecules.members import MoleculeBatches, fit_members
from gattn.molecules.settings import MoleculeSettings
from gattn.training.losses import bounded, squared_error, weighted

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1")]
SMALL = {"epochs": 2, "width": 16, "heads": 2, "layers": 1, "auxiliary_weight": 0.5}


@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("is_bounded", [False, True])
def test_loss_is_the_sum_of_the_mean_losses(has_weights, is_bounded):
    torch.manual_seed(0)
    inputs = featurise(SMILES[:6]).inputs
    y, added, output = torch.randn(6, 2), torch.randn(6, 3), torch.randn(6, 5)
    factors = torch.rand(6).double() + 0.5
    base = bounded(squared_error) if is_bounded else squared_error
    batches = MoleculeBatches(
        inputs, y, bounded=is_bounded, weights=factors if has_weights else None
    ).with_auxiliary(added)
    _, targets = batches.batch(torch.arange(6))
    loss = with_auxiliary(weighted(base) if has_weights else base, 2, 0.5, has_weights=has_weights)
    by_row = factors.float()[:, None] if has_weights else torch.ones(6, 1)
    main = (by_row * (output[:, :2] - y).square()).mean()
    auxiliary = (by_row * (output[:, 2:] - added).square()).mean()
    torch.testing.assert_close(loss(output, targets).mean(), main + 0.5 * auxiliary)
    validation = loss(output[:, :2], targets[:, :2]).mean()
    torch.testing.assert_close(validation, main)


def test_network_has_no_additional_outputs_after_training():
    inputs = featurise(SMILES).inputs
    y = torch.linspace(-1, 1, len(SMILES))[:, None]
    train = MoleculeBatches(inputs[:36], y[:36]).with_auxiliary(descriptor_targets(inputs[:36]))
    val = MoleculeBatches(inputs[36:], y[36:])
    settings = MoleculeSettings(**SMALL)
    networks, histories = fit_members(train, val, "regression", settings)
    batch, _ = val.batch(torch.arange(len(val)))
    output = networks[0](batch)
    assert output.shape == (12, 1)
    outputs = histories[0].outputs
    assert outputs is not None
    torch.testing.assert_close(outputs[histories[0].chosen], output)
    alone, _ = fit_members(MoleculeBatches(inputs[:36], y[:36]), val, "regression", settings)
    assert not torch.equal(alone[0](batch), output)


def test_outputs_depend_on_the_mode():
    network = AuxiliaryNetwork(torch.nn.Identity(), 2)
    assert network.train()(torch.zeros(3, 5)).shape == (3, 5)
    assert network.eval()(torch.zeros(3, 5)).shape == (3, 2)


def test_descriptors_are_standardised():
    values = descriptor_targets(featurise(SMILES).inputs)
    varied = values.std(0, unbiased=False) > 0.1
    torch.testing.assert_close(
        values[:, varied].mean(0), torch.zeros(int(varied.sum())), atol=0.1, rtol=0
    )
    assert values.abs().max() <= 6
    assert values.isfinite().all()


def test_models_are_trained_and_saved(tmp_path):
    y = [float(len(text)) for text in SMILES]
    model = MoleculeRegressor(model="attention", ensemble=2, **SMALL).fit(SMILES, y)
    model.save(tmp_path)
    assert (MoleculeRegressor.load(tmp_path).predict(["CCO"]) == model.predict(["CCO"])).all()
    kinds = ["x" if "O" in text else "y" if "N" in text else "z" for text in SMILES]
    classifier = MoleculeClassifier(model="attention", **SMALL).fit(SMILES, kinds)
    assert classifier.predict_proba(["CCO"]).shape == (1, 3)
