"""Explanations: frozen records, faithfulness, tables and pictures."""

import csv
import dataclasses
import math

import pytest
import torch

pytest.importorskip("rdkit")
pytest.importorskip("matplotlib")

from gattn.apps.molecules import MoleculeClassifier
from gattn.apps.molecules.attributions import METHODS
from gattn.apps.molecules.explain import DEFAULT_METHOD, explain
from gattn.apps.molecules.explanations import colour_scale, describe, write_explanations
from gattn.apps.molecules.fitting import FitPart
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.predictor import MoleculePredictor
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
    return MoleculePredictor.fit(FitPart(inputs, y), FitPart(inputs, y), "regression", chosen)


@pytest.fixture(scope="module")
def ridge(inputs):
    return fitted(inputs, model="gp")


@pytest.fixture(scope="module")
def pair(inputs):
    return fitted(inputs, ensemble=2)


def test_explanations_are_of_the_prediction(inputs, pair):
    predicted = pair.predict(inputs)
    explanations = explain(pair, inputs)
    assert len(explanations) == len(inputs)
    for place, explanation in enumerate(explanations):
        assert explanation.smiles == CARBONS[place]
        assert explanation.method == DEFAULT_METHOD
        assert len(explanation.symbols) == len(explanation.weights) == len(explanation.spread)
        assert explanation.prediction == pytest.approx(float(predicted.mean[place, 0]), abs=1e-5)
        assert explanation.std == pytest.approx(float(predicted.std[place, 0]), abs=1e-5)
        with pytest.raises(dataclasses.FrozenInstanceError):
            explanation.target = 1


def test_faithful_weights_find_the_atoms_that_count(ridge):
    explanations = explain(ridge, featurise(["CCCCCCO", "CCCCCCN"]).inputs, "masking")
    assert len(explanations) == 2
    for one in explanations:
        assert "C" in {one.symbols[atom] for atom in one.faithfulness.atoms}
        assert one.faithfulness.top > 0
        assert one.faithfulness.top > one.faithfulness.random


def test_the_random_atoms_depend_on_the_seed_alone(inputs, ridge):
    first = [one.faithfulness for one in explain(ridge, inputs[10:14])]
    assert [one.faithfulness for one in explain(ridge, inputs[10:14])] == first
    (alone,) = explain(ridge, inputs[[11]])
    assert alone.faithfulness.random == pytest.approx(first[1].random, abs=1e-6)
    other = [one.faithfulness.random for one in explain(ridge, inputs[10:14], seed=1)]
    assert other != [one.random for one in first]


def test_the_spread_needs_two_networks(inputs):
    # In a stacked model, the weight of the networks can be 0.
    one, two = (
        explain(fitted(inputs, model="attention", ensemble=number), inputs[[20]])[0].spread
        for number in (1, 2)
    )
    assert one.isnan().all()
    assert two.isfinite().all()
    assert two.max() > 0


def test_an_atom_alone_is_explained_by_its_absence(ridge):
    (explanation,) = explain(ridge, featurise(["C"]).inputs, "masking")
    assert explanation.faithfulness.atoms == (0,)
    assert explanation.faithfulness.top == pytest.approx(float(explanation.weights[0]), abs=1e-6)
    assert explanation.faithfulness.random_std == pytest.approx(0.0, abs=1e-9)


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_and_pictures_are_written(tmp_path, inputs, pair):
    some, rows = inputs[[4, 7]], [3, 17]
    explained = {
        method: [
            dataclasses.replace(one, explained="carbons") for one in explain(pair, some, method)
        ]
        for method in METHODS
    }
    assert write_explanations(tmp_path, rows, explained) == []
    atoms, molecules = read(tmp_path / "atoms.csv"), read(tmp_path / "molecules.csv")
    numbers = [int(size) for size in some.molecules.arrays.ptr.diff()]
    assert [int(line["row"]) for line in atoms] == [3] * numbers[0] + [17] * numbers[1]
    assert [int(line["atom"]) for line in atoms] == [*range(numbers[0]), *range(numbers[1])]
    for method in METHODS:
        expected = torch.cat([one.weights for one in explained[method]]).tolist()
        assert [float(line[method]) for line in atoms] == pytest.approx(expected, rel=1e-6)
        assert all(math.isfinite(float(line[f"{method}_spread"])) for line in atoms)
    assert [line["method"] for line in molecules] == [*METHODS, *METHODS]
    assert molecules[0]["smiles"] == CARBONS[4]
    pictures = [*tmp_path.glob("*.svg"), *tmp_path.glob("*.png")]
    assert len(pictures) == 2 * 2 * len(METHODS)
    assert all(path.stat().st_size > 1000 for path in pictures)
    assert {line["explained"] for line in [*atoms, *molecules]} == {"carbons"}
    for line in molecules:
        if line["method"] == "integrated_gradients":
            weights = [float(a[line["method"]]) for a in atoms if a["row"] == line["row"]]
            change = float(line["explained_value"]) - float(line["baseline"])
            assert sum(weights) == pytest.approx(change, abs=1e-4)
    assert len({line["baseline"][:6] for line in molecules if line["baseline"]}) == 1
    assert "contribution to carbons" in (tmp_path / "row17-masking.svg").read_text("utf-8")


