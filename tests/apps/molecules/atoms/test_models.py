"""Networks, means of environments, intervals and estimators of atoms and bonds."""

import numpy as np
import pytest
import torch
from rdkit import Chem

from gattn import explain_path
from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules import AtomClassifier, AtomRegressor
from gattn.apps.molecules.atoms.environments import EnvironmentMeans, environment_codes
from gattn.apps.molecules.atoms.intervals import GroupedScores
from gattn.apps.molecules.atoms.mixture import mixture_weights
from gattn.apps.molecules.atoms.network import AtomNetwork
from gattn.apps.molecules.network import batch_inputs
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import MoleculeError, batch_molecules, load_molecules, read_smiles, smiles_to_data

SMALL = {"epochs": 2, "width": 16, "heads": 2, "layers": 1}
SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl", "c1ccccc1")]


def structures(smiles=SMILES):
    return list(map(Chem.MolFromSmiles, smiles))


def atom_values(smiles=SMILES):
    return [[a.GetMass() / 10 for a in molecule.GetAtoms()] for molecule in structures(smiles)]


def bond_values(smiles=SMILES):
    return [[b.GetBondTypeAsDouble() for b in m.GetBonds()] for m in structures(smiles)]


def test_network_does_not_depend_on_the_order_of_atoms_or_on_the_batch():
    torch.manual_seed(0)
    settings = MoleculeSettings(width=16, heads=2, layers=2)
    network = AtomNetwork(settings, {"atom": 2, "bond": 1}).double().eval()
    one, other = (batch_molecules([smiles_to_data(text)]) for text in ("CCO", "OCC"))
    for batch in (one, other):
        batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()
    first, second = network(one), network(other)
    assert first.shape == (3 * 2 + 2, 1)
    torch.testing.assert_close(first[:6].view(3, 2), second[:6].view(3, 2).flip(0))
    torch.testing.assert_close(first[6:], second[6:].flip(0))
    both = batch_molecules([smiles_to_data("N"), smiles_to_data("CCO")])
    both.x, both.edge_attr = both.x.double(), both.edge_attr.double()
    torch.testing.assert_close(network(both)[2:8], first[:6])


def test_path_names_the_reason_for_the_layers():
    network = AtomNetwork(MoleculeSettings(width=16, heads=2), {"atom": 1}).eval()
    report = str(explain_path(network, batch_molecules([smiles_to_data("CO")])))
    assert "the kernel returns molecules, not atoms and bonds" in report


def test_network_of_empty_inputs():
    from gattn.apps.molecules.inputs import featurise

    network = AtomNetwork(MoleculeSettings(width=16, heads=2), {"atom": 1, "bond": 1})
    assert network(batch_inputs(featurise([]).inputs)).shape == (0, 1)
    assert network(batch_inputs(featurise(["[Na+]"]).inputs)).shape == (1, 1)


def neighbourhoods(molecule, radius):
    """Return the SMILES of the bonds within a radius of each atom, as RDKit finds them."""
    texts = []
    for atom in range(molecule.GetNumAtoms()):
        bonds = list(Chem.FindAtomEnvironmentOfRadiusN(molecule, radius, atom, enforceSize=False))
        ends = [molecule.GetBondWithIdx(bond) for bond in bonds]
        near = {atom} | {i for bond in ends for i in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())}
        texts.append(
            Chem.MolFragmentToSmiles(
                molecule, list(near), bondsToUse=bonds, rootedAtAtom=atom, isomericSmiles=False
            )
        )
    return texts


def test_codes_are_equal_only_for_equal_neighbourhoods():
    molecules = load_molecules("chembl2321810")[:40]
    codes = environment_codes(molecules.arrays)["atom"]
    texts = [
        [text for m in map(Chem.MolFromSmiles, molecules.smiles) for text in neighbourhoods(m, r)]
        for r in (1, 2)
    ]
    for radius, each in enumerate(texts, 1):
        by_code: dict[int, set[str]] = {}
        for code, text in zip(codes[radius].tolist(), each, strict=True):
            by_code.setdefault(code, set()).add(text)
        assert all(len(some) == 1 for some in by_code.values())
        assert len(by_code) > 100 * radius
    turned = [environment_codes(read_smiles([text]).arrays) for text in ("CCO", "OCC")]
    assert np.array_equal(turned[0]["atom"], turned[1]["atom"][:, ::-1])
    assert np.array_equal(turned[0]["bond"], turned[1]["bond"][:, ::-1])


def test_means_are_drawn_to_those_of_smaller_environments():
    codes = np.array([[1, 1, 1, 2], [3, 3, 4, 5], [6, 7, 8, 9], [6, 7, 8, 9]])
    y = torch.tensor([[1.0], [2.0], [6.0], [float("nan")]]).double()[..., None]
    fitted = EnvironmentMeans.fit(codes, y)
    assert fitted.overall.item() == 3
    first = (1 + 2 + 6 + 3) / 4
    second = (1 + 2 + first) / 3
    mean, labels, radius = fitted.predict(np.array([[1, 1, 9], [3, 0, 0], [0, 0, 0], [0, 0, 0]]))
    torch.testing.assert_close(mean[:, 0, 0], torch.tensor([second, first, 3.0]).double())
    assert labels[:, 0].tolist() == [2, 3, 0]
    assert radius.tolist() == [1, 0, -1]
    again = EnvironmentMeans.from_state(fitted.state())
    torch.testing.assert_close(again.predict(codes)[0], fitted.predict(codes)[0])


