"""Explanations: frozen records, faithfulness, tables and pictures."""

import csv
import dataclasses
import math

import pytest
import torch

pytest.importorskip("matplotlib")

from gattn.apps.fitting.tasks import TASKS
from gattn.apps.molecules import MoleculeClassifier
from gattn.apps.molecules.explain import explain
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.runs.explain import colour_scale, describe, write_explanations
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.draw import draw_molecule

CARBONS = ["C" * n + tail for n in range(1, 9) for tail in ("", "O", "N")]


@pytest.fixture(scope="module")
def inputs():
    return featurise(CARBONS).inputs


def fitted(inputs, **settings):
    """Return a model that was fitted to the number of carbon atoms."""
    y = torch.tensor([[float(text.count("C"))] for text in CARBONS], dtype=torch.float64)
    chosen = MoleculeSettings(**{"epochs": 2, "width": 16, "layers": 2, **settings})
    part = FitPart(inputs, y, torch.ones(len(y)))
    return MoleculePredictor.fit(part, part, TASKS["regression"], chosen)


@pytest.fixture(scope="module")
def ridge(inputs):
    return fitted(inputs, model="gp")


@pytest.fixture(scope="module")
def pair(inputs):
    return fitted(inputs, ensemble=2)


def test_explanations_contain_the_same_mean_and_std_as_the_prediction(inputs, pair):
    predicted = pair.predict(inputs)
    explanations = explain(pair, inputs)
    assert len(explanations) == len(inputs)
    for place, explanation in enumerate(explanations):
        assert explanation.smiles == CARBONS[place]
        assert len(explanation.symbols) == len(explanation.weights) == len(explanation.spread)
        assert explanation.prediction == pytest.approx(float(predicted.mean[place, 0]), abs=1e-5)
        assert explanation.std == pytest.approx(float(predicted.std[place, 0]), abs=1e-5)
        with pytest.raises(dataclasses.FrozenInstanceError):
            explanation.target = 1


def test_faithfulness_of_atom_weights_exceeds_that_of_random_atoms(ridge):
    explanations = explain(ridge, featurise(["CCCCCCO", "CCCCCCN"]).inputs)
    assert len(explanations) == 2
    for one in explanations:
        assert "C" in {one.symbols[atom] for atom in one.faithfulness.atoms}
        assert one.faithfulness.top > 0
        assert one.faithfulness.top > one.faithfulness.random


def test_explanation_spread_is_nan_for_one_network_and_finite_for_two(inputs):
    # In a stacked model, the weight of the networks can be 0.
    one, two = (
        explain(fitted(inputs, model="attention", ensemble=number), inputs[[20]])[0].spread
        for number in (1, 2)
    )
    assert one.isnan().all()
    assert two.isfinite().all()
    assert two.max() > 0


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_explanations_of_large_molecules_have_a_table_but_no_picture(tmp_path, ridge):
    explained = explain(ridge, featurise(["CO", "C" * 301]).inputs)
    assert write_explanations(tmp_path / "one", [0, 1], explained, pictures=1) == []
    assert write_explanations(tmp_path, [0, 1], explained) == [1]
    pictures = ["row0.png", "row0.svg"]
    for folder in (tmp_path, tmp_path / "one"):
        assert sorted(path.name for path in folder.glob("row*")) == pictures
    lines = read(tmp_path / "atoms.csv")
    assert len(lines) == 303
    assert {line["spread"] for line in lines} == {""}


@pytest.fixture(scope="module")
def alcohols():
    y = ["alcohol" if text.endswith("O") else "other" for text in CARBONS]
    return MoleculeClassifier(model="gp").fit(CARBONS, y)


def test_explain_describes_the_probability_of_the_predicted_class(alcohols) -> None:
    smiles = ["CCCCO", "CCCCN"]
    for text, one in zip(smiles, alcohols.explain(smiles), strict=True):
        chances = dict(zip(alcohols.classes_, alcohols.predict_proba([text])[0]))
        assert one.prediction == alcohols.predict([text])[0]
        assert one.explained == f"P(y = {one.prediction})"
        assert one.value == pytest.approx(chances[one.prediction], abs=1e-6)
        assert describe(one)[0].startswith(f"predicted {one.prediction}; {one.explained} is ")
    assert {one.prediction for one in alcohols.explain(smiles)} == {"alcohol", "other"}


def test_explanations_of_two_classes_have_opposite_weights(alcohols) -> None:
    (first,), (second,) = (alcohols.explain(["CCO"], label=name) for name in alcohols.classes_)
    torch.testing.assert_close(first.weights, -second.weights)
    assert first.value + second.value == pytest.approx(1)
    assert first.faithfulness.atoms != second.faithfulness.atoms
    with pytest.raises(ValueError, match="must be one of alcohol, other; got ether"):
        alcohols.explain(["CCO"], label="ether")


def test_atom_weights_far_below_the_model_error_are_not_drawn(ridge) -> None:
    (one,) = explain(ridge, featurise(["CCO"]).inputs)
    weights = one.weights.abs().max()
    poor = dataclasses.replace(one, error=float(30 * weights))
    picture = draw_molecule(one.smiles, one.weights, scale=colour_scale([poor]), label=None)
    assert b"ellipse" not in picture
    # One error must count against the weights of many molecules.
    assert colour_scale([poor] * 200) >= poor.error
    strong = dataclasses.replace(one, weights=torch.tensor([0.125, -0.25, 0.0]))
    for error in (0.0, math.nan):
        assert colour_scale([dataclasses.replace(strong, error=error)]) == 0.25