def test_one_network_leaves_the_spread_empty_and_large_molecules_have_no_picture(tmp_path, ridge):
    explained = {"masking": explain(ridge, featurise(["CO", "C" * 301]).inputs, "masking")}
    assert write_explanations(tmp_path / "one", [0, 1], explained, pictures=1) == []
    assert write_explanations(tmp_path, [0, 1], explained) == [1]
    pictures = ["row0-masking.png", "row0-masking.svg"]
    for folder in (tmp_path, tmp_path / "one"):
        assert sorted(path.name for path in folder.glob("row*")) == pictures
    lines = read(tmp_path / "atoms.csv")
    assert len(lines) == 303
    assert {line["masking_spread"] for line in lines} == {""}


def test_pictures_are_titled_by_name_or_smiles(tmp_path, ridge):
    texts = ["CCO", "[2H]C([2H])([2H])O", "CN"]
    explained = {"masking": explain(ridge, featurise(texts).inputs, "masking")}

    def titles(folder, rows):
        texts = [(folder / f"row{row}-masking.svg").read_text("utf-8") for row in rows]
        return [text.partition("font-weight='bold'")[2].partition(">")[2][:60] for text in texts]

    write_explanations(tmp_path / "names", [3, 5, 8], explained, titles=["ethanol", "", "<&>"])
    headings = titles(tmp_path / "names", [3, 5, 8])
    assert headings[0].startswith("row 3: ethanol<")
    assert headings[1].startswith(f"row 5: {texts[1]}<")
    assert headings[2].startswith("row 8: &lt;&amp;&gt;<")


def test_tables_number_atoms_as_the_text_does(tmp_path, ridge):
    explained = {"masking": explain(ridge, featurise(["[H]OC", "CO"]).inputs, "masking")}
    write_explanations(tmp_path, [0, 1], explained)
    lines = [(line["row"], line["atom"], line["symbol"]) for line in read(tmp_path / "atoms.csv")]
    assert lines == [("0", "1", "O"), ("0", "2", "C"), ("1", "0", "C"), ("1", "1", "O")]
    best = explained["masking"][1].faithfulness.atoms[0]
    tops = [line["top_atoms"] for line in read(tmp_path / "molecules.csv")]
    assert tops == [str([2, 1][best]), str(best)]


@pytest.fixture(scope="module")
def alcohols():
    y = ["alcohol" if text.endswith("O") else "other" for text in CARBONS]
    return MoleculeClassifier(model="gp").fit(CARBONS, y)


def test_the_probability_of_the_predicted_class_is_explained(alcohols) -> None:
    smiles = ["CCCCO", "CCCCN"]
    for text, one in zip(smiles, alcohols.explain(smiles), strict=True):
        chances = dict(zip(alcohols.classes_, alcohols.predict_proba([text])[0]))
        assert one.prediction == alcohols.predict([text])[0]
        assert one.explained == f"P(y = {one.prediction})"
        assert one.value == pytest.approx(chances[one.prediction], abs=1e-6)
        assert float(one.weights.sum()) == pytest.approx(one.value - one.baseline, abs=1e-4)
        assert describe(one)[0].startswith(f"predicted {one.prediction}; {one.explained} is ")
    assert {one.prediction for one in alcohols.explain(smiles)} == {"alcohol", "other"}


def test_both_classes_have_opposite_weights(alcohols) -> None:
    (first,), (second,) = (alcohols.explain(["CCO"], label=name) for name in alcohols.classes_)
    torch.testing.assert_close(first.weights, -second.weights)
    assert first.value + second.value == pytest.approx(1)
    assert first.faithfulness.atoms != second.faithfulness.atoms
    with pytest.raises(ValueError, match="must be one of alcohol, other; got ether"):
        alcohols.explain(["CCO"], label="ether")


def test_weights_below_the_error_of_the_model_are_not_drawn(ridge) -> None:
    (one,) = explain(ridge, featurise(["CCO"]).inputs)
    weights = one.weights.abs().max()
    poor = dataclasses.replace(one, error=float(30 * weights))
    picture = draw_molecule(one.smiles, one.weights, scale=colour_scale([poor]), label=None)
    assert b"ellipse" not in picture
    # One error must count against the weights of many molecules.
    assert colour_scale([poor] * 200) >= poor.error
