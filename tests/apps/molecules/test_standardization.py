"""A model with standardisation treats a salt as its parent, in every use."""

import warnings

import numpy as np
import pytest

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.estimators import MoleculeEstimator
from gattn.apps.molecules.loading import load_model
from gattn.apps.molecules.runs.predict import InputRow, predict_rows
from gattn.apps.serve.molecules import explain_molecule

ACIDS = [f"{'C' * n}C(=O)O" for n in range(1, 25)]
AMINES = [f"{'C' * n}N" for n in range(1, 25)]
FORMS = ["CCCC(=O)O", "CCCC(=O)[O-].[Na+]", "O.CCCC(=O)O[K]"]


@pytest.fixture(scope="module")
def model() -> MoleculeEstimator:
    model = MoleculeRegressor(
        epochs=1, width=16, heads=2, layers=1, standardize=("neutral", "largest-fragment")
    )
    return model.fit(ACIDS + AMINES, [*range(24), *range(10, 34)])


@pytest.mark.bits
@pytest.mark.usefixtures("uneven_products")
def test_standardised_salt_and_parent_have_the_same_prediction(model):
    mean, std = model.predict(FORMS, return_std=True)
    assert mean[0] == mean[1] == mean[2]
    assert std[0] == std[1] == std[2]
    vectors = model.embed(FORMS)
    assert (vectors == vectors[:1]).all()
    first, *others = model.explain(FORMS)
    for other in others:
        assert other.prediction == pytest.approx(first.prediction, rel=1e-6)
        np.testing.assert_allclose(sorted(other.weights), sorted(first.weights), atol=1e-6)


def test_loaded_model_standardises_molecules_before_prediction(model, tmp_path):
    model.save(tmp_path)
    again, card = load_model(tmp_path)
    assert card["parameters"]["standardize"] == ["neutral", "largest-fragment"]
    input_rows = [InputRow(smiles) for smiles in FORMS]
    rows = predict_rows(again, input_rows, 0.9)
    assert rows[0] == rows[1] == rows[2]
    explained = [explain_molecule(again, one, 0, 0.9) for one in input_rows]
    assert explained[0].nearest == explained[1].nearest == explained[2].nearest
    assert explained[1].explanation.smiles == "CCCC(=O)O"


def test_salt_and_free_base_of_one_molecule_are_in_one_split():
    smiles = [form for n in range(2, 22) for form in (f"{'C' * n}N", f"Cl.{'C' * n}N")]
    model = MoleculeRegressor(model="gp", standardize=["largest-fragment"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(smiles, np.repeat(np.arange(20.0), 2))
    assert len(model.seen_) == 20
