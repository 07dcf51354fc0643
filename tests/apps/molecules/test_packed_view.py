"""Tests of packed inputs: molecules remain packed, and their storage does not change a training."""

import pytest
import torch

from gattn.apps.molecules import inputs
from gattn.apps.molecules.fitting import FitPart
from gattn.apps.molecules.inputs import ExpandedInputs, featurise
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.settings import MoleculeSettings

SMILES = ["CCO", "(", "c1ccccc1", "[Na+].[Cl-]", "", "*", "C" * 300, "F/C=C/F", "N[C@@H](C)C(=O)O"]


@pytest.mark.parametrize("texts", [SMILES, [], ["(", ""], ["C"]])
def test_inputs_do_not_depend_on_the_size_of_the_pieces(monkeypatch, texts):
    whole = featurise(texts)
    monkeypatch.setattr(inputs, "PIECE", 2)
    pieces = featurise(texts)
    assert pieces.errors == whole.errors
    assert pieces.canonical == whole.canonical
    assert torch.equal(pieces.row_index, whole.row_index)
    ours, theirs = pieces.inputs, whole.inputs
    assert ours.molecules.smiles == theirs.molecules.smiles
    for name in ("counts", "pairs", "descriptors"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr"):
        assert torch.equal(*(getattr(each.molecules.arrays, name) for each in (ours, theirs)))


def test_a_selection_shares_the_stored_molecules():
    packed = featurise(SMILES).inputs
    some = packed[torch.tensor([4, 0])]
    assert some.packed is packed.packed
    assert some[[1]].molecules.smiles == ["CCO"]


def test_packed_and_expanded_inputs_train_the_same_model():
    texts = [f"{'C' * length}{end}" for length in range(1, 13) for end in ("O", "N", "Cl")]
    y = torch.arange(36.0)[:, None].double().sqrt()
    packed = featurise(texts).inputs
    expanded = ExpandedInputs(packed.molecules, packed.counts, packed.descriptors)
    settings = MoleculeSettings(epochs=2, width=16, heads=2, layers=1, batch_size=8)
    means = []
    for stored in (packed, expanded):
        train, val = stored[:30], stored[30:]
        predictor = MoleculePredictor.fit(
            FitPart(train, y[:30]), FitPart(val, y[30:]), "regression", settings
        )
        means.append(predictor.predict(stored).mean)
    assert torch.equal(*means)