def test_intervals_hold_for_dependent_atoms_of_new_molecules():
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
    labels = {"atoms": {"mass": atom_values()}, "bonds": {"order": bond_values()}}
    return AtomRegressor(**SMALL).fit(SMILES, **labels)


def test_estimator_predicts_lists_and_is_saved(model, tmp_path):
    with pytest.warns(UserWarning, match="1 SMILES could not be read"):
        predicted = model.predict(["CCCN", "x", "[H]OCC", "C"])
    assert [len(each) for each in predicted["mass"]] == [4, 0, 4, 1]
    assert [len(each) for each in predicted["order"]] == [3, 0, 3, 0]
    assert np.isnan(predicted["mass"][2]).tolist() == [True, False, False, False]
    np.testing.assert_allclose(predicted["mass"][2][1:], model.predict(["OCC"])["mass"][0])
    assert abs(predicted["mass"][0] - [1.2011, 1.2011, 1.2011, 1.4007]).max() < 0.1
    lower, upper = model.predict_interval(["CCCN"])["mass"]
    assert (lower[0] <= predicted["mass"][0]).all()
    assert (predicted["mass"][0] <= upper[0]).all()
    model.save(tmp_path)
    again = AtomRegressor.load(tmp_path)
    assert np.array_equal(again.predict(["CCCN"])["mass"][0], predicted["mass"][0])
    assert np.array_equal(again.predict_interval(["CCCN"])["mass"][1][0], upper[0])
    assert model.predict([])["mass"] == []


def test_missing_labels_wrong_lengths_and_bad_smiles(model):
    values = [*atom_values(), [1.0], [1.0, 2.0], [None, 2.0]]
    smiles = [*SMILES, "CCO", "(", "CO"]
    with pytest.raises(MoleculeError, match="mass: its list has 1 values, and the molecule has 3"):
        AtomRegressor(**SMALL).fit(smiles, atoms={"mass": values})
    skipping = AtomRegressor(on_error="skip", **SMALL).fit(smiles, atoms={"mass": values})
    assert [row.row for row in skipping.bad_] == [len(SMILES), len(SMILES) + 1]
    with pytest.raises(SettingsError, match="loss_function bounded-mse is not available"):
        AtomRegressor(loss_function="bounded-mse", **SMALL).fit(SMILES, atoms={"m": atom_values()})
    with pytest.raises(SettingsError, match="target_transform is not available"):
        AtomRegressor(target_transform="log10", **SMALL).fit(SMILES, atoms={"m": atom_values()})
    with pytest.raises(SettingsError, match="need the model stacked or attention; got gp"):
        AtomRegressor(model="gp", **SMALL).fit(SMILES, atoms={"m": atom_values()})


def test_classifier_of_two_and_of_several_classes(tmp_path):
    symbols = [[a.GetSymbol() for a in m.GetAtoms()] for m in structures()]
    aromatic = [[int(b.GetIsAromatic()) for b in m.GetBonds()] for m in structures()]
    several = AtomClassifier(**SMALL).fit(SMILES, atoms={"element": symbols})
    assert several.task == "multiclass"
    assert several.predict(["CCN"])["element"][0].tolist() == ["C", "C", "N"]
    chances = several.predict_proba(["CCN"])["element"][0]
    assert chances.shape == (3, 4)
    np.testing.assert_allclose(chances.sum(1), 1)
    two = AtomClassifier(**SMALL).fit(SMILES, bonds={"aromatic": aromatic})
    assert two.task == "classification"
    two.save(tmp_path)
    assert AtomClassifier.load(tmp_path).predict(["CN"])["aromatic"][0].tolist() == [0]
    both = {"atoms": {"element": symbols}, "bonds": {"aromatic": aromatic}}
    joint = AtomClassifier(**SMALL).fit(SMILES, **both)
    assert joint.predict_proba(["CN"])["aromatic"][0].shape == (1, 2)
    assert joint.predict(["C"])["aromatic"][0].tolist() == []


def test_weights_of_two_parts_minimise_the_error():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(5000, 1, generator=generator).double()
    first, second = (y + s * torch.randn(5000, 1, generator=generator) for s in (1.0, 0.5))
    weights = mixture_weights(first, second, y)
    grid = torch.linspace(0, 1, 1001).double()
    losses = torch.stack([((1 - w) * first + w * second - y).square().sum() for w in grid])
    assert float(weights[1]) == pytest.approx(float(grid[losses.argmin()]), abs=0.003)
    missing = torch.full_like(y, torch.nan)
    assert mixture_weights(first, second, missing).tolist() == [0.5, 0.5]
    assert mixture_weights(first, first, y).tolist() == [0.5, 0.5]
