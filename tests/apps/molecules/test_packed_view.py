"""Tests of packed inputs: molecules remain packed, and their storage does not change a training."""

import pytest
import torch

from gattn.apps.molecules import inputs
from gattn.apps.molecules.inputs import featurise

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
