"""All SMILES of one molecule have the same prediction and the same explanation."""

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from gattn.apps.fitting.tasks import TASKS
from gattn.apps.molecules.explain import explain
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.settings import MoleculeSettings
from tests.writings import HABITS, writings

MOLECULES = [
    "C[C@]12CC[C@H]3[C@@H](CCC4=CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O", "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O", "C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1", "F/C=C/F", "F/C=C\\F",
    "c1ccccc1", "[13CH3][C@H](N)C(=O)[18OH]", "[2H]OC([2H])([2H])[C@@H](N)C",
    "[H]/N=C(\\N)c1ccccc1", "[CH3:1][C@H:4](F)[CH2:2]C", "C[S@](=O)c1ccc2nc(NC(=O)OC)[nH]c2c1",
]  # fmt: skip
TOLERANCE = 1e-5
"""Tolerance relative to the target's standard deviation."""


@pytest.fixture(scope="module")
def model():
    """Two networks and a Gaussian process that predict different values for stereoisomers."""
    inputs = featurise(MOLECULES).inputs
    y = torch.tensor([[_target(text)] for text in MOLECULES]).double()
    settings = MoleculeSettings(epochs=6, width=32, layers=3, ensemble=2)
    part = FitPart(inputs, y, torch.ones(len(y)))
    return MoleculePredictor.fit(part, part, TASKS["regression"], settings), float(y.std())


def _target(text):
    molecule = Chem.MolFromSmiles(text)
    return rdMolDescriptors.CalcCrippenDescriptors(molecule)[0] + text.count("@@")


def _apart(one, other):
    return float(np.max(np.abs(np.asarray(one) - np.asarray(other))))


def test_equivalent_smiles_have_the_same_prediction(model):
    predictor, scale = model
    groups = [writings(text, 3 * len(HABITS)) for text in MOLECULES]
    texts = [writing.text for group in groups for writing in group]
    predictions = predictor.predict(featurise(texts).inputs)
    for name in ("mean", "std", "max_train_similarity"):
        values = getattr(predictions, name).reshape(len(groups), -1)
        assert values.shape == (len(MOLECULES), 25)
        spread = values.max(1).values - values.min(1).values
        assert spread.max() <= TOLERANCE * scale, name
    assert (predictions.max_train_similarity == 1).all()


def test_stereoisomers_have_different_predictions(model):
    predictor, scale = model
    mean = predictor.predict(featurise(MOLECULES).inputs).mean[:, 0]
    for one, other in ((2, 3), (4, 5), (6, 7)):
        assert abs(mean[one] - mean[other]) > TOLERANCE * scale


def test_equivalent_smiles_have_the_same_explanation(model):
    predictor, scale = model
    count = len(HABITS)
    groups = [writings(text, count, seed=1) for text in MOLECULES]
    texts = [writing.text for group in groups for writing in group]
    explanations = explain(predictor, featurise(texts).inputs)
    worst = []
    for start, group in zip(range(0, len(texts), count + 1), groups, strict=True):
        reference = explanations[start]
        others = explanations[start + 1 : start + count + 1]
        for explanation, (text, atoms) in zip(others, group[1:], strict=True):
            assert explanation.smiles == text
            numbers = [
                (explanation.weights, reference.weights[atoms]),
                (explanation.spread, reference.spread[atoms]),
                *((part, reference.parts[name][atoms]) for name, part in explanation.parts.items()),
                (explanation.faithfulness.top, reference.faithfulness.top),
                (explanation.faithfulness.random, reference.faithfulness.random),
                (explanation.faithfulness.random_std, reference.faithfulness.random_std),
            ]
            worst.append(max(_apart(a, b) for a, b in numbers))
    assert len(worst) == len(MOLECULES) * count
    assert max(worst) <= TOLERANCE * scale


def test_explained_atoms_are_numbered_in_the_order_of_the_smiles(model):
    predictor, _ = model
    texts = ["[H]OC", "CO", "[2H]C([2H])([2H])O", "[H]/N=C(\\N)c1ccccc1"]
    explanations = explain(predictor, featurise(texts).inputs)
    atoms = [explanation.atoms for explanation in explanations]
    assert atoms == [(1, 2), (0, 1), (1, 4), tuple(range(1, 10))]
    symbols = [explanation.symbols for explanation in explanations[:3]]
    assert symbols == [("O", "C"), ("C", "O"), ("C", "O")]
    assert torch.allclose(explanations[0].weights.flip(0), explanations[1].weights, atol=1e-6)
