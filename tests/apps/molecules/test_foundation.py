"""Tests of networks that start from a pretrained encoder or from another run."""

import copy

import numpy as np
import pytest
import torch

from gattn.apps.fitting.optimizer import AdamW, OneCycle
from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.members import (
    FINE_TUNING_STARTS,
    HEAD,
    Foundation,
    make_network,
    read_foundation,
    read_foundation_of,
    write_foundation,
)
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.run.model_io import RunError, write_model

SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1")]
Y = [float(len(text)) for text in SMILES]
SMALL = {"model": "attention", "epochs": 2, "width": 16, "heads": 2, "layers": 1}


@pytest.fixture
def encoder(tmp_path):
    folder = tmp_path / "encoder"
    settings = MoleculeSettings(**SMALL, seed=7)
    write_foundation(folder, make_network(settings, 5, seed=7), settings, {"name": "test"})
    return folder


def encoder_of(network):
    return {name: each for name, each in network.named_parameters() if not name.startswith(HEAD)}


def test_every_network_is_initialised_from_the_encoder_and_trained(encoder):
    slow = {**SMALL, "epochs": 6, "learning_rate": 1e-5, "ensemble": 2}
    model = MoleculeRegressor(**slow, from_foundation=str(encoder)).fit(SMILES, Y)
    stored = read_foundation(encoder).tensors
    for network in model.predictor_.networks:
        for name, value in encoder_of(network).items():
            torch.testing.assert_close(value, stored[name], rtol=0, atol=1e-4)
        assert not torch.equal(encoder_of(network)["atoms.weight"], stored["atoms.weight"])


def test_weights_of_a_trained_regressor_initialise_a_classifier(tmp_path):
    first = MoleculeRegressor(**SMALL).fit(SMILES, Y)
    first.save(tmp_path / "run")
    second = MoleculeClassifier(
        **SMALL, learning_rate=1e-6, from_foundation=str(tmp_path / "run")
    ).fit(SMILES, ["O" in text for text in SMILES])
    second.save(tmp_path / "second")
    one, other = (encoder_of(model.predictor_.networks[0]) for model in (first, second))
    torch.testing.assert_close(one["atoms.weight"], other["atoms.weight"], rtol=0, atol=1e-5)
    # A trained model does not read the foundation.
    (tmp_path / "run").rename(tmp_path / "moved")
    loaded = MoleculeClassifier.load(tmp_path / "second")
    assert np.array_equal(loaded.predict_proba(SMILES), second.predict_proba(SMILES))


def test_fine_tuning_trains_only_the_head_in_the_first_tenth_of_steps():
    network = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2) for name in ("body", HEAD[:-1])})
    first = copy.deepcopy(network)
    average = copy.deepcopy(network)
    cycle = OneCycle(0.1, 100, 0.25)
    optimizer = AdamW(
        network, average, cycle, weight_decay=0.0, decay=0.9, starts=FINE_TUNING_STARTS
    )
    changed = {name: [] for name in network}
    for _ in range(11):
        optimizer.zero_grad()
        sum(layer(torch.ones(1, 2)).sum() for layer in network.values()).backward()
        optimizer.step()
        optimizer.update_average()
        for name, layer in network.items():
            changed[name].append(not torch.equal(layer.weight, first[name].weight))
    assert changed == {"body": [False] * 10 + [True], HEAD[:-1]: [True] * 11}


@pytest.mark.parametrize("changes", [{"width": 32}, {"layers": 2}])
def test_foundation_of_another_architecture_raises_error(encoder, changes):
    settings = MoleculeSettings(**{**SMALL, **changes}, from_foundation=str(encoder))
    name, value = next(iter(changes.items()))
    with pytest.raises(ValueError, match=rf"has a network with {name} \w+; got {name} {value}"):
        read_foundation_of(settings)


def test_missing_or_incompatible_foundation_raises_error_with_its_reason(tmp_path):
    with pytest.raises(RunError, match="got nothing"):
        read_foundation("nothing")
    with pytest.raises(SettingsError, match="got model gp"):
        MoleculeSettings(model="gp", from_foundation="x")
    kernel = MoleculeRegressor(model="gp").fit(SMILES, Y)
    kernel.save(tmp_path / "kernel")
    with pytest.raises(RunError, match="contains no network"):
        read_foundation(tmp_path / "kernel")
    for version, entry in ("0", {"featuriser": "0"}), ("1", {}):
        state = {"settings": {}, **entry}
        write_model(tmp_path / version, {"atoms.weight": torch.ones(1)}, {"foundation": state})
        message = f"version {version} of the features of molecules, and .*: train the model again"
        with pytest.raises(RunError, match=message):
            read_foundation(tmp_path / version)


def test_foundation_from_an_atom_model_raises_error() -> None:
    atoms = Foundation("run", MoleculeSettings(), {"atoms.weight": torch.zeros(1)})
    with pytest.raises(ValueError, match="run of atoms or bonds"):
        atoms.check(MoleculeSettings())
