"""Networks, means of environments, intervals and estimators of atoms and bonds."""

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules import AtomClassifier, AtomRegressor
from gattn.apps.molecules.atoms.predictor import AtomNetwork, GroupedScores
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import MoleculeError, batch_molecules, smiles_to_data

SMALL = {"epochs": 2, "width": 16, "heads": 2, "layers": 1}
SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1")]


def structures(smiles=SMILES):
    return list(map(Chem.MolFromSmiles, smiles))


def atom_values(smiles=SMILES):
    return [[a.GetMass() / 10 for a in molecule.GetAtoms()] for molecule in structures(smiles)]


def bond_values(smiles=SMILES):
    return [[b.GetBondTypeAsDouble() for b in m.GetBonds()] for m in structures(smiles)]


@pytest.mark.parametrize(("level", "rows"), [("atom", 3), ("bond", 2)])
def test_atom_network_does_not_depend_on_the_order_of_atoms_or_the_batch(level, rows):
    torch.manual_seed(0)
    settings = MoleculeSettings(width=16, heads=2, layers=2)
    network = AtomNetwork(settings, level, 2).double().eval()
    one, other = (batch_molecules([smiles_to_data(text)]) for text in ("CCO", "OCC"))
    for batch in (one, other):
        batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()
    first, second = network(one), network(other)
    assert first.shape == (rows, 2)
    torch.testing.assert_close(first, second.flip(0))
    both = batch_molecules([smiles_to_data("N"), smiles_to_data("CCO")])
    both.x, both.edge_attr = both.x.double(), both.edge_attr.double()
    torch.testing.assert_close(network(both)[-rows:], first)


def test_intervals_for_correlated_atoms_have_the_requested_coverage():
    """In this simulation, the errors within a molecule have a common size, and the molecules have 1
    to 40 atoms.
    """
    generator = torch.Generator().manual_seed(0)
    hits = []
    for _ in range(300):
        sizes = torch.randint(1, 41, (41,), generator=generator)
        owner = torch.arange(41).repeat_interleave(sizes)
        scale = torch.rand(41, generator=generator) + (sizes > 30) * 2
        scores = (torch.randn(len(owner), generator=generator) * scale[owner]).abs()
        calibration = owner < 40
        quantile = GroupedScores.fit(scores[calibration], owner[calibration]).quantile(0.8)
        hits.append((scores[~calibration] <= quantile).double().mean())
    assert 0.77 < float(torch.stack(hits).mean()) < 0.86
    assert GroupedScores.fit(torch.ones(3), torch.arange(3)).quantile(0.8) == float("inf")


@pytest.fixture(scope="module")
def model():
    return AtomRegressor(**SMALL).fit(SMILES, atoms={"mass": atom_values()})


def test_loaded_atom_regressor_gives_the_same_predictions_as_the_saved_regressor(model, tmp_path):
    with pytest.warns(UserWarning, match="1 SMILES could not be read"):
        predicted = model.predict(["CCCN", "x", "[H]OCC", "C"])["mass"]
    assert [len(each) for each in predicted] == [4, 0, 4, 1]
    assert np.isnan(predicted[2]).tolist() == [True, False, False, False]
    np.testing.assert_allclose(predicted[2][1:], model.predict(["OCC"])["mass"][0])
    assert abs(predicted[0] - [1.2011, 1.2011, 1.2011, 1.4007]).max() < 0.1
    with pytest.warns(UserWarning, match="1 SMILES could not be read") as record:
        lower, upper = model.predict_interval(["CCCN", "x"])["mass"]
    assert len(record) == 1
    assert (lower[0] <= predicted[0]).all()
    assert (predicted[0] <= upper[0]).all()
    model.save(tmp_path)
    again = AtomRegressor.load(tmp_path)
    assert np.array_equal(again.predict(["CCCN"])["mass"][0], predicted[0])
    assert np.array_equal(again.predict_interval(["CCCN"])["mass"][1][0], upper[0])
    assert model.predict([])["mass"] == []


def test_atom_regressor_accepts_data_frame_with_missing_lists():
    orders = bond_values()
    doubled = [[2 * value for value in values] for values in orders]
    bonds = pd.DataFrame({"order": orders, "doubled": [None, *doubled[1:]]})
    predicted = AtomRegressor(**SMALL).fit(SMILES, bonds=bonds).predict(["CCCN", "C"])
    for name, factor in (("order", 1), ("doubled", 2)):
        assert [len(each) for each in predicted[name]] == [3, 0]
        assert abs(predicted[name][0] - factor).max() < 0.2


def test_atom_regressor_raises_error_for_invalid_options_and_for_invalid_labels_unless_skipped():
    values = [*atom_values(), [1.0], [1.0, 2.0], [None, 2.0]]
    smiles = [*SMILES, "CCO", "(", "CO"]
    with pytest.raises(MoleculeError, match="its list has 1 values, and the molecule has 3"):
        AtomRegressor(**SMALL).fit(smiles, atoms={"mass": values})
    skipping = AtomRegressor(on_error="skip", **SMALL).fit(smiles, atoms={"mass": values})
    assert [row.row for row in skipping.bad_] == [len(SMILES), len(SMILES) + 1]
    assert [row.in_labels for row in skipping.bad_] == [True, False]
    with pytest.raises(ValueError, match="mass must have 2 rows, one for each molecule; got 1"):
        AtomRegressor(**SMALL).fit(["CO", "CN"], atoms={"mass": [[1, 2]]})
    with pytest.raises(ValueError, match="fit needs labels of atoms or of bonds"):
        AtomRegressor(**SMALL).fit(SMILES)
    with pytest.raises(ValueError, match="in the range of float32"):
        AtomRegressor(**SMALL).fit(["CO", "CN"], atoms={"mass": [[1, 1e300], [1, 2]]})
    with pytest.raises(SettingsError, match="loss_function bounded-mse is not available"):
        AtomRegressor(loss_function="bounded-mse", **SMALL).fit(SMILES, atoms={"m": atom_values()})
    with pytest.raises(SettingsError, match="target_transform is not available"):
        AtomRegressor(target_transform="log10", **SMALL).fit(SMILES, atoms={"m": atom_values()})
    with pytest.raises(SettingsError, match="need the model stacked or attention; got gp"):
        AtomRegressor(model="gp", **SMALL).fit(SMILES, atoms={"m": atom_values()})


def test_atom_classifier_predicts_two_and_several_classes(tmp_path):
    symbols = [[a.GetSymbol() for a in m.GetAtoms()] for m in structures()]
    aromatic = [[int(b.GetIsAromatic()) for b in m.GetBonds()] for m in structures()]
    several = AtomClassifier(**SMALL).fit(SMILES, atoms={"element": symbols})
    assert several.task.name == "multiclass"
    assert several.predict(["CCN"])["element"][0].tolist() == ["C", "C", "N"]
    chances = several.predict_proba(["CCN"])["element"][0]
    assert chances.shape == (3, 4)
    assert several.predict(["[H]O"])["element"][0][0] is None
    np.testing.assert_allclose(chances.sum(1), 1)
    two = AtomClassifier(**SMALL).fit(SMILES, bonds={"aromatic": aromatic})
    assert two.task.name == "classification"
    two.save(tmp_path)
    assert AtomClassifier.load(tmp_path).predict(["CN"])["aromatic"][0].tolist() == [0]
